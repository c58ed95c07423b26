#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/convolution/window.h>

namespace ct {

/// Modes of resizing: each pixel takes the nearest one's value, or mixes those around it by their distance. `linear`
/// is for a line, `bilinear` for an image.
enum class Interpolation : std::uint8_t { nearest, linear, bilinear };

struct InterpolateOptions {
  OptionalSize2d size = {};           ///< of the result; this or scale_factor
  OptionalScale2d scale_factor = {};  ///< the result has floor(factor H) rows, floor(factor W) columns
  Interpolation mode = Interpolation::nearest;
  bool align_corners =
      false;  ///< linear and bilinear: the first and last pixels of both lie on each other, not their edges
};

/// x, resized to y with H' rows and W' columns. For an axis resized from n elements to m, element p of y reads
///
///     nearest:                 floor(p n / m)
///     linear, corners aligned: p (n - 1) / (m - 1)
///     linear:                  max(0, (p + 1/2) n / m - 1/2)
///
/// where n / m is 1 / scale_factor if that is given; between two elements it mixes them by the distance.
///
/// x is [N, C, H, W], or a line [N, C, L], for which the width's size and factor hold and the mode is nearest or linear; of
/// a floating dtype, as y is. Differentiable to any order.
///
/// Throws ShapeError for another rank or an empty image, ValueError unless one of size and scale_factor is given, for a
/// size below 1, a factor that is not positive, a mode that does not fit the rank, or align_corners with nearest;
/// DTypeError.
CT_API Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

/// interpolate() to `size` by the nearest pixels, or by mixing four.
CT_API Tensor upsample_nearest(const Tensor& x, Size2d size);
CT_API Tensor upsample_bilinear(const Tensor& x, Size2d size, Flag align_corners = false);

}  // namespace ct
