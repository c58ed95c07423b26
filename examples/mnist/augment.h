#pragma once

#include <cotangent/cotangent.h>

#include <string>

/// Augmented images x [N, 1, 28, 28]: each is moved by up to two pixels either way, with new pixels like the border, and
/// with `how` "flip" half of them are mirrored. "none" gives x itself. Draws from the default generator, on x's device.
inline ct::Tensor augmented(const ct::Tensor& x, const std::string& how) {
  if (how == "none") return x;
  const std::int64_t n = x.size(0), side = x.size(-1);
  const ct::TensorOptions whole{.dtype = ct::i64, .device = x.device()};
  const ct::Tensor places = ct::arange(side, whole);
  // Row i of the result shows row i + shift of the image; the same for columns.
  const auto moved = [&] { return ct::clamp(places + ct::randint(-2, 3, {n, 1}, whole), 0, side - 1); };
  const ct::Tensor rows = moved();
  ct::Tensor columns = moved();
  if (how == "flip") columns = ct::where(ct::randint(0, 2, {n, 1}, whole) > 0, side - 1 - columns, columns);
  const ct::Tensor images = ct::arange(n, whole).view(-1, 1, 1);
  return x.squeeze(1).index({images, rows.unsqueeze(2), columns.unsqueeze(1)}).unsqueeze(1);
}
