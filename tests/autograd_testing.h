#pragma once

#include <string>
#include <utility>
#include <vector>

#include <cotangent/cotangent.h>

// Helpers for tests of the tape.

namespace ct::testing {

using Values = std::vector<double>;

inline Tensor leaf(std::vector<float> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return from_vector(values, {n}).set_requires_grad();
}

inline Values grad_of(const Tensor& t) { return t.grad().to_vector<double>(); }

/// Message of the error that f() throws, if it is an E.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) { return e.what(); } catch (const std::exception& e) {
    return std::string("another type: ") + e.what();
  }
  return "nothing was thrown";
}

}  // namespace ct::testing
