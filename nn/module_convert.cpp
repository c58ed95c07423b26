#include <optional>
#include <utility>
#include <vector>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/error.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/nn/module_internal.h>

// Moving a module to another device or dtype. The data of each tensor is exchanged inside its TensorImpl, so
// that every handle to it, whoever holds it, sees the new place.

namespace ct::nn {

void detail::take_place(const Tensor& t, const Tensor& source) {
  TensorImpl& to = *t.impl();
  const TensorImpl& from = *source.impl();
  to.storage = from.storage;
  to.offset = from.offset;
  to.strides = from.strides;
  to.dtype = from.dtype;
  to.contiguous = from.contiguous;
  to.is_view = false;
  to.history_version = from.storage->history_version();
  ct::detail::bump_state_epoch();
}

namespace {

Tensor converted(const Tensor& t, std::optional<Device> device, std::optional<DType> dtype) {
  Tensor result = t.detach();
  if (dtype && is_floating(t.dtype())) result = result.to(*dtype);
  if (device) result = result.to(*device);
  return result;
}

void convert(const Module& module, std::optional<Device> device, std::optional<DType> dtype) {
  if (device) check_device("to", *device);
  CT_CHECK(!dtype || is_floating(*dtype), DTypeError, "to", "got ", *dtype,
           "; a module's parameters are floating: use f32, f64, f16 or bf16");
  const NoGrad guard;
  struct Change {
    Tensor tensor, data, grad;
  };
  // Everything that can fail comes first.
  std::vector<Change> changes;
  for (const auto& list : {module.named_parameters(), module.named_buffers()}) {
    for (const Named<Tensor>& entry : list) {
      Change change{entry.value, converted(entry.value, device, dtype), {}};
      if (const Tensor grad = entry.value.grad(); grad.defined())
        change.grad = converted(grad, device, dtype);
      changes.push_back(std::move(change));
    }
  }
  for (Change& c : changes) {
    if (c.data.impl()->storage != c.tensor.impl()->storage) detail::take_place(c.tensor, c.data);
    if (c.grad.defined()) c.tensor.set_grad(c.grad);
  }
}

}  // namespace

void Module::to(Device device) { convert(*this, device, {}); }
void Module::to(DType dtype) { convert(*this, {}, dtype); }
void Module::to(Device device, DType dtype) { convert(*this, device, dtype); }

}  // namespace ct::nn
