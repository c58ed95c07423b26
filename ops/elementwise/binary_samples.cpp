#include <cmath>
#include <complex>
#include <cstdint>

#include <cotangent/ops/engine/map/unary.h>
#include <cotangent/ops/testing/references.h>
#include <cotangent/ops/testing/samples.h>

// Samples of the ops of two tensors, or of three. Values are chosen so that they stay in range, and mean the
// same, when the suite turns them into small integers.

namespace ct {
namespace {

using map::Parameters;
using testing::operator<<;

// ---- Oracles: the formulas once more, in the plainest way, in f64 -----------------------------------------

// Samples of a, b and p.
using BinaryFormula = double (*)(double, double, double);
template <BinaryFormula f>
std::vector<Tensor> reference(std::span<const Tensor> in, AttrsView attrs) {
  const double p = map::parameters_of(attrs).p.to<double>();
  return {testing::by_index(broadcast_shapes("reference", in[0].shape(), in[1].shape()), [&](const Dims& i) {
    return f(testing::at(in[0], i), testing::at(in[1], i), p);
  })};
}

#define CT_REFERENCE(name, expression) \
  double name##_formula(double a, double b, [[maybe_unused]] double p) { return expression; }
CT_REFERENCE(add, a + b)
CT_REFERENCE(add_scaled, a + p * b)
CT_REFERENCE(sub, a - b)
CT_REFERENCE(mul, a* b)
CT_REFERENCE(div, a / b)
CT_REFERENCE(pow, std::pow(a, b))
CT_REFERENCE(maximum, std::fmax(a, b))
CT_REFERENCE(minimum, std::fmin(a, b))
CT_REFERENCE(eq, !(a < b || a > b))
CT_REFERENCE(ne, a<b || a> b)
CT_REFERENCE(lt, b - a > 0)
CT_REFERENCE(le, !(a > b))
CT_REFERENCE(gt, a - b > 0)
CT_REFERENCE(ge, !(a < b))
CT_REFERENCE(logical_and, a* b != 0)
CT_REFERENCE(logical_or, std::fabs(a) + std::fabs(b) > 0)
CT_REFERENCE(logical_xor, !a != !b)
CT_REFERENCE(isclose, std::fabs(a - b) <= p + p * std::fabs(b))
CT_REFERENCE(atan2, std::arg(std::complex(b, a)))
CT_REFERENCE(hypot, std::sqrt(a* a + b * b))
CT_REFERENCE(xlogy, a == 0 ? 0 : a * std::log(b))
CT_REFERENCE(binary_cross_entropy, -b* std::log(a) - (1 - b) * std::log(1 - a))
CT_REFERENCE(fmod, a - b * std::trunc(a / b))
CT_REFERENCE(remainder, a - b * std::floor(a / b))
CT_REFERENCE(floor_divide, std::floor(a / b))
CT_REFERENCE(prelu, std::fmax(a, 0.0) + b * std::fmin(a, 0.0))
CT_REFERENCE(lerp_scalar, (1 - p) * a + p * b)
CT_REFERENCE(bitwise_and, static_cast<double>(std::int64_t(a) & std::int64_t(b)))
CT_REFERENCE(bitwise_or, static_cast<double>(std::int64_t(a) | std::int64_t(b)))
CT_REFERENCE(bitwise_xor, static_cast<double>(std::int64_t(a) ^ std::int64_t(b)))
CT_REFERENCE(bitwise_left_shift, a* std::pow(2.0, b))
CT_REFERENCE(bitwise_right_shift, std::floor(a / std::pow(2.0, b)))
#undef CT_REFERENCE

// Samples of a, b, c and p.
using TernaryFormula = double (*)(double, double, double, double);
template <TernaryFormula f>
std::vector<Tensor> ternary_reference(std::span<const Tensor> in, AttrsView attrs) {
  const double p = map::parameters_of(attrs).p.to<double>();
  const Shape shape = broadcast_shapes("reference", in[0].shape(), in[1].shape());
  return {testing::by_index(broadcast_shapes("reference", shape, in[2].shape()), [&](const Dims& i) {
    return f(testing::at(in[0], i), testing::at(in[1], i), testing::at(in[2], i), p);
  })};
}
double lerp_formula(double a, double b, double c, double) { return (1 - c) * a + c * b; }
double addcmul_formula(double a, double b, double c, double p) { return a + p * b * c; }
double addcdiv_formula(double a, double b, double c, double p) { return a + p * b / c; }

// ---- Samples: the names in the table's columns --------------------------------------------------------------

namespace two {

// Pairs of shapes that find every path: the same shape, a number, a row, a column, both broadcast, long rows,
// many axes.
template <class MakeA, class MakeB>
std::vector<Sample> pairs(MakeA&& make_a, MakeB&& make_b, AnyAttrs attrs = {}) {
  struct Pair {
    Shape a, b;
    const char* label;
  };
  const Pair all[] = {
      {{}, {}, "scalars"},
      {{0}, {0}, "empty"},
      {{1}, {1}, "one"},
      {{7}, {7}, "odd"},
      {{3, 5, 7}, {3, 5, 7}, "same"},
      {{4, 5}, {}, "a number"},
      {{}, {3}, "number first"},
      {{4, 5}, {5}, "a row"},
      {{4, 5}, {4, 1}, "a column"},
      {{5, 1}, {1, 6}, "outer"},
      {{0, 3}, {1, 3}, "empty row"},
      {{6, 70}, {6, 1}, "long column"},
      {{70}, {6, 70}, "long row"},
      {{3, 1, 4}, {2, 1}, "middle"},
      {{2, 1, 2, 1, 2}, {3, 1, 3, 1}, "many axes"},
      {{4, 16}, {4, 16}, "whole vectors"},
      {{4, 16}, {16}, "rows of vectors"},
      {{4, 16}, {4, 1}, "a column of vectors"},
  };
  std::vector<Sample> samples;
  for (const Pair& p : all) samples.push_back({{make_a(p.a), make_b(p.b)}, attrs, p.label});
  return samples;
}
std::vector<Sample> normal(SampleMaker& m, AnyAttrs attrs = {}) {
  const auto make = [&](const Shape& s) { return m.normal(s); };
  return pairs(make, make, attrs);
}

std::vector<Sample> real(SampleMaker& m) { return normal(m); }
std::vector<Sample> scaled(SampleMaker& m) { return normal(m, Parameters{3, 0}); }
// a > b, so that differences of unsigned integers do not wrap.
std::vector<Sample> ordered(SampleMaker& m) {
  return pairs([&](const Shape& s) { return m.uniform(s, 2, 4); },
               [&](const Shape& s) { return m.uniform(s, -1.5, 1.5); });
}
std::vector<Sample> divisor(SampleMaker& m) {
  return pairs([&](const Shape& s) { return m.normal(s); },
               [&](const Shape& s) { return m.uniform(s, 0.5, 3); })
         << std::vector<Sample>{{{m.normal({9}), m.uniform({9}, -3, -0.5)}, {}, "negative"}};
}
std::vector<Sample> power(SampleMaker& m) {
  return pairs([&](const Shape& s) { return m.uniform(s, 0.4, 2); },
               [&](const Shape& s) { return m.uniform(s, 0.1, 1.3); })
         << std::vector<Sample>{
                {{m.values({4}, {-2, -1, 2, 0}), m.values({4}, {2, 1, 0, 0})}, {}, "whole exponents", false}};
}
std::vector<Sample> ties(SampleMaker& m) {
  return real(m) << std::vector<Sample>{
             {{m.values({5}, {1, -1, 0, 2, -2}), m.values({5}, {1, 1, 0, -2, -2})}, {}, "ties", false}};
}
std::vector<Sample> truth(SampleMaker& m) {
  return real(m) << std::vector<Sample>{
             {{m.values({4}, {0, 0, 2, -1}), m.values({4}, {0, 1, 0, 3})}, {}, "all cases"}};
}
std::vector<Sample> near(SampleMaker& m) {
  return normal(m, Parameters{0.02, 0.02}) << std::vector<Sample>{
             {{m.values({6}, {1, 1, 5, 5, -5, 0}), m.values({6}, {1.03, 1.05, 5.1, 5.2, 5, 0})},
              Parameters{0.02, 0.02},
              "about"}};
}
// At the origin, and on the axes.
std::vector<Sample> plane(SampleMaker& m) {
  return real(m) << std::vector<Sample>{
             {{m.values({6}, {0, 0, 0, 2, -2, 3}), m.values({6}, {0, 2, -2, 0, 0, -4})}, {}, "axes", false}};
}
std::vector<Sample> entropy(SampleMaker& m) {
  return pairs([&](const Shape& s) { return m.normal(s); },
               [&](const Shape& s) { return m.uniform(s, 0.3, 3); })
         << std::vector<Sample>{
                {{m.values({4}, {0, 0, 0, 2}), m.values({4}, {0, 2, -1, 1})}, {}, "zeros", false}};
}
std::vector<Sample> chance(SampleMaker& m) {
  return pairs([&](const Shape& s) { return m.uniform(s, 0.1, 0.9); },
               [&](const Shape& s) { return m.uniform(s, 0, 1); });
}
std::vector<Sample> modulus(SampleMaker& m) {
  return pairs([&](const Shape& s) { return m.uniform(s, -8, 8); },
               [&](const Shape& s) { return m.uniform(s, 0.5, 3); })
         << std::vector<Sample>{{{m.uniform({4, 9}, -8, 8), m.uniform({9}, -3, -0.5)}, {}, "negative"},
                                {{m.values({6}, {6, -6, 0, 2, -2, 5}), m.values({6}, {3, 3, 2, -2, 2, -5})},
                                 {},
                                 "no rest",
                                 false}};
}
std::vector<Sample> blend(SampleMaker& m) {
  return normal(m, Parameters{0.25, 0}) << normal(m, Parameters{0.75, 0});
}
std::vector<Sample> bits(SampleMaker& m) { return normal(m); }
std::vector<Sample> shift(SampleMaker& m) {
  return pairs([&](const Shape& s) { return m.normal(s); },
               [&](const Shape& s) { return m.uniform(s, 0.1, 0.95); });
}
std::vector<ErrorSample> errors(SampleMaker& m) {
  return {{{m.normal({2, 3}), m.normal({4})}, {}, "shapes [2, 3] and [4] do not broadcast"},
          {{m.normal({2, 3}), m.normal({3, 3})}, {}, "aligned at the right, sizes must be equal or 1"},
          {{m.normal({2}), Tensor{}}, {}, "input 'b' is undefined"}};
}

std::vector<ErrorSample> bit_errors(SampleMaker& m) {
  return {{{m.index({2, 3}, 5), m.index({4}, 5)}, {}, "shapes [2, 3] and [4] do not broadcast"},
          {{m.normal({2}), m.normal({2})}, {}, "input 'a' is f64[2]; supported dtypes are i64, i32, u8"},
          {{m.index({2}, 5), m.normal({2})}, {}, "f64[2]"},
          {{Tensor{}, m.index({2}, 5)}, {}, "input 'a' is undefined"}};
}

}  // namespace two

namespace three {

template <class MakeB, class MakeC>
std::vector<Sample> triples(SampleMaker& m, MakeB&& make_b, MakeC&& make_c, AnyAttrs attrs = {}) {
  struct Shapes {
    Shape a, b, c;
    const char* label;
  };
  const Shapes all[] = {
      {{}, {}, {}, "scalars"},
      {{0}, {0}, {0}, "empty"},
      {{3, 5, 7}, {3, 5, 7}, {3, 5, 7}, "same"},
      {{4, 5}, {}, {5}, "a number and a row"},
      {{}, {4, 1}, {5}, "all broadcast"},
      {{4, 16}, {4, 16}, {}, "a number last"},
      {{2, 70}, {70}, {2, 1}, "long rows"},
  };
  std::vector<Sample> samples;
  for (const Shapes& s : all) samples.push_back({{m.normal(s.a), make_b(s.b), make_c(s.c)}, attrs, s.label});
  return samples;
}
std::vector<Sample> scaled(SampleMaker& m) {
  const auto make = [&](const Shape& s) { return m.normal(s); };
  return triples(m, make, make, Parameters{3, 0});
}
std::vector<Sample> divided(SampleMaker& m) {
  return triples(
      m, [&](const Shape& s) { return m.normal(s); }, [&](const Shape& s) { return m.uniform(s, 0.5, 3); },
      Parameters{-2, 0});
}
std::vector<Sample> blends(SampleMaker& m) {
  return triples(
      m, [&](const Shape& s) { return m.normal(s); },
      [&](const Shape& s) { return m.uniform(s, -0.4, 1.4); });
}
std::vector<ErrorSample> errors(SampleMaker& m) {
  return {{{m.normal({2, 3}), m.normal({3}), m.normal({4})}, {}, "shapes [2, 3] and [4] do not broadcast"},
          {{m.normal({2}), m.normal({3}), m.normal({2})}, {}, "shapes [2] and [3] do not broadcast"},
          {{m.normal({2}), m.normal({2}), Tensor{}}, {}, "input 'c' is undefined"}};
}

}  // namespace three

}  // namespace
}  // namespace ct

#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db) \
  {#name, two::samples, two::errors, reference<name##_formula>},
#define CT_PREDICATE(name, text, types, samples, y) CT_BINARY(name, text, types, none, none, samples, y, 0, 0)
#define CT_BITWISE(name, text, types, samples, y) \
  {#name, two::samples, two::bit_errors, reference<name##_formula>},
#define CT_TERNARY(name, text, types, saves_a, saves_b, saves_c, samples, y, da, db, dc) \
  {#name, three::samples, three::errors, ternary_reference<name##_formula>},
namespace ct::op_tests {
namespace {
constexpr OpTests binary_list[] = {
#include <cotangent/ops/elementwise/binary_table.inc>
};
}  // namespace
extern const std::span<const OpTests> binary;
const std::span<const OpTests> binary{binary_list};
}  // namespace ct::op_tests
