#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/testing/samples.h>

// Parts of references (OpTests::reference) of ops that move elements: index arithmetic in f64 on the CPU, without any
// op. And functions that join lists of samples. Include it where they are written.

namespace ct::testing {

/// The element of x at `index`, in which x is broadcast: axes that x lacks, or has with size 1, are passed over. x has
/// any layout and is f64 or bool.
inline double at(const Tensor& x, const Dims& index) {
  std::int64_t offset = 0;
  for (int i = 0; i < x.dim(); ++i)
    if (x.shape()[i] != 1) offset += index[i + index.size() - x.dim()] * x.strides()[i];
  return x.dtype() == DType::boolean ? x.data<bool>()[offset] : x.data<double>()[offset];
}

/// y with y[index] = f(index), of f64, contiguous: f(const Dims&) gives a number.
template <class F>
Tensor by_index(const Shape& shape, F&& f) {
  Tensor y = Tensor::allocate(shape, DType::f64, Device{});
  for (std::int64_t position = 0; position < y.numel(); ++position) {
    Dims index = shape;
    std::int64_t rest = position;
    for (int i = shape.size() - 1; i >= 0; rest /= shape[i--]) index[i] = rest % shape[i];
    y.data<double>()[position] = f(index);
  }
  return y;
}

/// Both lists. Left before right, by the language: every compiler draws the same numbers.
inline std::vector<Sample> operator<<(std::vector<Sample> a, std::vector<Sample> b) {
  a.insert(a.end(), std::make_move_iterator(b.begin()), std::make_move_iterator(b.end()));
  return a;
}

}  // namespace ct::testing
