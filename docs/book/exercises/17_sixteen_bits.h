#pragma once

#include <cmath>
#include <vector>

// A loss scale that finds its own size.

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

}  // namespace answer
