#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include <cotangent/ops/engine/rows/plain.h>
#include <cotangent/ops/sampling/sampling_internal.h>

// sample_logits of one row, in the plainest way. README.md says why weights are integers.

namespace ct::plain {

/// A position i of row r with probability w_i / sum(w), w_i = e^((x_i - max x) / temperature): what is neither among the
/// top_k largest, nor among the most probable that together reach top_p of the sum, weighs 0; what equals the last of
/// them is kept. At temperature 0 the first of the largest.
inline std::int64_t sample_logits(const Row& x, const sampling::Attrs& attrs, std::int64_t r) {
  const std::int64_t largest = std::max_element(x.begin(), x.end()) - x.begin();
  if (attrs.temperature == 0) return largest;

  const int bits = random::weight_bits(x.size());
  Eigen::Array<std::uint64_t, Eigen::Dynamic, 1> w(x.size());
  for (std::int64_t i = 0; i < x.size(); ++i)
    w(i) = sampling::weight_of(x(i), x(largest), attrs.temperature, bits);
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.size()));  // from the largest on
  std::iota(order.begin(), order.end(), 0);
  if (attrs.top_k > 0 || attrs.top_p < 1)
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return x(a) > x(b); });
  const auto drop_below = [&](double last) { w = (x < last).select(0, w); };
  if (attrs.top_k > 0 && attrs.top_k < x.size())
    drop_below(x(order[static_cast<std::size_t>(attrs.top_k - 1)]));
  if (attrs.top_p < 1) {
    const std::uint64_t wanted = sampling::kept_mass(attrs.top_p, w.sum());
    auto last = order.begin();
    for (std::uint64_t mass = w(*last); mass < wanted;) mass += w(*++last);
    drop_below(x(*last));
  }
  return random::walk(w.data(), random::target(attrs.draw, static_cast<std::uint64_t>(r), w.sum()));
}

}  // namespace ct::plain
