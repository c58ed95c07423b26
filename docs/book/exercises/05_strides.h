#pragma once

#include <cstdint>
#include <vector>

// Broadcasting and its gradient, for two axes.

namespace answer {

struct Matrix {
  std::int64_t rows, columns;
  std::vector<double> values;  // row by row
};

/// x as a matrix of rows x columns: an axis of x of length 1 is repeated, any other has that length already. This one works.
inline Matrix broadcast_to(const Matrix& x, std::int64_t rows, std::int64_t columns) {
  const std::int64_t down = x.rows == 1 ? 0 : x.columns,
                     right = x.columns == 1 ? 0 : 1;  // a stride of 0 stays where it is
  Matrix y{rows, columns, {}};
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      y.values.push_back(x.values[static_cast<std::size_t>(i * down + j * right)]);
  return y;
}

/// The gradient of x, of x's shape, from the cotangent g of broadcast_to(x).
inline Matrix sum_to(const Matrix& g, std::int64_t rows, std::int64_t columns) {
  (void)g;
  return {rows, columns, std::vector<double>(static_cast<std::size_t>(rows * columns))};  // yours: not zeros
}

}  // namespace answer
