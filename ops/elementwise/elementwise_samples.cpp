#include <cmath>
#include <limits>

#include <cotangent/ops/engine/map/unary.h>
#include <cotangent/ops/testing/references.h>
#include <cotangent/ops/testing/samples.h>

// Samples of the ops of one tensor, with or without a number, and of where. Values are chosen so that they stay in
// range, and mean the same, when the suite turns them into small integers.

namespace ct {
namespace {

using map::Parameters;
using testing::operator<<;

// ---- Oracles: the formulas once more, in the plainest way, in f64 -----------------------------------------

// Samples of x, p and q.
using Formula = double (*)(double, double, double);

template <Formula f>
std::vector<Tensor> reference(std::span<const Tensor> in, AttrsView attrs) {
  const Parameters parameters = map::parameters_of(attrs);
  const double p = parameters.p.to<double>(), q = parameters.q.to<double>();
  return {testing::by_index(in[0].shape(), [&](const Dims& i) { return f(testing::at(in[0], i), p, q); })};
}

#define CT_REFERENCE(name, expression)                                                                     \
  double name##_formula([[maybe_unused]] double x, [[maybe_unused]] double p, [[maybe_unused]] double q) { \
    return expression;                                                                                     \
  }
CT_REFERENCE(neg, -x)
CT_REFERENCE(abs, std::fabs(x))
CT_REFERENCE(sign, x == 0 ? 0 : std::copysign(1.0, x))
CT_REFERENCE(exp, std::exp(x))
CT_REFERENCE(log, std::log(x))
CT_REFERENCE(sqrt, std::sqrt(x))
CT_REFERENCE(rsqrt, 1 / std::sqrt(x))
CT_REFERENCE(square, std::pow(x, 2))
CT_REFERENCE(cube, std::pow(x, 3))
CT_REFERENCE(reciprocal, 1 / x)
CT_REFERENCE(sin, std::sin(x))
CT_REFERENCE(cos, std::cos(x))
CT_REFERENCE(tanh, std::tanh(x))
CT_REFERENCE(sigmoid, 0.5 * (1 + std::tanh(0.5 * x)))
CT_REFERENCE(relu, std::fmax(x, 0.0))
CT_REFERENCE(leaky_relu, std::fmax(x, 0.0) + p * std::fmin(x, 0.0))
CT_REFERENCE(gelu, 0.5 * x * std::erfc(-x / std::sqrt(2.0)))
CT_REFERENCE(gelu_tanh,
             0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * std::pow(x, 3)))))
CT_REFERENCE(silu, x* sigmoid_formula(x, 0, 0))
CT_REFERENCE(softplus, p* x > q ? x : std::log1p(std::exp(p * x)) / p)
CT_REFERENCE(erf, std::erf(x))
CT_REFERENCE(clamp, std::fmin(std::fmax(x, p), q))
CT_REFERENCE(log1p, std::log(1 + x))
CT_REFERENCE(expm1, std::exp(x) - 1)
CT_REFERENCE(log2, std::log(x) / std::log(2.0))
CT_REFERENCE(log10, std::log(x) / std::log(10.0))
CT_REFERENCE(exp2, std::pow(2.0, x))
CT_REFERENCE(tan, std::sin(x) / std::cos(x))
CT_REFERENCE(asin, std::atan2(x, std::sqrt(1 - x * x)))
CT_REFERENCE(acos, std::atan2(std::sqrt(1 - x * x), x))
CT_REFERENCE(atan, std::atan2(x, 1.0))
CT_REFERENCE(sinh, (std::exp(x) - std::exp(-x)) / 2)
CT_REFERENCE(cosh, (std::exp(x) + std::exp(-x)) / 2)
CT_REFERENCE(asinh, std::log(x + std::sqrt(x * x + 1)))
CT_REFERENCE(acosh, std::log(x + std::sqrt(x * x - 1)))
CT_REFERENCE(atanh, std::log((1 + x) / (1 - x)) / 2)
CT_REFERENCE(erfc, 1 - std::erf(x))
CT_REFERENCE(floor, x - std::fmod(x, 1.0) - (std::fmod(x, 1.0) < 0))
CT_REFERENCE(ceil, -floor_formula(-x, 0, 0))
CT_REFERENCE(round, std::remainder(x, 1.0) == 0 ? x : x - std::remainder(x, 1.0))
CT_REFERENCE(trunc, x - std::fmod(x, 1.0))
CT_REFERENCE(nan_to_num, std::isnan(x) ? p : x)
CT_REFERENCE(inf_to_num, !std::isinf(x) ? x : x > 0 ? p : q)
CT_REFERENCE(elu, x > 0 ? x : p * (std::exp(x) - 1))
CT_REFERENCE(selu, 1.0507009873554805 * elu_formula(x, 1.6732632423543772, 0))
CT_REFERENCE(hardtanh, std::fmin(std::fmax(x, p), q))
CT_REFERENCE(hardsigmoid, std::fmin(std::fmax(x / 6 + 0.5, 0.0), 1.0))
CT_REFERENCE(hardswish, x* hardsigmoid_formula(x, 0, 0))
CT_REFERENCE(mish, x* std::tanh(std::log1p(std::exp(x))))
CT_REFERENCE(softsign, x < 0 ? x / (1 - x) : x / (1 + x))
CT_REFERENCE(logsigmoid, x < -30 ? x : -std::log1p(std::exp(-x)))

