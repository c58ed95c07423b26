#pragma once

#include <cotangent/core/base/export.h>

namespace ct::normalization {

/// Factor of deviations that are squared anew, where the sum of the squares of a row left the range
/// in which it is exact: rows near 1e25 in f32, or near 1e-25 if eps is as small. Otherwise 1.
template <class C>
CT_HD inline C rescue_scale(C squares, C columns, C eps) {
  constexpr C large = sizeof(C) == 4 ? C(0x1p100) : C(0x1p900), small = 1 / large;
  constexpr C down = sizeof(C) == 4 ? C(0x1p-80) : C(0x1p-600), up = 1 / down;
  if (!(squares < large)) return down;
  return squares < small * columns && eps < small ? up : C(1);
}

}  // namespace ct::normalization
