#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

// A loss scale that finds its own size, and weights of eight bits.

namespace answer {

class Scaler {
 public:
  Scaler(double scale, int interval) : scale_(scale), interval_(interval) {}

  /// The factor on the loss of the next step.
  double scale() const { return scale_; }

  /// Takes the gradients of a step, which are those of the scaled loss, and gives them back without the scale. Says whether the
  /// step may be made: no gradient is infinite, and none is NaN. Then halves the scale if it may not, and doubles it after
  /// `interval` steps in a row that were made.
  bool step(std::vector<float>& gradients) {
    for (float& g : gradients) g = static_cast<float>(g / scale_);
    return true;  // yours: what is infinite, and what becomes of the scale
  }

 private:
  double scale_;
  int interval_;
};

/// w [rows, columns] as whole numbers from -127 to 127 with a scale for each row, w_oi = scale_o q_oi to the nearest. A row of zeros has
/// the scale 0.
struct EightBits {
  std::vector<std::int8_t> q;
  std::vector<float> scale;
};
inline EightBits quantize(const std::vector<float>& w, std::size_t rows) {
  EightBits found{std::vector<std::int8_t>(w.size()), std::vector<float>(rows)};
  return found;  // yours
}

/// y_o = sum_i x_i w_oi, with one multiplication by a scale for each y.
inline std::vector<float> product(const std::vector<float>& x, const EightBits& w) {
  (void)x;  // yours: a number for each column of w
  return std::vector<float>(w.scale.size());
}

}  // namespace answer
