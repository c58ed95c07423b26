#pragma once

#include <cstdint>

#include <cotangent/core/op/op_def.h>
#include <cotangent/core/tensor/tensor.h>

// Shared parts of all ops made of matrix products: how tensors are read as stacks of matrices, and how a
// product of stacks is cut into as few calls of a device's GEMM as possible. Nothing here knows a device.

namespace ct::gemm {

/// One call of a GEMM: `batch` products C = A B (+ C if `accumulate`). A and B are of one dtype, and so is C,
/// except that the product of 16-bit matrices may be f32. Strides are in elements: (i, p) of A is a[i * a_row
/// + p * a_col], (p, j) of B is b[p * b_row + j * b_col], (i, j) of C is c[i * c_row + j]. k may be 0; m, n
/// and batch are at least 1.
struct Product {
  DType dtype = DType::f32, c_dtype = DType::f32;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_col = 0, b_row = 0, b_col = 0, c_row = 0;
  std::int64_t batch = 1;
  std::int64_t a_batch = 0, b_batch = 0, c_batch = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  bool accumulate = false;
};

/// Products that a device offers.
struct Backend {
  void (*run)(const Product&);
  /// The GEMM takes any strides. Otherwise one of the two strides of a matrix must be 1 and the other at
  /// least the length of what it steps over; other operands are copied first.
  bool any_strides;
  /// A stack that would need more calls than this is copied, if that brings it down to one.
  std::int64_t many_calls;
};
extern const Backend cpu_backend;
extern const Backend cuda_backend;

/// The matrix axis that a tensor lacks, of the two: a vector is a matrix of one row or of one column.
enum class Missing : std::uint8_t { none = 0, rows = 1, cols = 2, both = 3 };
constexpr Missing operator|(Missing a, Missing b) {
  return static_cast<Missing>(static_cast<int>(a) | static_cast<int>(b));
}
constexpr bool lacks(Missing m, Missing axis) { return static_cast<int>(m) & static_cast<int>(axis); }

/// A tensor read as a stack of matrices. Refers to the tensor, which must outlive it.
struct Stack {
  const Tensor* tensor = nullptr;
  Missing missing = Missing::none;
  bool folded = false;
  bool transposed = false;
  Shape batch;    // sizes of the axes in front of the matrix
  Strides steps;  // their strides
  std::int64_t rows = 0, cols = 0, row = 0, col = 0;

  Stack() = default;
  Stack(const Tensor& t, Missing missing);
  /// The same with rows and columns exchanged; nothing is moved.
  Stack t() const;
  /// Reads `copy`, a contiguous tensor of the same shape, in the same way.
  Stack over(const Tensor& copy) const;
  /// Makes one matrix of the stack, rows below rows: [..., m, k] -> [(... m), k]. False if the strides of the
  /// leading axes do not allow it.
  bool fold();
};

/// Stack::fold(), by way of a copy in `holder` where the layout asks for it.
void fold_rows(Stack& s, Tensor& holder);

/// Copies a stack into `holder` unless a GEMM that wants one stride of 1 can read it (see
/// Backend::any_strides).
void make_plain(Stack& s, Tensor& holder);

/// The product of two matrices, that is of stacks that are folded or have no leading axes.
Product product_of(const Stack& a, const Stack& b, const Stack& c, bool accumulate);

/// c = a b (+ c if `accumulate`). The leading axes of a and b broadcast to those of c; c is contiguous.
void multiply(Stack a, Stack b, const Stack& c, bool accumulate, const Backend& backend);

/// The forward and backward of matmul on a device.
void forward(const Forward& f, const Backend& backend);
void backward(const Backward& b, const Backend& backend);

}  // namespace ct::gemm
