#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/op/execute.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/engine/walk/copy.h>

// Ops that the engine calls: sums of cotangents, zeros, ones, copies.

namespace ct {
CT_KERNEL_TABLES(all_finite)
}  // namespace ct

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

Tensor engine_full(const TensorMeta& meta, double value) {
  Tensor t = Tensor::allocate(meta.shape, meta.dtype, meta.device);
  calls::fill(t, value);
  return t;
}
Tensor engine_zeros(const TensorMeta& meta) { return engine_full(meta, 0); }
Tensor engine_ones(const TensorMeta& meta) { return engine_full(meta, 1); }

Tensor engine_clone(const Tensor& t) { return grad_enabled() ? t.clone() : calls::moved(t, t.device()); }

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

bool engine_all_finite(const Tensor& t) {
  if (t.numel() == 0) return true;
  Tensor found = Tensor::allocate({}, DType::i32, t.device());
  const Tensor* inputs[] = {&t};
  const DeviceGuard guard(t.device());
  execute(t.device(), {k_all_finite, inputs, {&found, 1}, {}});
  return found.item<int>() == 0;
}

}  // namespace

const EngineOps engine_ops{engine_add, engine_zeros, engine_ones, engine_clone, engine_all_finite};

}  // namespace ct::detail
