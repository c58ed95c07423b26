#include <cotangent/cotangent.h>

#include <book.h>
#include <judge.h>

#include <mini.h>

// Judges product() by the library, and by how often it reads.
// hint: a tile of 4 x 16 sums, as a local array, takes 20 numbers for 64 multiply-adds
// hint: #pragma GCC unroll 8 before the loop over a tile's rows lets each of its sums have a register
// hint: copied into arrays of its own, tile by tile, a number is read from a or b once for a whole row of tiles
// hint: at the edges fewer rows or columns of a tile are copied and stored; all of it may be computed
// wrong: constexpr Size kRows = 8, ==> for (Size i = 0; i < m; ++i)\n    for (Size j = 0; j < n; ++j) c(i, j, sum(0, k, [&](Size p) { return a(i, p) * b(p, j); }));\n  if (m + n > 0) return;\n  constexpr Size kRows = 8,
// wrong: i < std::min(kRows, m - i0); ++i)\n        for ==> i < kRows; ++i)\n        for
// wrong: panel_b[p * kColumns + j] = b(p, j0 + j) ==> panel_b[p * kColumns + j] = b(p, j)

namespace {

void verdict() {
  const std::size_t shapes[][3] = {{64, 48, 32}, {37, 53, 19}, {1, 1, 1}, {5, 40, 3}, {3, 2, 0}, {0, 4, 4}};
  for (const auto& [m, n, k] : shapes) {
    const std::vector<double> a = judge::waves(m * k, 0.7), b = judge::waves(k * n, 1.3);
    std::vector<double> y(m * n);
    std::vector<int> written(m * n);
    long reads = 0;
    const std::size_t rows = m, columns = n, depth = k;
    mini::product(
        m, n, k,
        [&](std::size_t i, std::size_t p) {
          book::claim(i < rows && p < depth, "nothing is read beyond a");
          return ++reads, a[i * depth + p];
        },
        [&](std::size_t p, std::size_t j) {
          book::claim(p < depth && j < columns, "nothing is read beyond b");
          return ++reads, b[p * columns + j];
        },
        [&](std::size_t i, std::size_t j, double sum) {
          book::claim(i < rows && j < columns, "nothing is written beyond c");
          ++written[i * columns + j], y[i * columns + j] = sum;
        });
    for (const int times : written) book::claim(times == 1, "each number of c is written once");
    judge::same(y, ct::matmul(judge::theirs(a, m, k).detach(), judge::theirs(b, k, n).detach()),
                "the product is the library's");
    const double of_read = static_cast<double>(m * n * k) / static_cast<double>(std::max(reads, 1L));
    std::printf("%zu x %zu x %zu: %.1f multiply-adds for a number that is read\n", m, n, k, of_read);
    if (m == 64) book::claim(of_read >= 4, "at least four multiply-adds are made for each read");
  }
}

}  // namespace

int main() { return book::run(verdict); }
