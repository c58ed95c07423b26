#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <cotangent/core/cuda/divider.h>
#include <cotangent/ops/convolution/convolution_internal.h>

// Images of a convolution of stride 1 seen flat, by the fast kernels of 16 bits (flat.cu): as one list of positions, in
// which the rows of an image lie `pitch` apart and images some rows more than they have. Positions in the gaps count as
// zeros, as many as a window reaches over the edge; the end of a row serves the beginning of the next. So what pixel m
// sees under tap (i, j) is position m + first + i step_row + j step_column, without a look at edges. Compiled for the host
// too, where a test goes through it.

namespace ct::convolution {

using Word = std::uint16_t;           // an element, not looked into
inline constexpr int kChannels = 64;  // of a tile

struct Flat {
  // Sizes of the image that is read and of the one that is written; the gradient of x reads y.
  int in_height = 0, in_width = 0, out_height = 0, out_width = 0;
  int taps = 0, kernel_width = 0;
  int step_row = 0, step_column = 0;  // positions from tap to tap
  int first = 0;                      // from a pixel to what tap 0 sees
  int batch = 0, positions = 0;
  gpu::Divider image, pitch;         // positions of an image, of a row
  gpu::Divider out_pixels, out_row;  // pixels of what is written, unpadded

  /// Positions that a run of `count` pixels sees.
  CT_HD int seen(int count) const {
    return count + (taps / kernel_width - 1) * step_row + (kernel_width - 1) * step_column;
  }
  /// Position of pixel u of the result, counted through all images without gaps.
  CT_HD int position(std::uint32_t u) const {
    const std::uint32_t n = out_pixels.divide(u), rest = u - n * out_pixels.divisor, r = out_row.divide(rest);
    return static_cast<int>(n * image.divisor + r * pitch.divisor + (rest - r * out_row.divisor));
  }
  /// Number of pixels of the result before position m.
  CT_HD std::uint32_t pixels_before(std::uint32_t m) const {
    const std::uint32_t n = image.divide(m), rest = m - n * image.divisor, r = pitch.divide(rest);
    const std::uint32_t column = rest - r * pitch.divisor;
    const std::uint32_t within = r * out_row.divisor + (column < out_row.divisor ? column : out_row.divisor);
    return n * out_pixels.divisor + (within < out_pixels.divisor ? within : out_pixels.divisor);
  }
  /// The pixel of an image of so many rows and columns at position m, as an offset in a plane; below 0 for a gap.
  CT_HD int pixel(std::uint32_t m, int height, int width, std::uint32_t& n) const {
    n = image.divide(m);
    const std::uint32_t rest = m - n * image.divisor, r = pitch.divide(rest),
                        column = rest - r * pitch.divisor;
    const bool inside = static_cast<int>(r) < height && static_cast<int>(column) < width;
    return inside ? static_cast<int>(r) * width + static_cast<int>(column) : -1;
  }
};

/// The positions of the images of `g`, of stride 1, for its y or, if `back`, its x. False if they are too many to count.
inline bool lay_out(const Geometry& g, bool back, Flat& f) {
  struct Line {
    std::int64_t in, out, pad, pitch;
    Line(const Axis& a, bool back) {
      const std::int64_t reach = (a.kernel - 1) * a.dilation;
      in = back ? a.out : a.in, out = back ? a.in : a.out, pad = back ? reach - a.padding : a.padding;
      const std::int64_t end = out + reach - pad - in;  // the padding after the image
      pitch = std::max(in + std::max<std::int64_t>({pad, end, 0}), out);
    }
  };
  const Line height(g.height, back), width(g.width, back);
  const std::int64_t row = g.height.dilation * width.pitch, column = g.width.dilation;
  const std::int64_t positions = g.batch * height.pitch * width.pitch;
  const std::int64_t reach = (g.height.kernel - 1) * row + (g.width.kernel - 1) * column +
                             std::abs(height.pad) * width.pitch + std::abs(width.pad);
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (std::max(height.pitch, width.pitch) > kMost || positions > kMost / 2 || reach > kMost / 4) return false;
  const auto narrow = [](std::int64_t n) { return static_cast<int>(n); };
  const auto divider = [](std::int64_t n) { return gpu::Divider(static_cast<std::uint32_t>(n)); };
  f.in_height = narrow(height.in), f.in_width = narrow(width.in);
  f.out_height = narrow(height.out), f.out_width = narrow(width.out);
  f.taps = narrow(g.taps()), f.kernel_width = narrow(g.width.kernel);
  f.step_row = narrow(row), f.step_column = narrow(column);
  f.first = narrow(-height.pad * width.pitch - width.pad);
  f.batch = narrow(g.batch), f.positions = narrow(positions);
  f.image = divider(height.pitch * width.pitch), f.pitch = divider(width.pitch);
  f.out_pixels = divider(height.out * width.out), f.out_row = divider(width.out);
  return true;
}

/// Computes a part of a convolution by the fast kernels; false if they are not made for it.
bool run_flat(const Job& job);
/// Whether it would.
bool takes_flat(const Geometry& g, DType dtype, Part result);
#ifdef COTANGENT_SM90A
/// The same by those made for Hopper (hopper/*.cu).
bool run_hopper(const Job& job, const Flat& f);
bool takes_hopper(const Flat& f, Part result);
#endif

}  // namespace ct::convolution
