#pragma once

#include <cstdint>
#include <string_view>

#include <cotangent/core/export.h>
#include <cotangent/core/number.h>

// How convolutions and pools say where their windows lie.

namespace ct {

/// A number along the height of an image and one along its width, {2, 1}, or one for both, 2.
struct Size2d {
  std::int64_t height = 0, width = 0;

  constexpr Size2d() = default;
  template <StandsFor<std::int64_t> N>
  constexpr Size2d(N both) : height(static_cast<std::int64_t>(both)), width(height) {}
  constexpr Size2d(Integer high, Integer wide) : height(high), width(wide) {}
  bool operator==(const Size2d&) const = default;
};

/// The zeros around an image: as many before as after it, along both axes or {height, width}; "valid" for none; or
/// "same" for as many as keep the size, the odd one after.
struct ConvPadding {
  Size2d size;
  bool same = false;

  template <StandsFor<std::int64_t> N>
  constexpr ConvPadding(N both) : size(both) {}
  constexpr ConvPadding(Integer high, Integer wide) : size(high, wide) {}
  constexpr ConvPadding(Size2d both) : size(both) {}
  /// "same" or "valid"; ValueError for another name.
  CT_API ConvPadding(const char* name);
};

}  // namespace ct
