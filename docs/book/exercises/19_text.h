#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

// The next token: which ones may come, and how often.

namespace answer {

/// Probabilities of the tokens. Logits are divided by the temperature (> 0); of the softmax the top_k largest are left (0: all), and
/// any that equals the last of them; of these, in the order of their size, as many as are needed to reach top_p of what is left, and
/// any that equals the last. What is left adds up to 1.
inline std::vector<double> probabilities(const std::vector<double>& logits, double temperature,
                                         std::size_t top_k, double top_p) {
  (void)top_k, (void)top_p;  // yours
  const double top = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  double sum = 0;
  for (const double x : logits) p.push_back(std::exp((x - top) / temperature)), sum += p.back();
  for (double& x : p) x /= sum;
  return p;
}

}  // namespace answer
