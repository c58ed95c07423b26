#include <cotangent/ops/softmax/softmax.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <cotangent/core/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/softmax/softmax_internal.h>

namespace ct {
CT_KERNEL_TABLES(softmax)
namespace {

using softmax_kernels::Attrs;
using softmax_kernels::Extents;

void infer(Infer& infer) {
  const Tensor& x = infer.in(0);
  wrap_axis(infer.op.name, infer.attrs<Attrs>().axis, x.dim());
  infer.output(x.shape(), x.dtype());
}

Cost cost(std::span<const TensorMeta> inputs, std::span<const TensorMeta>, AttrsView) {
  const double n = static_cast<double>(numel(inputs[0].shape));
  return {5 * n, 2 * n * static_cast<double>(size_of(inputs[0].dtype))};
}

std::vector<Sample> samples(SampleMaker& make) {
  // Central differences of a sum over thousands of logarithms drown in its rounding: `smooth` leaves them
  // out.
  const auto sample = [&](const Shape& shape, std::int64_t axis, const char* label, bool smooth = true) {
    return Sample{{make.normal(shape)}, Attrs{axis}, label, smooth};
  };
  return {
      sample({5, 10}, -1, "short rows"),
      sample({3, 129}, 1, "odd rows"),
      sample({6, 64}, 1, "rows of whole vectors"),
      sample({2, 1500}, 1, "long odd rows", false),
      sample({2, 2048}, -1, "long rows of whole vectors", false),
      sample({7, 5}, 0, "first axis"),
      sample({2, 9, 33}, 1, "middle axis"),
      sample({2, 1, 3}, 1, "axis of size 1"),
      sample({4, 6, 1}, 1, "axis before one of size 1"),
      sample({}, 0, "scalar"),
      sample({3, 0}, 1, "empty axis"),
      sample({0, 4}, 1, "no rows"),
      {{make.values({2, 3}, {1000, 1001, 999, -500, -500, -502})}, Attrs{1}, "far from 0"},
      {{make.values({1, 3}, {-std::numeric_limits<double>::infinity(), 0, 1})},
       Attrs{1},
       "minus infinity",
       false},
  };
}

std::vector<ErrorSample> error_samples(SampleMaker& make) {
  return {{{make.normal({2, 3})}, Attrs{2}, "axis"},
          {{make.normal({2, 3})}, Attrs{-3}, "axis"},
          {{make.index({2, 3}, 5)}, Attrs{1}, "supported dtypes are f32"}};
}

template <bool logarithm>
void rule(const Backward& b) {
  if (!b.needs(0)) return;
  const Dims axis{b.attrs<Attrs>().axis};
  const Tensor &g = b.grad(), &y = b.out();
  if (b.in_meta(0).shape.empty()) return b.set_grad_in(0, 0 * g);  // one element: y does not change
  if constexpr (logarithm) {
    b.set_grad_in(0, g - exp(y) * sum(g, axis, true));
  } else {
    b.set_grad_in(0, y * (g - sum(g * y, axis, true)));
  }
}

constexpr InputDef kInputs[] = {{.name = "x", .needs = "y", .packed = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .packed = true}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, axis)};

template <bool logarithm>
constexpr OpDef define(const char* name, const char* formula) {
  OpDef op{};
  op.name = name;
  op.formula = formula;
  op.inputs = kInputs;
  op.outputs = kOutputs;
  op.attributes = kAttributes;
  op.rule = rule<logarithm>;
  op.infer = infer;
  op.kernels = &kernel_tables::softmax;
  op.autocast = AutocastPolicy::f32;
  op.cost = cost;
  op.samples = samples;
  op.error_samples = error_samples;
  return op;
}

constexpr OpDef k_softmax = checked(define<false>("softmax", "y = exp(x) / sum(exp(x))"));
constexpr OpDef k_log_softmax = checked(define<true>("log_softmax", "y = x - log(sum(exp(x)))"));

}  // namespace

Tensor softmax(const Tensor& x, Integer axis) { return dispatch(k_softmax, {x}, Attrs{axis}); }
Tensor log_softmax(const Tensor& x, Integer axis) { return dispatch(k_log_softmax, {x}, Attrs{axis}); }

CT_ROOM(softmax, &k_softmax, &k_log_softmax)
}  // namespace ct
