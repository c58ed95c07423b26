#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/number.h>

// Sizes and places of the windows of convolutions and pools.

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

/// A size, or none.
struct OptionalSize2d : std::optional<Size2d> {
  constexpr OptionalSize2d() = default;
  template <StandsFor<std::int64_t> N>
  constexpr OptionalSize2d(N both) : optional(Size2d(both)) {}
  constexpr OptionalSize2d(Integer high, Integer wide) : optional(Size2d(high, wide)) {}
  constexpr OptionalSize2d(Size2d size) : optional(size) {}
};

/// A factor for each axis, or one for both, or none.
struct OptionalScale2d {
  double height = 0, width = 0;  ///< 0 for none

  constexpr OptionalScale2d() = default;
  template <StandsFor<double> N>
  constexpr OptionalScale2d(N both) : height(static_cast<double>(both)), width(height) {}
  constexpr OptionalScale2d(Real high, Real wide) : height(high), width(wide) {}
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
