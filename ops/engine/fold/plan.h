#pragma once

#include <cstdint>

#include <cotangent/core/tensor/tensor.h>

// Every reduction, over whatever axes of whatever layout, becomes one loop nest before it reaches a kernel:
//
//     for k1, k0 (kept):  out[k1 * kept[0].size + k0] = fold over r1, r0 (reduced) of
//                             x[k1 * kept[1].stride + k0 * kept[0].stride
//                               + r1 * reduced[1].stride + r0 * reduced[0].stride]
//
// Neighbouring axes that are all kept or all reduced and follow one another in memory count as one.

namespace ct::fold {

/// A set of axes, one bit each.
using AxisMask = std::uint32_t;

struct Axis {
  std::int64_t size = 1;
  std::int64_t stride = 0;
};

struct Plan {
  Axis kept[2];              // [0] is the inner one
  Axis reduced[2];           // [0] is the inner one
  std::int64_t outputs = 1;  // product of the kept sizes
  std::int64_t count = 1;    // product of the reduced sizes
  /// Elements that each element stands for, where expanded axes were taken out (see Repeats).
  std::int64_t repeats = 1;

  /// The inner kept axis is the contiguous one: whole rows are folded into one another. Otherwise each
  /// output folds a run of elements, contiguous where possible.
  bool columns() const {
    return kept[0].size > 1 && kept[0].stride == 1 && !(reduced[0].size > 1 && reduced[0].stride == 1);
  }
  /// Offset of the first element of output k.
  CT_HD std::int64_t kept_offset(std::int64_t k) const {
    if (kept[1].size == 1) return k * kept[0].stride;
    return k / kept[0].size * kept[1].stride + k % kept[0].size * kept[0].stride;
  }
  /// Offset of element r of an output, counted from kept_offset.
  CT_HD std::int64_t reduced_offset(std::int64_t r) const {
    if (reduced[1].size == 1) return r * reduced[0].stride;
    return r / reduced[0].size * reduced[1].stride + r % reduced[0].size * reduced[0].stride;
  }
};

#ifndef CT_KERNEL_TEXT  // which has no code of the host
/// Whether the order of the elements of one output matters: it does where positions are returned. If not, the
/// axes are taken in the order they have in memory.
enum class Order : std::uint8_t { any, logical };
/// Treatment of reduced axes of stride 0 (an expanded cotangent): sums leave them out and multiply.
enum class Repeats : std::uint8_t { keep, drop };

/// Plans the reduction of `x` over the axes in `mask`. False if the layout has more than two kept or two
/// reduced axes that can't be merged: then `x` has to be copied first (see mergeable()).
bool make_plan(const Tensor& x, AxisMask mask, Order order, Repeats repeats, Plan& plan);

/// The same values as `x` with the kept axes in front and the reduced ones behind, contiguous; make_plan
/// with the same mask succeeds on it after `mask` was changed to the new positions.
Tensor mergeable(const Tensor& x, AxisMask& mask);

/// Plans `x`, packing it (and changing `x` and `mask`) if it has to.
Plan plan_or_pack(Tensor& x, AxisMask& mask, Order order, Repeats repeats);
#endif

}  // namespace ct::fold
