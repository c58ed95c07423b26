#pragma once

#include <array>
#include <cstdint>

#include <cotangent/core/shape.h>

// The common shape of all strided copies: what is left of two layouts once everything that does not matter
// is taken out.

namespace ct {

/// Elements of `dst` and `src` to be walked together. Axes of size 1 are gone, the others are sorted so that
/// the destination is written in the order of its addresses, and axes that continue one another in both
/// layouts are merged: two contiguous tensors give rank 1 (0 for a single element), a transposed matrix 2.
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
  CopyPlan p;
  for (int i = 0; i < shape.size(); ++i) {
    p.numel *= shape[i];
    if (shape[i] == 1) continue;
    // Insertion by descending destination stride; equal ones (0) by descending source stride.
    int at = p.rank++;
    for (; at > 0 && (p.dst[at - 1] < dst[i] || (p.dst[at - 1] == dst[i] && p.src[at - 1] < src[i])); --at) {
      p.size[at] = p.size[at - 1];
      p.dst[at] = p.dst[at - 1];
      p.src[at] = p.src[at - 1];
    }
    p.size[at] = shape[i];
    p.dst[at] = dst[i];
    p.src[at] = src[i];
  }
  int kept = 0;
  for (int i = 1; i < p.rank; ++i) {
    if (p.dst[kept] == p.size[i] * p.dst[i] && p.src[kept] == p.size[i] * p.src[i]) {
      p.size[kept] *= p.size[i];
    } else {
      ++kept;
      p.size[kept] = p.size[i];
    }
    p.dst[kept] = p.dst[i];
    p.src[kept] = p.src[i];
  }
  if (p.rank > 0) p.rank = kept + 1;
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
