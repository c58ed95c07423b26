#pragma once

#include <vector>

#include <cotangent/ops/engine/map/op.h>

// What the ops of two tensors, or of a tensor and a number, are tested on. The values are chosen so that they
// stay in range, and mean the same, when the suite turns them into small integers.

namespace ct::binary {

using namespace elementwise;

// Pairs of shapes that find every path: the same shape, a number, a row, a column, both broadcast, long rows,
// many axes.
template <class MakeA, class MakeB>
std::vector<Sample> pairs(MakeA&& make_a, MakeB&& make_b, AnyAttrs attrs = {}, bool smooth = true) {
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
  for (const Pair& p : all) samples.push_back({{make_a(p.a), make_b(p.b)}, attrs, p.label, smooth});
  return samples;
}

inline std::vector<Sample> samples_real(SampleMaker& m) {
  const auto make = [&](const Shape& s) { return m.normal(s); };
  return pairs(make, make);
}
inline std::vector<Sample> samples_scaled(SampleMaker& m) {
  const auto make = [&](const Shape& s) { return m.normal(s); };
  return pairs(make, make, Parameters{3, 0});
}
// a > b, so that differences of unsigned integers do not wrap.
inline std::vector<Sample> samples_ordered(SampleMaker& m) {
  return pairs([&](const Shape& s) { return m.uniform(s, 2, 4); },
               [&](const Shape& s) { return m.uniform(s, -1.5, 1.5); });
}
inline std::vector<Sample> samples_divisor(SampleMaker& m) {
  const auto numerator = [&](const Shape& s) { return m.normal(s); };
  std::vector<Sample> samples = pairs(numerator, [&](const Shape& s) { return m.uniform(s, 0.5, 3); });
  samples.push_back({{m.normal({9}), m.uniform({9}, -3, -0.5)}, {}, "negative"});
  return samples;
}
inline std::vector<Sample> samples_power(SampleMaker& m) {
  std::vector<Sample> samples = pairs([&](const Shape& s) { return m.uniform(s, 0.4, 2); },
                                      [&](const Shape& s) { return m.uniform(s, 0.1, 1.3); });
  samples.push_back(
      {{m.values({4}, {-2, -1, 2, 0}), m.values({4}, {2, 1, 0, 0})}, {}, "whole exponents", false});
  return samples;
}
inline std::vector<Sample> samples_ties(SampleMaker& m) {
  const auto make = [&](const Shape& s) { return m.normal(s); };
  std::vector<Sample> samples = pairs(make, make);
  samples.push_back(
      {{m.values({5}, {1, -1, 0, 2, -2}), m.values({5}, {1, 1, 0, -2, -2})}, {}, "ties", false});
  return samples;
}
inline std::vector<Sample> samples_truth(SampleMaker& m) {
  std::vector<Sample> samples = samples_real(m);
  samples.push_back({{m.values({4}, {0, 0, 2, -1}), m.values({4}, {0, 1, 0, 3})}, {}, "all cases"});
  return samples;
}

// ---- A tensor and a number -------------------------------------------------------------------------------

inline std::vector<Sample> samples_operand(SampleMaker& m) {
  return unary_samples([&](const Shape& s) { return m.normal(s); }, Parameters{12, 0});
}
inline std::vector<Sample> samples_dividend(SampleMaker& m) {
  std::vector<Sample> samples =
      unary_samples([&](const Shape& s) { return m.uniform(s, 0.5, 3); }, Parameters{-2.5, 0});
  samples.push_back({{m.uniform({9}, -3, -0.5)}, Parameters{0.75, 0}, "negative"});
  return samples;
}
inline std::vector<Sample> samples_exponent(SampleMaker& m) {
  std::vector<Sample> samples = unary_samples([&](const Shape& s) { return m.normal(s); }, Parameters{3, 0});
  samples.push_back({{m.normal({9})}, Parameters{1, 0}, "1"});
  samples.push_back({{m.values({5}, {-1, 0, 2, 0, 1})}, Parameters{0, 0}, "0", false});
  samples.push_back({{m.uniform({9}, 0.34, 0.65)}, Parameters{2.5, 0}, "a fraction"});
  samples.push_back({{m.uniform({9}, 0.34, 0.65)}, Parameters{-1.5, 0}, "a negative fraction"});
  return samples;
}
inline std::vector<Sample> samples_base(SampleMaker& m) {
  std::vector<Sample> samples =
      unary_samples([&](const Shape& s) { return m.uniform(s, 0.1, 2); }, Parameters{2, 0});
  samples.push_back({{m.uniform({9}, 0.05, 0.32)}, Parameters{0.7, 0}, "a fraction"});
  samples.push_back({{m.values({3}, {1, 2, 0})}, Parameters{0, 0}, "0", false});
  return samples;
}
inline std::vector<Sample> samples_bound(SampleMaker& m) {
  std::vector<Sample> samples = unary_samples([&](const Shape& s) { return m.normal(s); }, Parameters{0, 0});
  samples.push_back({{m.values({5}, {3, 1, -1, 0, 0.5})}, Parameters{3, 0}, "at it", false});
  return samples;
}

// ---- Oracle: a plain function of doubles over broadcast f64 tensors --------------------------------------

using BinaryReference = double (*)(double a, double b, double p);

template <BinaryReference f>
std::vector<Tensor> binary_reference(std::span<const Tensor> inputs, AttrsView attrs) {
  const double p = parameters_of(attrs).p.to<double>();
  const Shape shape = broadcast_shapes("reference", inputs[0].shape(), inputs[1].shape());
  const std::vector<double> a = inputs[0].to_vector<double>(), b = inputs[1].to_vector<double>();
  const Strides sa = broadcast_strides(inputs[0].shape(), contiguous_strides(inputs[0].shape()), shape);
  const Strides sb = broadcast_strides(inputs[1].shape(), contiguous_strides(inputs[1].shape()), shape);
  Tensor y = Tensor::allocate(shape, DType::f64, cpu);
  double* to = static_cast<double*>(y.raw_data());
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    std::int64_t rest = i, at_a = 0, at_b = 0;
    for (int d = shape.size() - 1; d >= 0; rest /= shape[d--]) {
      at_a += rest % shape[d] * sa[d];
      at_b += rest % shape[d] * sb[d];
    }
    to[i] = f(a[static_cast<std::size_t>(at_a)], b[static_cast<std::size_t>(at_b)], p);
  }
  return {y};
}

}  // namespace ct::binary
