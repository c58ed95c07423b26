#pragma once

#include <array>
#include <cstdint>

#include <cotangent/core/base/shape.h>
#include <cotangent/ops/engine/walk/axes.h>

// The common shape of all strided copies.

namespace ct {

/// Elements of `dst` and `src` to be walked together, in the order of the destination's addresses: two contiguous tensors
/// have rank 1 (a single element 0), a transposed matrix 2.
struct CopyPlan {
  int rank = 0;
  std::int64_t numel = 1;
  std::array<std::int64_t, kMaxRank> size;  // outermost axis first
  std::array<std::int64_t, kMaxRank> dst;   // strides, in elements
  std::array<std::int64_t, kMaxRank> src;

  int inner() const { return rank - 1; }
  /// Both sides are one run without gaps.
  bool is_flat() const { return rank == 0 || (rank == 1 && dst[0] == 1 && src[0] == 1); }
  /// The axis along which the source is read in the order of its addresses, if that is another one than the
  /// destination's: the plan is a transpose. Else -1.
  int transposed_axis() const {
    if (rank < 2 || dst[inner()] != 1 || src[inner()] == 1 || src[inner()] == 0) return -1;
    for (int i = 0; i < inner(); ++i)
      if (src[i] == 1) return i;
    return -1;
  }
};

inline CopyPlan plan_copy(const Shape& shape, const Strides& dst, const Strides& src) {
  Axes<2> axes;
  for (int i = 0; i < shape.size(); ++i) axes.append(shape[i], {dst[i], src[i]});
  axes.sort();
  CopyPlan p;
  p.rank = axes.rank, p.numel = numel(shape), p.size = axes.size;
  for (int i = 0; i < p.rank; ++i) p.dst[i] = axes.stride[i][0], p.src[i] = axes.stride[i][1];
  return p;
}

/// Calls run(dst_offset, src_offset, count) for the elements [begin, end) of the plan, counted in the order
/// of its axes: each run lies along the innermost axis.
template <class Run>
void for_each_run(const CopyPlan& p, std::int64_t begin, std::int64_t end, Run&& run) {
  if (begin >= end) return;
  if (p.rank == 0) return run(std::int64_t{0}, std::int64_t{0}, std::int64_t{1});
  std::array<std::int64_t, kMaxRank> index;
  std::int64_t rest = begin, d = 0, s = 0;
  for (int i = p.inner(); i >= 0; --i) {
    index[i] = rest % p.size[i];
    rest /= p.size[i];
    d += index[i] * p.dst[i];
    s += index[i] * p.src[i];
  }
  const int inner = p.inner();
  std::int64_t left = end - begin;
  while (true) {
    const std::int64_t room = p.size[inner] - index[inner];
    const std::int64_t count = left < room ? left : room;
    run(d, s, count);
    left -= count;
    if (left == 0) return;
    d -= index[inner] * p.dst[inner];
    s -= index[inner] * p.src[inner];
    index[inner] = 0;
    for (int i = inner - 1;; --i) {  // ends before axis 0 overflows, since elements are left
      d += p.dst[i];
      s += p.src[i];
      if (++index[i] < p.size[i]) break;
      d -= p.size[i] * p.dst[i];
      s -= p.size[i] * p.src[i];
      index[i] = 0;
    }
  }
}

}  // namespace ct
