#pragma once

#include <cstdint>
#include <vector>

namespace answer {

struct Matrix {
  std::int64_t rows, columns;
  std::vector<double> values;  // row by row
};

inline Matrix broadcast_to(const Matrix& x, std::int64_t rows, std::int64_t columns) {
  const std::int64_t down = x.rows == 1 ? 0 : x.columns, right = x.columns == 1 ? 0 : 1;
  Matrix y{rows, columns, {}};
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      y.values.push_back(x.values[static_cast<std::size_t>(i * down + j * right)]);
  return y;
}

/// The same walk with the same strides, the other way round: what was read is added to.
inline Matrix sum_to(const Matrix& g, std::int64_t rows, std::int64_t columns) {
  const std::int64_t down = rows == 1 ? 0 : columns, right = columns == 1 ? 0 : 1;
  Matrix dx{rows, columns, std::vector<double>(static_cast<std::size_t>(rows * columns))};
  for (std::int64_t i = 0; i < g.rows; ++i)
    for (std::int64_t j = 0; j < g.columns; ++j)
      dx.values[static_cast<std::size_t>(i * down + j * right)] +=
          g.values[static_cast<std::size_t>(i * g.columns + j)];
  return dx;
}

}  // namespace answer
