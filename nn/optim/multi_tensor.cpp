#include <cotangent/nn/optim/multi_tensor_internal.h>

namespace ct::optim::internal {

std::vector<Entry>& scratch_entries() {
  thread_local std::vector<Entry> entries;
  entries.clear();
  return entries;
}

template <class Rule>
void apply_rule(const char* op, Device device, DType dtype, std::span<const Entry> entries, const Rule& rule,
                const StepGate& gate) {
#ifdef COTANGENT_CUDA
  if (device.is_cuda()) return apply_rule_cuda(op, dtype, entries, rule, gate);
#endif
  CT_CHECK(device.is_cpu(), DeviceError, op, "has no kernel for ", to_string(device),
           "; this library was built without CUDA");
  apply_rule_cpu(op, dtype, entries, rule, gate);
}
template void apply_rule(const char*, Device, DType, std::span<const Entry>, const SgdRule&, const StepGate&);
template void apply_rule(const char*, Device, DType, std::span<const Entry>, const AdamRule&,
                         const StepGate&);

}  // namespace ct::optim::internal
