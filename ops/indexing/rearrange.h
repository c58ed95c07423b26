#pragma once

#include <concepts>
#include <cstdint>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/scalar.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

// Elements in other places, of any dtype, in PyTorch's terms. A result is a copy unless said to be a view. Gradients flow to
// where elements came from, to any order. Throws ShapeError for axes and shapes that do not fit. (Views of one tensor are
// members: movedim, swapaxes, diagonal, unfold, unbind, chunk, split.)

/// The order of elements reversed along each of `axes`, which are different.
CT_API Tensor flip(const Tensor& x, const Dims& axes);

/// Elements moved on by shifts[k] along axes[k], those that leave at the end come in at the beginning. Without axes that
/// of the flat tensor.
CT_API Tensor roll(const Tensor& x, const Dims& shifts, const Dims& axes);
CT_API Tensor roll(const Tensor& x, Integer shift);

/// x side by side, repeats[k] times along axis k; `repeats` has as many numbers as x has axes, or more for new ones in
/// front. tile() takes fewer too, for the last axes. Throws ValueError for a negative number.
CT_API Tensor repeat(const Tensor& x, const Dims& repeats);
CT_API Tensor tile(const Tensor& x, const Dims& repeats);

/// Each slice along `axis` that many times in succession: as many for all, or of i64 or i32 one number for each (one of
/// the host: the call waits for the device). x.flatten() is what has no axis. Throws ValueError for a negative number.
CT_API Tensor repeat_interleave(const Tensor& x, Integer repeats, Integer axis);
CT_API Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, Integer axis);

/// The matrices of the two last axes, with 0 where column - row > diagonal (tril) or < diagonal (triu).
CT_API Tensor tril(const Tensor& x, Integer diagonal = 0);
CT_API Tensor triu(const Tensor& x, Integer diagonal = 0);

/// Matrices, in axes axis1 and axis2 of the result, with x's last axis on the diagonal `offset` above the main one and 0
/// elsewhere.
CT_API Tensor diag_embed(const Tensor& x, Integer offset = 0, Integer axis1 = -2, Integer axis2 = -1);
/// diag_embed() of a vector, diagonal() of a matrix, as a view.
CT_API Tensor diag(const Tensor& x, Integer offset = 0);

/// i64, 1 at [.., i, indices[i]] and else 0, with a new last axis of `classes`; -1 stands for the largest index and one
/// more. Throws DTypeError unless indices are i64 or i32, IndexError for one outside of [0, classes), ValueError for
/// fewer than one class where there are indices.
CT_API Tensor one_hot(const Tensor& indices, Integer classes = -1);

/// Views of vectors (or scalars), all of the shape of their sizes: element [i, j, ..] of result k is x_k at index k of
/// [i, j, ..]. With Indexing::xy the first two axes are exchanged.
enum class Indexing : std::uint8_t { ij, xy };
CT_API std::vector<Tensor> meshgrid(TensorList tensors, Indexing indexing = Indexing::ij);

/// x with padding[0] elements before and padding[1] behind along the last axis, padding[2] and [3] along the one before,
/// and so on. They are `value`, or the neighbours: mirrored without the edge itself (fewer than the axis has), the edge
/// over and over, or those of the other end (at most as many as there are). A negative number of them takes away.
/// Throws ValueError for an odd number of numbers, too many, or a value that the dtype can't hold.
enum class Pad : std::uint8_t { constant, reflect, replicate, circular };
CT_API Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, Pad mode = Pad::constant,
                  const Scalar& value = 0);
/// pad(x, {1, 1}, 7.0): with this number.
template <std::convertible_to<Scalar> Value>
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, Value value) {
  return pad(x, padding, Pad::constant, value);
}

}  // namespace ct
