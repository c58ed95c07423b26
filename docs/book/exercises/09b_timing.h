#pragma once

#include <vector>

// A comparison on a machine that is not alone.

namespace answer {

/// How many times as long b takes as a. Each call of a() or b() runs the function once and returns its time; there may be 80 calls in all.
template <class A, class B>
double times_as_long(A a, B b) {
  double of_a = 0, of_b = 0;
  for (int i = 0; i < 30; ++i) of_a += a();  // yours: another order, and not the mean
  for (int i = 0; i < 30; ++i) of_b += b();
  return of_b / of_a;
}

}  // namespace answer
