#pragma once

#include <algorithm>
#include <vector>

namespace answer {

/// Turns, so that both meet the same neighbours, and of each turn the quotient; the first turn warms up. The median of the quotients
/// forgets the turns within which the machine changed.
template <class A, class B>
double times_as_long(A a, B b) {
  a(), b();
  std::vector<double> found;
  for (int i = 0; i < 31; ++i) {
    const double of_a = a();
    found.push_back(b() / of_a);
  }
  std::nth_element(found.begin(), found.begin() + 15, found.end());
  return found[15];
}

}  // namespace answer
