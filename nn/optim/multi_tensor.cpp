#include <cotangent/core/base/per_thread.h>
#include <cotangent/nn/optim/multi_tensor_internal.h>

namespace ct::optim::internal {

std::vector<Entry>& scratch_entries() {
  std::vector<Entry>& entries = per_thread<std::vector<Entry>>();
  entries.clear();
  return entries;
}
std::vector<std::int64_t>& scratch_starts() {
  std::vector<std::int64_t>& starts = per_thread<std::vector<std::int64_t>, struct Starts>();
  starts.clear();
  return starts;
}
void reserve_scratch(std::size_t entries) {
  scratch_entries().reserve(entries);
  scratch_starts().reserve(entries + 1);
}

template <class Rule>
void apply_rule(const char* op, Device device, DType dtype, std::span<const Entry> entries, const Rule& rule,
                const StepGate& gate) {
  if (device.is_cuda()) return apply_rule_cuda(op, dtype, entries, rule, gate);
#define CT_APPLY(rule_type, table)               \
  if constexpr (std::is_same_v<Rule, rule_type>) \
    on_cpu(cpu_tables::table).apply(op, dtype, entries, rule, gate);
  CT_OPTIM_RULES(CT_APPLY)
#undef CT_APPLY
}
#define CT_APPLY(rule, table) \
  template void apply_rule(const char*, Device, DType, std::span<const Entry>, const rule&, const StepGate&);
CT_OPTIM_RULES(CT_APPLY)
#undef CT_APPLY

}  // namespace ct::optim::internal