CT_REFERENCE(add_scalar, x + p)
CT_REFERENCE(rsub_scalar, p - x)
CT_REFERENCE(mul_scalar, x* p)
CT_REFERENCE(div_scalar, x / p)
CT_REFERENCE(rdiv_scalar, p / x)
CT_REFERENCE(pow_scalar, std::pow(x, p))
CT_REFERENCE(rpow_scalar, std::pow(p, x))
CT_REFERENCE(maximum_scalar, std::fmax(x, p))
CT_REFERENCE(minimum_scalar, std::fmin(x, p))
CT_REFERENCE(eq_scalar, !(x < p || x > p))
CT_REFERENCE(ne_scalar, x<p || x> p)
CT_REFERENCE(lt_scalar, p - x > 0)
CT_REFERENCE(le_scalar, !(x > p))
CT_REFERENCE(gt_scalar, x - p > 0)
CT_REFERENCE(ge_scalar, !(x < p))
CT_REFERENCE(logical_not, !x)
CT_REFERENCE(isnan, std::isnan(x))
CT_REFERENCE(isinf, std::isinf(x))
CT_REFERENCE(isfinite, std::isfinite(x))
#undef CT_REFERENCE

std::vector<Tensor> where_reference(std::span<const Tensor> in, AttrsView) {
  const Shape shape = broadcast_shapes("reference", in[1].shape(), in[2].shape());
  return {testing::by_index(broadcast_shapes("reference", in[0].shape(), shape), [&](const Dims& i) {
    return testing::at(testing::at(in[0], i) != 0 ? in[1] : in[2], i);
  })};
}
std::vector<Tensor> where_scalar_reference(std::span<const Tensor> in, AttrsView attrs) {
  const Parameters numbers = map::parameters_of(attrs);
  const double p = numbers.p.to<double>(), q = numbers.q.to<double>();
  return {testing::by_index(broadcast_shapes("reference", in[0].shape(), in[1].shape()), [&](const Dims& i) {
    return testing::at(in[0], i) == q ? p : testing::at(in[1], i);
  })};
}

// ---- Samples: the names in the tables' column --------------------------------------------------------------

namespace one {

// One input of every shape that finds a path of the kernels: scalar, empty, size 1, shorter than a vector,
// odd, several axes, whole vectors, several chunks.
template <class Make>
std::vector<Sample> each(Make&& make, AnyAttrs attrs = {}, bool smooth = true) {
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 0, 2}, Shape{1}, Shape{1, 7}, Shape{3, 5, 7},
                             Shape{4, 16}, Shape{2, 131}})
    samples.push_back({{make(shape)}, attrs, "", smooth});
  return samples;
}
std::vector<Sample> normal(SampleMaker& m, AnyAttrs attrs = {}, bool smooth = true) {
  return each([&](const Shape& s) { return m.normal(s); }, attrs, smooth);
}
std::vector<Sample> uniform(SampleMaker& m, double low, double high, AnyAttrs attrs = {}) {
  return each([&](const Shape& s) { return m.uniform(s, low, high); }, attrs);
}

