#include <cotangent/core/op/execute.h>

#include <algorithm>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/inline_vector.h>
#include <cotangent/core/op/op_def.h>

namespace ct {
namespace {

[[noreturn, gnu::cold, gnu::noinline]] void fail_no_kernel(const OpDef& op, const char* kind, Device device) {
  detail::fail<DeviceError>(op.name, "has no ", kind, "kernel for ", to_string(device),
                            "; move the inputs with .to(device) to a device that it has one for");
}

[[gnu::noinline]] void run_on_copies(ForwardFn kernel, const Forward& call, std::uint32_t wanted) {
  InlineVector<Tensor, 4> copies;
  InlineVector<const Tensor*, 4> inputs;
  copies.resize(call.inputs.size());
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& t = *call.inputs[i];
    const bool copy = wants_copy(call.op.inputs, wanted, i, t);
    inputs.emplace_back(copy ? &(copies[i] = detail::packed(t)) : &t);
  }
  const Forward with{call.op, {inputs.begin(), inputs.size()}, call.outputs, call.attrs_view};
  detail::observed(with, kernel);
}

inline void run(const Forward& call, Device device, KernelKind kind) {
  const OpDef& op = call.op;
  const ForwardFn kernel = kernels_of(op, kind).forward;
  if (!kernel) [[unlikely]]
    fail_no_kernel(op, "", device);
  const std::uint32_t wanted = contiguous_for(op, kind, op.contiguous_inputs);
  if (wanted != 0)
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      if (wants_copy(op.inputs, wanted, i, *call.inputs[i])) return run_on_copies(kernel, call, wanted);
  detail::observed(call, kernel);
}

template <class Records>
void pack(std::span<Tensor> tensors, Records records, std::uint32_t wanted) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (wants_copy(records, wanted, i, tensors[i])) tensors[i] = detail::packed(tensors[i]);
}

}  // namespace

void execute(Device device, const Forward& call) {
  run(call, device, kernel_kind(call.op, device, call.in(0).dtype()));
}

void execute(Device device, const Backward& given, std::span<Tensor> inputs, std::span<Tensor> outputs) {
  const DeviceGuard guard(device);
  const OpDef& op = given.op;
  const KernelKind kind = kernel_kind(op, device, given.input_metas[0].dtype);
  const BackwardFn kernel = kernels_of(op, kind).backward;
  if (!kernel) [[unlikely]]
    fail_no_kernel(op, "backward ", device);
  const std::uint32_t wanted = contiguous_for(op, kind, op.contiguous_outputs);
  std::span<const Tensor> grads = given.grads;
  InlineVector<Tensor, 4> copied;
  if ((wanted | op.contiguous_saved) != 0) {
    pack(inputs, op.inputs, contiguous_for(op, kind, op.contiguous_saved));
    pack(outputs, op.outputs, wanted);
    bool any = false;
    for (std::size_t k = 0; k < grads.size(); ++k) any = any || wants_copy(op.outputs, wanted, k, grads[k]);
    if (any) {
      for (const Tensor& g : grads) copied.emplace_back(g);
      pack(copied, op.outputs, wanted);
      grads = copied;
    }
  }
  const Backward call{
      op,          given.attrs_view, grads, inputs, outputs, given.input_metas, given.grad_inputs,
      given.flags, given.last};
  detail::observed(call, kernel);
}

void detail::write(const OpDef& op, std::initializer_list<const Tensor*> inputs, AttrsView attrs) {
  Tensor y = **inputs.begin();
  const DeviceGuard guard(y.device());
  execute(y.device(), Forward{op, {inputs.begin(), inputs.size()}, {&y, 1}, attrs});
}

void detail::write(const OpDef& op, std::span<const Tensor* const> inputs, AttrsView attrs) {
  const auto first = std::ranges::find_if(inputs, [](const Tensor* t) { return t->defined(); });
  const Device device = first == inputs.end() ? cpu : (*first)->device();
  InlineVector<Tensor, 4> written;
  if (traced()) [[unlikely]]
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i]->defined() && input_record(op, i).written) written.emplace_back(*inputs[i]);
  const DeviceGuard guard(device);
  run({op, inputs, written, attrs}, device, kernel_kind(op, device, DType::f32));
}

}  // namespace ct
