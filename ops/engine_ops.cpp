#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/op/execute.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/elementwise/binary.h>

// Ops that the tape calls and that lie above it: sums of cotangents, and in anomaly mode whether all is finite.

namespace ct {
CT_KERNEL_TABLES(all_finite)
}  // namespace ct

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

constexpr InputDef kChecked[] = {{.name = "x", .gradient = false, .contiguous = true}};
constexpr OutputDef kFound[] = {{.name = "found", .gradient = false}};
constexpr OpDef k_all_finite = checked({
    .name = "all_finite",
    .formula = "found = 1 if an element is infinite or NaN, else 0",
    .inputs = kChecked,
    .outputs = kFound,
    .infer = [](Infer& i) { i.output({}, DType::i32); },
    .kernels = &kernel_tables::all_finite,
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
