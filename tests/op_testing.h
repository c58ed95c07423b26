#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <cotangent/core/tensor/tensor.h>

#include "tests/catch.h"

// Helpers for the tests of ops.

namespace ct::testing {

/// A tensor of these values, in the order of its elements.
inline Tensor values(const Shape& shape, const std::vector<double>& v, DType dtype = DType::f64) {
  Tensor t = Tensor::allocate(shape, DType::f64, cpu);
  REQUIRE(static_cast<std::size_t>(t.numel()) == v.size());
  for (std::size_t i = 0; i < v.size(); ++i) t.data<double>()[i] = v[i];
  return t.to(dtype);
}

/// Its elements, in their order.
inline std::vector<double> values(const Tensor& t) { return t.detach().to_vector<double>(); }
inline std::vector<std::int64_t> ids(const Tensor& t) { return t.to_vector<std::int64_t>(); }

/// Values that look random and do not repeat.
inline Tensor waves(const Shape& shape, double phase, double scale = 1, double shift = 0) {
  Tensor t = Tensor::allocate(shape, DType::f64, cpu);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = scale * std::sin(static_cast<double>(i) * 0.7 + phase) + shift;
  return t;
}

/// Fails unless every element is within `tolerance` of the wanted one, of it or, where it is small, of 1. NaN
/// equals NaN.
inline void check(const Tensor& got, const std::vector<double>& want, double tolerance = 1e-14) {
  const std::vector<double> v = got.to_vector<double>();
  REQUIRE(v.size() == want.size());
  for (std::size_t i = 0; i < v.size(); ++i)
    if (std::isnan(want[i])
            ? !std::isnan(v[i])
            : !(v[i] == want[i] || std::abs(v[i] - want[i]) <= tolerance * (1 + std::abs(want[i]))))
      FAIL("element " << i << " is " << v[i] << ", want " << want[i]);
}

/// The largest difference between elements; NaN if there is one. Fails if the sizes differ.
inline double largest_difference(const Tensor& got, const Tensor& want) {
  const std::vector<double> a = got.detach().to_vector<double>(), b = want.detach().to_vector<double>();
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (std::isnan(difference)) return difference;
    most = std::max(most, difference);
  }
  return most;
}

/// A copy that wants a gradient.
inline Tensor leaf(const Tensor& t) {
  Tensor copy = t.detach().clone();
  copy.set_requires_grad();
  return copy;
}

/// Tensors and comparisons in one dtype. A test that takes f64 and f32 in turn sees an op's plain kernels and its fast ones.
struct In {
  DType dtype;
  double tolerance = dtype == DType::f64 ? 1e-14 : 2e-6;

  Tensor values(const Shape& shape, const std::vector<double>& v) const {
    return testing::values(shape, v, dtype);
  }
  Tensor waves(const Shape& shape, double phase, double scale = 1, double shift = 0) const {
    return testing::waves(shape, phase, scale, shift).to(dtype);
  }
  void check(const Tensor& got, const std::vector<double>& want, double looser = 1) const {
    testing::check(got, want, looser * tolerance);
  }
};

}  // namespace ct::testing
