#include <atomic>
#include <cmath>
#include <limits>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/op/execute.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/engine_ops_internal.h>

// Ops that the tape calls and that lie above it: sums of cotangents, and in anomaly mode whether all is finite.

namespace ct::detail {
void add_gradient(Tensor& sum, const Tensor& b, bool in_place) {
  if (in_place) {
    const NoGrad guard;
    sum.add_(b);
  } else {
    sum = add(sum, b);
  }
}

namespace {

// ---- all_finite -------------------------------------------------------------------------------------------

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

void all_finite_forward(const Forward& call) {
  if (call.in(0).is_cuda()) return find_non_finite_cuda(call.in(0), call.out());
  *call.out().data<std::int32_t>() = !all_finite_cpu(call.in(0));
}

constexpr InputDef kChecked[] = {{.name = "x", .gradient = false, .contiguous = true}};
constexpr OutputDef kFound[] = {{.name = "found", .gradient = false}};
constexpr OpDef k_all_finite = checked({
    .name = "all_finite",
    .formula = "found = 1 if an element is infinite or NaN, else 0",
    .inputs = kChecked,
    .outputs = kFound,
    .infer = [](Infer& i) { i.output({}, DType::i32); },
    .cpu = {all_finite_forward},
    .cuda = {all_finite_forward},
});

}  // namespace

bool all_finite(const Tensor& t) {
  if (t.numel() == 0) return true;
  Tensor found = Tensor::allocate({}, DType::i32, t.device());
  const Tensor* inputs[] = {&t};
  const DeviceGuard guard(t.device());
  execute(t.device(), {k_all_finite, inputs, {&found, 1}, {}});
  return found.item<int>() == 0;
}

}  // namespace ct::detail
