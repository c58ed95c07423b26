#include <cotangent/nn/optim/clip_grad.h>

#include <cmath>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/per_thread.h>
#include <cotangent/nn/optim/multi_tensor_internal.h>
#include <cotangent/ops/creation/creation.h>

namespace ct::optim {
namespace {

// The gradients by dtype, and the device they are all on.
struct Gradients {
  std::vector<internal::Batch> batches;
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
      internal::Entry& e = batch(grad.dtype()).entries.emplace_back();
      e.grad = grad.raw_data();
      e.count = grad.numel();
      tensors.push_back(std::move(grad));
    }
  }

  internal::Batch& batch(DType dtype) {
    for (internal::Batch& b : batches)
      if (b.dtype == dtype) return b;
    return batches.emplace_back(internal::Batch{dtype, {}});
  }

  DType norm_dtype() const {
    for (const internal::Batch& b : batches)
      if (b.dtype == DType::f64 && !b.entries.empty()) return DType::f64;
    return DType::f32;
  }

  void bump_versions() const {
    for (const Tensor& t : tensors) t.impl()->storage->bump_version();
  }
};

// A thread's Gradients, empty: they keep their memory from one call to the next, but hold no tensor.
class Lease {
 public:
  Lease() = default;
  ~Lease() {
    gradients_.tensors.clear();
    for (internal::Batch& b : gradients_.batches) b.entries.clear();
  }
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
  internal::reserve_scratch(grads.tensors.size());
  const DeviceGuard device(grads.device);
  const bool cuda = grads.device.is_cuda();
  const auto tensors = [&] { return grads.tensors; };
  Tensor norm;
  ct::detail::work(op, tensors, [&] {
    norm = cuda ? internal::norm_cuda(op, grads.batches, options.norm_type, grads.norm_dtype())
                : on_cpu(cpu_tables::optim).norm(grads.batches, options.norm_type, grads.norm_dtype());
  });
  if (options.error_if_nonfinite) {
    const double value = norm.item();
    CT_CHECK(std::isfinite(value), ValueError, op, "the norm of the gradients is ", value,
             "; look for the op that made it with anomaly mode, or lower the learning rate");
  }
  ct::detail::work(op, tensors, [&] {
    for (const internal::Batch& batch : grads.batches) {
      cuda ? internal::scale_cuda(op, batch, norm, max_norm)
           : on_cpu(cpu_tables::optim).scale(batch, norm, max_norm);
    }
  });
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
  internal::reserve_scratch(grads.tensors.size());
  const DeviceGuard device(grads.device);
  ct::detail::work(
      op, [&] { return grads.tensors; },
      [&] {
        for (const internal::Batch& batch : grads.batches) {
          grads.device.is_cuda() ? internal::clamp_cuda(op, batch, limit)
                                 : on_cpu(cpu_tables::optim).clamp(batch, limit);
        }
      });
  grads.bump_versions();
}

}  // namespace ct::optim