std::vector<Sample> real(SampleMaker& m) { return normal(m); }
std::vector<Sample> positive(SampleMaker& m) { return uniform(m, 0.5, 3); }
// Away from 0 on both sides.
std::vector<Sample> nonzero(SampleMaker& m) {
  return positive(m) << std::vector<Sample>{{{m.uniform({4, 9}, -3, -0.5)}, {}, "negative"}};
}
// A kink at 0: values off it, and 0 itself without central differences.
std::vector<Sample> kink(SampleMaker& m) {
  return real(m) << std::vector<Sample>{{{m.values({5}, {-1, 0, 2, 0, -0.5})}, {}, "zeros", false}};
}
std::vector<Sample> slope(SampleMaker& m) {
  std::vector<Sample> samples{{{m.values({3}, {-1, 0, 2})}, Parameters{0.1, 0}, "zero", false}};
  for (const double slope : {0.01, 0.2, 1.0, -0.5}) samples = samples << normal(m, Parameters{slope, 0});
  return samples;
}
std::vector<Sample> softplus(SampleMaker& m) {
  return normal(m, Parameters{1, 20})
         << std::vector<Sample>{{{m.normal({3, 8})}, Parameters{2.5, 20}, "beta"},
                                {{m.normal({3, 8})}, Parameters{-1.5, 20}, "negative beta"},
                                {{m.values({6}, {-40, -3, 0, 3, 30, 60})}, Parameters{1, 20}, "far out"},
                                {{m.values({4}, {-1, 0.5, 1.5, 4})}, Parameters{1, 1}, "low threshold"}};
}
// Whole bounds, which mean the same for integers.
std::vector<Sample> clamp(SampleMaker& m) {
  constexpr double far = 1e9;
  return normal(m, Parameters{-1, 1}, false) << std::vector<Sample>{
             {{m.normal({4, 5})}, Parameters{1, far}, "low only", false},
             {{m.normal({4, 5})}, Parameters{-far, 0}, "high only", false},
             {{m.values({5}, {-3, -1, 0, 2, 5})}, Parameters{-1, 2}, "at the bounds", false},
             {{m.values({3}, {-3, 0, 5})}, Parameters{2, 1}, "crossed bounds", false}};
}

std::vector<Sample> inside_1(SampleMaker& m) { return uniform(m, -0.9, 0.9); }
std::vector<Sample> above_minus_1(SampleMaker& m) { return uniform(m, -0.7, 3); }
std::vector<Sample> above_1(SampleMaker& m) { return uniform(m, 1.2, 4); }
// Whole numbers and ties, where the function jumps.
std::vector<Sample> steps(SampleMaker& m) {
  return uniform(m, -4, 4) << std::vector<Sample>{
             {{m.values({9}, {-2.5, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2.5})}, {}, "jumps", false}};
}
// Corners at -3 and 3.
std::vector<Sample> corners(SampleMaker& m) {
  return uniform(m, -5, 5) << std::vector<Sample>{{{m.values({5}, {-3, 3, 0, -9, 9})}, {}, "at them", false}};
}
std::vector<Sample> far(SampleMaker& m) {
  return real(m) << std::vector<Sample>{{{m.values({7}, {-60, -20, -3, 0, 3, 20, 60})}, {}, "far out"}};
}
std::vector<Sample> unusual(SampleMaker& m) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  return normal(m, Parameters{2, -3})
         << std::vector<Sample>{{{m.values({5}, {std::nan(""), inf, -inf, 0, 2})},
                                 Parameters{2, -3},
                                 "NaN and infinities",
                                 false}};
}

// ---- a tensor and a number ----

