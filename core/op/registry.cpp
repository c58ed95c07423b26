#include <cotangent/core/op/registry.h>

#include <atomic>
#include <mutex>

namespace ct {
namespace {

struct UserOps {
  std::mutex mutex;
  std::vector<const OpDef*> ops;
};
UserOps& user_ops() {
  static UserOps* const ops = new UserOps;  // never destroyed: static objects may still ask at exit
  return *ops;
}

const OpDef* find_in(std::span<const OpDef* const> ops, std::string_view name) {
  for (const OpDef* op : ops)
    if (name == op->name) return op;
  return nullptr;
}

const OpDef* find_builtin(std::string_view name) {
  for (const Room* room : detail::builtin_rooms())
    if (const OpDef* op = find_in(room->ops, name)) return op;
  return nullptr;
}

const Kernels* find_kernels(const OpDef& op, KernelKind kind) {
  if (!op.kernels) return nullptr;
  const int place = kind == KernelKind::cuda    ? kCudaTable
                    : kind == KernelKind::plain ? kPlainTable
                                                : kCpuTables + detail::cpu_level_index();
  if (const KernelTable* table = (*op.kernels)[place])
    for (const KernelEntry& entry : std::span(table->entries, table->size))
      if (std::string_view(entry.op) == op.name) return &entry.kernels;
  return nullptr;
}

}  // namespace

void detail::link_kernels(const OpDef& op, KernelKind kind) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto i = static_cast<std::size_t>(kind);
  const std::atomic_ref ready(op.linked.ready[i]);
  if (ready.load(std::memory_order_relaxed)) return;
  const auto find = [&](const Kernels& named, KernelKind where) {
    if (named.forward || named.backward) return named;
    const Kernels* found = find_kernels(op, where);
    return found ? *found : Kernels{};
  };
  Kernels kernels;
  if (kind == KernelKind::cuda) kernels = find(op.cuda, kind);
  if (kind == KernelKind::plain) {
    kernels = find(op.plain, kind);
    op.linked.has_plain = kernels.forward != nullptr;
  }
  if (kind != KernelKind::cuda && !kernels.forward) kernels = find(op.cpu, KernelKind::cpu);
  op.linked.kernels[i] = kernels;
  ready.store(true, std::memory_order_release);
}

std::vector<const OpDef*> registry() {
  std::vector<const OpDef*> all;
  for (const Room* room : detail::builtin_rooms()) all.insert(all.end(), room->ops.begin(), room->ops.end());
  std::lock_guard lock(user_ops().mutex);
  all.insert(all.end(), user_ops().ops.begin(), user_ops().ops.end());
  return all;
}

const OpDef* find_op(std::string_view name) {
  if (const OpDef* op = find_builtin(name)) return op;
  std::lock_guard lock(user_ops().mutex);
  return find_in(user_ops().ops, name);
}

void register_op(const OpDef& op) {
  const OpDef* builtin = find_builtin(op.name);
  std::lock_guard lock(user_ops().mutex);
  const OpDef* known = builtin ? builtin : find_in(user_ops().ops, op.name);
  if (known == &op) return;
  CT_CHECK(known == nullptr, ValueError, "register_op", "an op named '", op.name,
           "' exists already; give the new one another name");
  user_ops().ops.push_back(&op);
}

void unregister_op(const OpDef& op) {
  std::lock_guard lock(user_ops().mutex);
  std::erase(user_ops().ops, &op);
}

}  // namespace ct
