#include <cotangent/core/op/kernel_records.h>

#include <cotangent/core/device/cpu_level.h>
#include <cotangent/core/device/kernel_tables.h>

namespace ct {

const void* record_of(const OpDef& op, std::string_view kind, bool on_gpu) {
  if (!op.kernels) return nullptr;
  const KernelTable* const table =
      (*op.kernels)[on_gpu ? kCudaTable : kCpuTables + detail::cpu_level_index()];
  if (!table) return nullptr;
  for (const KernelEntry& entry : std::span(table->entries, table->size)) {
    const std::string_view name(entry.op), of(op.name);
    if (!name.starts_with(of) || name.substr(of.size()) != kind) continue;
    const void* record = nullptr;
    entry.kernels.forward({op, {}, {}, {&record, sizeof record}});
    return record;
  }
  return nullptr;
}

}  // namespace ct