std::vector<Sample> operand(SampleMaker& m) { return normal(m, Parameters{12, 0}); }
std::vector<Sample> dividend(SampleMaker& m) {
  return uniform(m, 0.5, 3, Parameters{-2.5, 0})
         << std::vector<Sample>{{{m.uniform({9}, -3, -0.5)}, Parameters{0.75, 0}, "negative"}};
}
std::vector<Sample> exponent(SampleMaker& m) {
  return normal(m, Parameters{3, 0}) << std::vector<Sample>{
             {{m.normal({9})}, Parameters{1, 0}, "1"},
             {{m.values({5}, {-1, 0, 2, 0, 1})}, Parameters{0, 0}, "0", false},
             {{m.uniform({9}, 0.34, 0.65)}, Parameters{2.5, 0}, "a fraction"},
             {{m.uniform({9}, 0.34, 0.65)}, Parameters{-1.5, 0}, "a negative fraction"}};
}
std::vector<Sample> base(SampleMaker& m) {
  return uniform(m, 0.1, 2, Parameters{2, 0})
         << std::vector<Sample>{{{m.uniform({9}, 0.05, 0.32)}, Parameters{0.7, 0}, "a fraction"},
                                {{m.values({3}, {1, 2, 0})}, Parameters{0, 0}, "0", false}};
}
std::vector<Sample> bound(SampleMaker& m) {
  return normal(m, Parameters{0, 0}) << std::vector<Sample>{
             {{m.values({5}, {3, 1, -1, 0, 0.5})}, Parameters{3, 0}, "at it", false}};
}

}  // namespace one

std::vector<Sample> where_samples(SampleMaker& m) {
  struct Shapes {
    Shape condition, a, b;
    const char* label;
  };
  const Shapes all[] = {
      {{}, {}, {}, "scalars"},
      {{0}, {0}, {0}, "empty"},
      {{1}, {1}, {1}, "one"},
      {{3, 5, 7}, {3, 5, 7}, {3, 5, 7}, "same"},
      {{4, 1}, {5}, {}, "all broadcast"},
      {{5}, {4, 5}, {4, 1}, "condition is a row"},
      {{2, 72}, {72}, {2, 1}, "long rows"},
      {{}, {3}, {3}, "one condition"},
  };
  std::vector<Sample> samples;
  for (const Shapes& s : all)
    samples.push_back({{m.mask(s.condition), m.normal(s.a), m.normal(s.b)}, {}, s.label});
  return samples;
}
std::vector<Sample> where_scalar_samples(SampleMaker& m) {
  std::vector<Sample> samples;
  for (const bool q : {false, true}) {
    const Parameters parameters{7, q};
    samples.push_back({{m.mask({}), m.normal({})}, parameters, "scalars"});
    samples.push_back({{m.mask({0, 2}), m.normal({0, 2})}, parameters, "empty"});
    samples.push_back({{m.mask({3, 43}), m.normal({3, 43})}, parameters, "same"});
    samples.push_back({{m.mask({3, 1}), m.normal({5})}, parameters, "both broadcast"});
    samples.push_back({{m.mask({4, 70}), m.normal({4, 1})}, parameters, "long rows"});
  }
  return samples;
}
std::vector<ErrorSample> where_errors(SampleMaker& m) {
  return {{{m.normal({3}), m.normal({3}), m.normal({3})}, {}, "the condition is f64[3]; it must be bool"},
          {{m.mask({3}), m.normal({4}), m.normal({4})}, {}, "shapes [3] and [4] do not broadcast"},
          {{m.mask({3}), m.normal({3}), m.normal({2})}, {}, "shapes [3] and [2] do not broadcast"}};
}

}  // namespace
}  // namespace ct

#define CT_UNARY(name, text, types, saved, samples, y, dx) \
  {#name, one::samples, nullptr, reference<name##_formula>},
#define CT_SCALAR CT_UNARY
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) CT_UNARY(name, text, types, none, samples, y, 0)
namespace ct::op_tests {
namespace {
constexpr OpTests elementwise_list[] = {
    {"where", where_samples, where_errors, where_reference},
    {"where_scalar", where_scalar_samples, nullptr, where_scalar_reference},
#include <cotangent/ops/elementwise/scalar_table.inc>
#include <cotangent/ops/elementwise/unary_table.inc>
};
}  // namespace
extern const std::span<const OpTests> elementwise;
const std::span<const OpTests> elementwise{elementwise_list};
}  // namespace ct::op_tests
