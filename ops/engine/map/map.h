#pragma once

#include <cstdint>
#include <span>

#include <cotangent/core/base/philox.h>
#include <cotangent/core/base/scalar.h>
#include <cotangent/core/base/shape.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/tensor/tensor.h>

// Shared by the elementwise kernels of both devices: how the operands of a call lie in memory.

namespace ct::map {

/// At most so many inputs per formula, a draw counted in, and outputs.
inline constexpr int kMaxInputs = 5;
inline constexpr int kMaxOutputs = 3;
inline constexpr int kMaxOperands = kMaxOutputs + kMaxInputs;

/// The two numbers a formula may take besides its inputs (a slope, bounds, a scalar operand).
struct Parameters {
  Scalar p;
  Scalar q;
};

/// Draw that a formula gets behind its inputs: true for element i, counted in row-major order, if word i of `state`
/// (core/base/philox.h) is below the threshold, which it is with probability threshold / 2^32.
struct Draw {
  GeneratorState state;
  std::uint64_t threshold;
};

/// The type that a formula is computed in.
enum class Compute : std::uint8_t { f32, f64, i64 };
constexpr Compute compute_type(DType t) {
  return t == DType::f64 ? Compute::f64 : is_floating(t) ? Compute::f32 : Compute::i64;
}

/// The iteration space of one call of at most so many operands. Axes that all operands step through as one are merged, axes
/// of size 1 dropped, so that most calls end with one axis. Operands are the outputs, then the inputs.
template <int kOperands>
struct LayoutOf {
  int rank = 0;
  std::int64_t numel = 1;
  std::int64_t sizes[kMaxRank];
  std::int64_t strides[kOperands]
                      [kMaxRank];  // in elements; 0 where an input is broadcast or nothing is there

  /// True if operand k is read front to back without gaps.
  bool linear(int k) const {
    std::int64_t step = 1;
    for (int d = rank - 1; d >= 0; step *= sizes[d--])
      if (strides[k][d] != step) return false;
    return true;
  }
  /// True if operand k is a single number.
  bool scalar(int k) const {
    for (int d = 0; d < rank; ++d)
      if (strides[k][d] != 0) return false;
    return true;
  }
};

using Layout = LayoutOf<kMaxOperands>;

/// An output that is not wanted (null), or an optional input that was not given.
inline bool absent(const Tensor* t) { return !t || !t->defined(); }

/// Fills rank, sizes and strides of a layout over `shape`, to which all operands broadcast.
void lay_out(const Shape& shape, std::span<const Tensor* const> operands, int& rank, std::int64_t* sizes,
             std::int64_t (*strides)[kMaxRank]);

/// Outputs have one shape, to which the inputs must broadcast. Of the outputs at least one must be there.
Layout make_layout(std::span<const Tensor* const> outputs, std::span<const Tensor* const> inputs);

/// The dtype of a call: that of its last input that is there.
inline DType dtype_of_call(std::span<const Tensor* const> inputs) {
  std::size_t last = inputs.size() - 1;
  while (absent(inputs[last])) --last;
  return inputs[last]->dtype();
}

/// True if `input` can be walked with one index together with a contiguous output of `numel` elements:
/// broadcasting only adds axes of size 1.
inline bool walks_along(const Tensor& input, std::int64_t numel) {
  return input.numel() == numel && input.is_contiguous();
}

/// The inputs of a call, where large transposed ones have been replaced by contiguous copies: walking down
/// the columns of a large matrix costs more than a tiled transposition (measured: eight times, on a CPU).
class PackedInputs {
 public:
  explicit PackedInputs(std::span<const Tensor* const> inputs);
  PackedInputs(const PackedInputs&) = delete;
  PackedInputs& operator=(const PackedInputs&) = delete;
  operator std::span<const Tensor* const>() const { return {inputs_, count_}; }

 private:
  const Tensor* inputs_[kMaxInputs];
  Tensor copies_[kMaxInputs];
  std::size_t count_;
};

}  // namespace ct::map
