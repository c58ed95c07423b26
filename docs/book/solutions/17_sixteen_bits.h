#pragma once

#include <cmath>
#include <vector>

// Gradients are linear in the cotangent that the walk begins with, so a loss that is scaled by S has gradients that are. They are
// divided by the scale that they were made with, and only then does the scale change. An infinity less an infinity is NaN, so
// both mean that a number did not fit. The steps that count are those in a row: after an infinity counting begins anew, and so
// it does after the scale was raised.
// Clipping comes behind the division: the norm is to be that of the gradients, not of S times them, which is different in each
// step. An infinite gradient makes the norm infinite and the factor 0, and 0 times infinity is NaN; so whether all are finite is
// asked before.

namespace answer {

class Scaler {
 public:
  Scaler(double scale, int interval) : scale_(scale), interval_(interval) {}

  double scale() const { return scale_; }

  bool step(std::vector<float>& gradients) {
    bool finite = true;
    for (float& g : gradients) {
      finite = finite && std::isfinite(g);
      g = static_cast<float>(g / scale_);
    }
    if (!finite) {
      scale_ /= 2;
      good_ = 0;
    } else if (++good_ == interval_) {
      scale_ *= 2;
      good_ = 0;
    }
    return finite;
  }

 private:
  double scale_;
  int interval_, good_ = 0;
};

}  // namespace answer
