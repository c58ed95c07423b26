#include <atomic>
#include <cmath>
#include <limits>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/memory.h>
#include <cotangent/core/parallel.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/engine_ops_internal.h>

// Ops that the engine calls: sums of cotangents, zeros, ones, copies.

namespace ct::detail {
namespace {

void engine_add(Tensor& sum, const Tensor& b, bool in_place) {
  if (in_place) {
    const NoGrad guard;
    sum.add_(b);
  } else {
    sum = add(sum, b);
  }
}

Tensor engine_zeros(const TensorMeta& meta) {
  Tensor t = Tensor::allocate(meta.shape, meta.dtype, meta.device);
  zero_bytes(t.raw_data(), meta.device, static_cast<std::size_t>(t.nbytes()));
  return t;
}

Tensor engine_ones(const TensorMeta& meta) {
  Tensor t = Tensor::allocate(meta.shape, meta.dtype, meta.device);
  fill_kernel(t, 1);
  return t;
}

Tensor engine_clone(const Tensor& t) { return grad_enabled() ? t.clone() : moved(t, t.device()); }

Tensor engine_contiguous(const Tensor& t) { return contiguous(t); }

bool all_finite_cpu(const Tensor& t) {
  std::atomic<bool> finite{true};
  visit_floating("all_finite", t.dtype(), [&]<class T>(TypeTag<T>) {
    const T* data = static_cast<const T*>(t.raw_data());
    parallel_for(t.numel(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      int bad = 0;  // without a branch, so that the loop vectorises
      for (std::int64_t i = begin; i < end; ++i) {
        const auto x = static_cast<compute_t<T>>(data[i]);
        bad |= !(std::abs(x) <= std::numeric_limits<compute_t<T>>::max());
      }
      if (bad) finite.store(false, std::memory_order_relaxed);
    });
  });
  return finite.load();
}

bool engine_all_finite(const Tensor& t) {
  if (t.numel() == 0) return true;
  const Tensor dense = contiguous(t);
  if (t.is_cuda()) {
    const DeviceGuard guard(t.device());
    return all_finite_cuda(dense);
  }
  return all_finite_cpu(dense);
}

}  // namespace

const EngineOps engine_ops{engine_add,   engine_zeros,      engine_ones,
                           engine_clone, engine_contiguous, engine_all_finite};

}  // namespace ct::detail
