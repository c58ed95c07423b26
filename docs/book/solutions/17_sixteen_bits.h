#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

// Gradients are linear in the cotangent that the walk begins with, so a loss that is scaled by S has gradients that are. They are
// divided by the scale that they were made with, and only then does the scale change. An infinity less an infinity is NaN, so
// both mean that a number did not fit. The steps that count are those in a row: after an infinity counting begins anew, and so
// it does after the scale was raised.
// Clipping comes behind the division: the norm is to be that of the gradients, not of S times them, which is different in each
// step. An infinite gradient makes the norm infinite and the factor 0, and 0 times infinity is NaN; so whether all are finite is
// asked before.
// The largest number of a row becomes 127, so the scale is a 127th of it; a row of zeros has no such number, and nothing is divided by
// its scale. The scale is a factor of the whole sum, so the sum itself has products of x and whole numbers alone.

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

struct EightBits {
  std::vector<std::int8_t> q;
  std::vector<float> scale;
};
inline EightBits quantize(const std::vector<float>& w, std::size_t rows) {
  EightBits found{std::vector<std::int8_t>(w.size()), std::vector<float>(rows)};
  const std::size_t columns = w.size() / rows;
  for (std::size_t o = 0; o < rows; ++o) {
    float largest = 0;
    for (std::size_t i = 0; i < columns; ++i) largest = std::max(largest, std::fabs(w[o * columns + i]));
    const float scale = found.scale[o] = largest / 127;
    for (std::size_t i = 0; i < columns && scale > 0; ++i)
      found.q[o * columns + i] = static_cast<std::int8_t>(std::nearbyint(w[o * columns + i] / scale));
  }
  return found;
}

inline std::vector<float> product(const std::vector<float>& x, const EightBits& w) {
  std::vector<float> y(w.scale.size());
  for (std::size_t o = 0; o < y.size(); ++o) {
    float sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * w.q[o * x.size() + i];
    y[o] = w.scale[o] * sum;
  }
  return y;
}

}  // namespace answer
