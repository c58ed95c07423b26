#include <cotangent/nn/optim/clip_grad.h>

#include <cmath>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/per_thread.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/update/update_internal.h>

namespace ct::optim {
namespace {

// The gradients, and the device they are all on.
struct Gradients {
  std::vector<Tensor> tensors;
  Device device;

  void collect(const char* op, const std::vector<Tensor>& params) {
    for (const Tensor& p : params) {
      Tensor grad = p.grad();
      if (!grad.defined()) continue;
      if (!grad.is_contiguous()) {
        grad = grad.contiguous();
        Tensor(p).set_grad(grad);  // the scaled gradients must be those that the optimizer reads
      }
      if (tensors.empty()) device = grad.device();
      CT_CHECK(grad.device() == device, DeviceError, op, "gradients are on ", to_string(device), " and ",
               to_string(grad.device()), "; clip the parameters of each device on their own");
      tensors.push_back(std::move(grad));
    }
  }

  DType norm_dtype() const {
    for (const Tensor& t : tensors)
      if (t.dtype() == DType::f64) return DType::f64;
    return DType::f32;
  }

  // Inputs of an op: `others`, and the gradients.
  std::span<const Tensor* const> with(std::initializer_list<const Tensor*> others) const {
    std::vector<const Tensor*>& inputs = update::many::scratch_inputs();
    inputs.insert(inputs.end(), others);
    for (const Tensor& t : tensors) inputs.push_back(&t);
    return inputs;
  }

  void bump_versions() const {
    for (const Tensor& t : tensors) t.impl()->storage->bump_version();
  }
};

// A thread's Gradients, empty: the list keeps its memory from one call to the next, but holds no tensor.
class Lease {
 public:
  Lease() = default;
  ~Lease() { gradients_.tensors.clear(); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Gradients& operator*() { return gradients_; }

 private:
  Gradients& gradients_ = per_thread<Gradients>();
};

}  // namespace

Tensor clip_grad_norm_(const std::vector<Tensor>& params, double max_norm, ClipOptions options) {
  constexpr const char* op = "clip_grad_norm_";
  CT_CHECK(max_norm >= 0, ValueError, op, "max_norm is ", max_norm, "; it must be >= 0");
  CT_CHECK(options.norm_type > 0, ValueError, op, "norm_type is ", options.norm_type,
           "; it must be > 0 (2, 1, infinity, ...)");
  const NoGrad no_grad;
  Lease lease;
  Gradients& grads = *lease;
  grads.collect(op, params);
  if (grads.tensors.empty()) return zeros({});
  update::many::reserve_scratch(grads.tensors.size(), grads.tensors.size() + 1);
  const DeviceGuard device(grads.device);
  Tensor norm = Tensor::allocate({}, grads.norm_dtype(), grads.device);
  execute(grads.device,
          Forward{update::k_total_norm, grads.with({}), {&norm, 1}, update::NormAttrs{options.norm_type}});
  if (options.error_if_nonfinite) {
    const double value = norm.item();
    CT_CHECK(std::isfinite(value), ValueError, op, "the norm of the gradients is ", value,
             "; look for the op that made it with anomaly mode, or lower the learning rate");
  }
  ct::detail::write(update::k_clip_to_norm, grads.with({&norm}), update::ClipAttrs{max_norm});
  grads.bump_versions();
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& params, double limit) {
  constexpr const char* op = "clip_grad_value_";
  CT_CHECK(limit >= 0, ValueError, op, "the limit is ", limit, "; it must be >= 0");
  const NoGrad no_grad;
  Lease lease;
  Gradients& grads = *lease;
  grads.collect(op, params);
  if (grads.tensors.empty()) return;
  update::many::reserve_scratch(grads.tensors.size(), grads.tensors.size());
  ct::detail::write(update::k_clip_values, grads.with({}), update::ClampAttrs{limit});
  grads.bump_versions();
}

}  // namespace ct::optim
