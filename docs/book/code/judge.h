#pragma once

#include <cotangent/cotangent.h>

#include <book.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

// Shared functions of the judges of mini.h: numbers to try, and the library's tensors of them.

namespace judge {

/// n numbers between -1 and 1, the same on every machine, none of them 0.
inline std::vector<double> waves(std::size_t n, double pace) {
  std::vector<double> x;
  for (std::size_t i = 0; i < n; ++i) x.push_back(std::sin(pace * static_cast<double>(i + 1)));
  return x;
}

/// A leaf of the library's that has these numbers and wants a gradient.
inline ct::Tensor theirs(const std::vector<double>& values, std::size_t rows, std::size_t columns) {
  return ct::from_vector(values, {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)})
      .set_requires_grad();
}
template <class Node>
ct::Tensor theirs(const Node& n) {
  return theirs(n.values, n.rows, n.columns);
}

/// Claims that both have the same numbers, and says which differs.
inline void same(const std::vector<double>& ours, const ct::Tensor& theirs, const std::string& sentence,
                 double slack = 1e-11) {
  const std::vector<double> wanted = theirs.to_vector<double>();
  book::claim(ours.size() == wanted.size(), sentence + ": " + std::to_string(ours.size()) +
                                                " numbers, the library's " + std::to_string(wanted.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    char found[96];  // with enough digits that they differ where the claim fails
    std::snprintf(found, sizeof(found), "number %zu is %.12g, the library's %.12g", i, ours[i], wanted[i]);
    book::claim(std::abs(ours[i] - wanted[i]) < slack, sentence + ": " + found);
  }
}

}  // namespace judge
