#include <limits>
#include <utility>

#include <cotangent/ops/normalization/normalization_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using normalization::Attrs;

template <bool centered, bool with_residual>
std::vector<Sample> samples(SampleMaker& make) {
  std::vector<Sample> all;
  const auto add = [&](const Shape& shape, std::int64_t axes, bool weight, bool bias, const char* label,
                       double eps = 1e-5) {
    Sample s;
    Shape row;
    for (auto i = static_cast<int>(shape.size() - axes); i < shape.size(); ++i) row.push_back(shape[i]);
    s.inputs.push_back(make.normal(shape));
    if (with_residual) s.inputs.push_back(make.normal(shape));
    s.inputs.push_back(weight ? make.uniform(row, 0.5, 1.5) : Tensor{});
    if (centered) s.inputs.push_back(bias ? make.normal(row) : Tensor{});
    s.attrs = Attrs{eps, axes};
    s.label = label;
    s.smooth = row.empty() || numel(row) < 500;  // central differences of long sums drown in their rounding
    all.push_back(std::move(s));
  };
  add({4, 6}, 1, true, true, "short rows");
  add({4, 6}, 1, false, false, "no weight");
  add({4, 6}, 1, true, false, "weight alone");
  if (centered) add({4, 6}, 1, false, true, "bias alone");
  add({2, 3, 64}, 1, true, true, "rows of whole vectors");
  add({5, 129}, 1, true, true, "odd rows");
  add({3, 768}, 1, true, true, "three vectors per lane");
  add({2, 1500}, 1, true, true, "rows of several blocks");
  add({21, 2, 3}, 2, true, true, "rows of two axes");
  add({70, 8}, 1, true, true, "many rows");
  add({8}, 1, true, true, "one row");
  add({3, 5}, 1, true, true, "a large eps", 0.5);
  add({0, 4}, 1, true, true, "no rows");
  add({3, 0}, 1, true, true, "empty rows");
  return all;
}

template <bool centered, bool with_residual>
std::vector<ErrorSample> error_samples(SampleMaker& make) {
  std::vector<ErrorSample> all;
  const auto add = [&](const Tensor& x, Tensor weight, Tensor bias, const Attrs& attrs, const char* message) {
    ErrorSample s;
    s.inputs.push_back(x);
    if (with_residual) s.inputs.push_back(x);
    s.inputs.push_back(std::move(weight));
    if (centered) s.inputs.push_back(std::move(bias));
    s.attrs = attrs;
    s.message = message;
    all.push_back(std::move(s));
  };
  add(make.normal({4, 6}), make.normal({5}), {}, {1e-5, 1}, "weight is f64[5], x is f64[4, 6]");
  add(make.normal({4, 6}), make.normal({2, 4, 6}), {}, {1e-5, 3}, "x's last axis");
  add(make.normal({}), {}, {}, {1e-5, 1}, "it needs an axis");
  add(make.normal({4, 6}), {}, {}, {-1, 1}, "eps is -1");
  add(make.normal({4, 6}), {}, {}, {std::numeric_limits<double>::infinity(), 1}, "eps is inf");
  add(make.index({4, 6}, 3), {}, {}, {1e-5, 1}, "supported dtypes are f32");
  add(make.normal({4, 6}), {}, {}, {1e-5, 1, f16}, "y has x's dtype, or 16 bits where");
  if (centered) add(make.normal({4, 6}), make.normal({6}), make.normal({4}), {1e-5, 1}, "bias is f64[4]");
  if (with_residual) {
    all.push_back(all[0]);
    all.back().inputs[1] = make.normal({6});
    all.back().message = "residual is f64[6], x is f64[4, 6]";
    add(make.normal({4, 6}).to(f32), {}, {}, {1e-5, 1, f16}, "residual must have the dtype of one of them");
    all.back().inputs[1] = make.normal({4, 6}).to(bf16);
  }
  return all;
}

template <bool centered, bool with_residual>
constexpr OpTests tests(const char* op) {
  return {op, samples<centered, with_residual>, error_samples<centered, with_residual>};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(normalization, tests<true, false>("layer_norm"), tests<true, true>("add_layer_norm"),
            tests<false, false>("rms_norm"), tests<false, true>("add_rms_norm"))
