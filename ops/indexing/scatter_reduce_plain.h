#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include <cotangent/core/tensor/tensor.h>

// scatter_reduce and its gradient, in the plainest way: what becomes of the elements that meet at one place.

namespace ct::plain {

/// y of the elements that have met so far, and of x. Of a mean it is their sum, to be divided at the end.
inline double reduced(ScatterReduce kind, double y, double x) {
  switch (kind) {
    case ScatterReduce::prod: return y * x;
    case ScatterReduce::amax: return x > y || std::isnan(x) ? x : y;
    case ScatterReduce::amin: return x < y || std::isnan(x) ? x : y;
    default: return y + x;
  }
}

/// dv_i = g dy/dv_i. Of a product that is g times the product of the others; the gradient of an extremum is shared by all
/// that equal it.
inline void reduce_gradient(ScatterReduce kind, std::span<const double> v, double y, double g,
                            std::span<double> dv) {
  const std::size_t n = v.size();
  const auto wins = [&](std::size_t i) { return v[i] == y || (std::isnan(v[i]) && std::isnan(y)); };
  double ties = 0, before = 1, behind = 1;
  for (std::size_t i = 0; i < n; ++i) ties += wins(i);
  for (std::size_t i = 0; i < n; ++i) switch (kind) {
      case ScatterReduce::sum: dv[i] = g; break;
      case ScatterReduce::mean: dv[i] = g / static_cast<double>(n); break;
      case ScatterReduce::prod: dv[i] = g * before, before *= v[i]; break;
      case ScatterReduce::amax:
      case ScatterReduce::amin: dv[i] = wins(i) ? g / ties : 0; break;
    }
  if (kind == ScatterReduce::prod)
    for (std::size_t i = n; i-- > 0;) dv[i] *= behind, behind *= v[i];
}

}  // namespace ct::plain
