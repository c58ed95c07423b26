#include <book.h>

#include <05_strides.h>

#include <cmath>

// Judges sum_to() by the adjoint test: <broadcast(x), g> = <x, sum_to(g)>.
// wrong: right)] +=\n ==> right)] =\n
// wrong: down = rows == 1 ? 0 : columns, ==> down = rows == 1 ? 0 : 1,

namespace {

answer::Matrix waves(std::int64_t rows, std::int64_t columns, double pace) {
  answer::Matrix m{rows, columns, {}};
  for (std::int64_t i = 0; i < rows * columns; ++i)
    m.values.push_back(std::sin(pace * static_cast<double>(i + 1)));
  return m;
}

double dot(const answer::Matrix& a, const answer::Matrix& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) sum += a.values[i] * b.values[i];
  return sum;
}

void judge() {
  const std::int64_t shapes[][4] = {{2, 3, 2, 3}, {1, 3, 4, 3}, {4, 1, 4, 3}, {1, 1, 5, 2}};
  for (const auto& [rows, columns, to_rows, to_columns] : shapes) {
    const answer::Matrix x = waves(rows, columns, 0.7), g = waves(to_rows, to_columns, 1.3);
    const double one = dot(broadcast_to(x, to_rows, to_columns), g), other = dot(x, sum_to(g, rows, columns));
    std::printf("[%d, %d] to [%d, %d]: %.6f and %.6f\n", static_cast<int>(rows), static_cast<int>(columns),
                static_cast<int>(to_rows), static_cast<int>(to_columns), one, other);
    book::claim(std::abs(one - other) < 1e-12, "<broadcast(x), g> = <x, sum_to(g)>");
  }
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
