#include <cotangent/core/device/parallel.h>
#include <cotangent/cotangent.h>

#include <book.h>
#include <cache.h>
#include <core.h>
#include <examples/common/svg.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <sstream>
#include <vector>

// Chapter 8: cache misses of three loops, counted by a model of a cache, and threads that do not change a bit.

namespace {

using book::Cache;
using Size = std::size_t;

/// A matrix of floats, row by row, without a counter.
struct PlainMatrix {
  Size rows, columns;
  std::vector<float> elements;
  PlainMatrix(Size rows, Size columns) : rows(rows), columns(columns), elements(rows * columns) {}
  float& operator()(Size i, Size j) { return elements[i * columns + j]; }
  const std::vector<float>& values() const { return elements; }
};

/// C += A B for rows [0, m), a block of k from p0 and a block of columns from j0: a number of A times a row of B.
template <class Matrix>
void add_block(Matrix& a, Matrix& b, Matrix& c, Size p0, Size p1, Size j0, Size j1) {
  for (Size i = 0; i < a.rows; ++i)
    for (Size p = p0; p < p1; ++p) {
      const float x = a(i, p);
      for (Size j = j0; j < j1; ++j) c(i, j) += x * b(p, j);
    }
}

/// The definition: a row of A times a column of B.
template <class Matrix>
void by_columns(Matrix& a, Matrix& b, Matrix& c) {
  for (Size i = 0; i < a.rows; ++i)
    for (Size j = 0; j < b.columns; ++j) {
      float sum = 0;
      for (Size p = 0; p < b.rows; ++p) sum += a(i, p) * b(p, j);
      c(i, j) = sum;
    }
}

/// The last two loops exchanged: along rows of B and C.
template <class Matrix>
void by_rows(Matrix& a, Matrix& b, Matrix& c) {
  add_block(a, b, c, 0, b.rows, 0, b.columns);
}

/// The same for one block of B after the other, 16 rows of 64 numbers: 4 KiB that stay in the cache.
template <class Matrix>
void by_blocks(Matrix& a, Matrix& b, Matrix& c) {
  for (Size j = 0; j < b.columns; j += 64)
    for (Size p = 0; p < b.rows; p += 16)
      add_block(a, b, c, p, std::min(b.rows, p + 16), j, std::min(b.columns, j + 64));
}

template <class Matrix>
void fill(Matrix& m, double pace) {
  for (Size i = 0; i < m.rows; ++i)
    for (Size j = 0; j < m.columns; ++j)
      m(i, j) = static_cast<float>(std::sin(pace * static_cast<double>(i * m.columns + j + 1)));
}

ct::Tensor tensor_of(const std::vector<float>& values, Size rows, Size columns) {
  return ct::from_vector(values).view(static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns));
}

/// Lines fetched for a product of n x n through a cache of that many lines, which is empty at first.
template <class Product>
long fetched(Size n, Size lines, Product product) {
  Cache cache(lines);
  book::WatchedMatrix a(cache, n, n), b(cache, n, n), c(cache, n, n);
  fill(a, 0.7), fill(b, 1.3);
  cache.clear();
  product(a, b, c);
  const long found = cache.fetched;
  const ct::Tensor wanted = ct::matmul(tensor_of(a.values(), n, n), tensor_of(b.values(), n, n));
  const double off = ct::amax(ct::abs(wanted - tensor_of(c.values(), n, n))).item();
  book::claim(off < 1e-4, "each order gives the product that the library gives");
  return found;
}

void lines() {
  book::section("lines");
  const Size n = 128, cache = 128;
  std::printf("128 x 128 x 128, a cache of 128 lines (8 KiB)\n");
  std::printf("%-12s %9s %22s\n", "order", "lines", "multiply-adds a line");
  const auto row = [&](const char* name, auto product) {
    const long found = fetched(n, cache, product);
    std::printf("%-12s %9ld %22.1f\n", name, found,
                static_cast<double>(n * n * n) / static_cast<double>(found));
    return found;
  };
  using M = book::WatchedMatrix;
  const long columns = row("by columns", by_columns<M>), rows = row("by rows", by_rows<M>),
             blocks = row("by blocks", by_blocks<M>);
  book::claim(columns > static_cast<long>(n * n * n), "by columns each multiply-add fetches a line of B");
  book::claim(rows < columns / 10 && blocks < rows / 10, "each step saves nine tenths");
}

void picture() {
  svg::Curve one{"by columns", "#c33", {}, {}}, two{"by rows", "#36a", {}, {}},
      three{"by blocks", "#282", {}, {}};
  using M = book::WatchedMatrix;
  for (Size lines = 16; lines <= 1024; lines *= 2) {
    const auto add = [&](svg::Curve& curve, auto product) {
      curve.x.push_back(std::log2(static_cast<double>(lines) / 16));
      curve.y.push_back(std::log10(static_cast<double>(fetched(64, lines, product))));
    };
    add(one, by_columns<M>), add(two, by_rows<M>), add(three, by_blocks<M>);
  }
  book::figure("08-lines", svg::chart("Lines fetched for a product of 64 x 64 x 64",
                                      "log2 of the cache in KiB", "log10 of the lines", {one, two, three}));
}

/// A tile of rows x vectors sums: what a step of k loads and multiplies.
void tiles() {
  book::section("tiles");
  std::printf("rows x vectors   sums   registers   loads a step   multiply-adds a load\n");
  for (const auto& [rows, vectors] : {std::pair{1, 1}, {2, 2}, {4, 2}, {6, 2}, {12, 2}, {14, 2}, {15, 2}})
    std::printf("%4d x %d %15d %11d %14d %22.2f\n", rows, vectors, rows * vectors,
                rows * vectors + vectors + 1, rows + vectors,
                static_cast<double>(rows * vectors) / (rows + vectors));
}

/// Blocks at each level: B's in the second-level cache, A's rows in the first, a tile of C in registers.
void levels() {
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 800 300' font-family='sans-serif' "
         "font-size='12'>\n<rect width='800' height='300' fill='white'/>\n";
  const auto box = [&](double x, double y, double width, double height, const char* fill) {
    out << "<rect x='" << x << "' y='" << y << "' width='" << width << "' height='" << height
        << "' stroke='#557' fill='" << fill << "'/>\n";
  };
  const char *const plain = "#f4f6fa", *const block = "#d6e4f7", *const panel = "#a9c8ef",
                    *const tile = "#f2b6a0";
  for (int n = 0; n < 3; ++n) box(30 + 260 * n, 50, 220, 220, plain);
  box(30, 50 + 60, 80, 60, block), box(30, 50 + 84, 80, 12, panel);  // A: rows of the block, a tile's
  box(290, 50, 220, 80, block), box(290 + 110, 50, 30, 80, panel);   // B: a block of k, a tile's columns
  box(550, 50 + 60, 220, 60, block), box(550 + 110, 50 + 84, 30, 12, tile);  // C
  const char* const names[] = {"A [m, k]", "B [k, n]", "C [m, n]"};
  const char* const texts[] = {"dark: 12 rows, in the first-level cache",
                               "blue: a block, in the second-level cache", "red: 12 x 32 sums, in registers"};
  for (int n = 0; n < 3; ++n)
    out << "<text x='" << 30 + 260 * n << "' y='26' font-size='14'>" << names[n] << "</text><text x='"
        << 30 + 260 * n << "' y='43'>" << texts[n] << "</text>\n";
  book::figure("08-levels", out.str() + "</svg>\n");
}

/// A running total.
float sum_of(const float* x, std::int64_t begin, std::int64_t end) {
  float sum = 0;
  for (std::int64_t i = begin; i < end; ++i) sum += x[i];
  return sum;
}

/// A sum in as many equal parts as there are threads.
float cut_by_threads(const std::vector<float>& x) {
  const auto n = static_cast<std::int64_t>(x.size()), part = (n - 1) / ct::num_threads() + 1;
  std::vector<float> sums(static_cast<Size>(ct::num_threads()));
  ct::parallel_chunks(n, part, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    sums[static_cast<Size>(chunk)] = sum_of(x.data(), begin, end);
  });
  return sum_of(sums.data(), 0, static_cast<std::int64_t>(sums.size()));
}

/// A sum in parts of 4096 numbers, whichever thread adds them up.
float cut_by_size(const std::vector<float>& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<float> sums(static_cast<Size>(ct::chunk_count(n, 4096)));
  ct::parallel_chunks(n, 4096, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    sums[static_cast<Size>(chunk)] = sum_of(x.data(), begin, end);
  });
  return sum_of(sums.data(), 0, static_cast<std::int64_t>(sums.size()));
}

/// Calls f with that many threads.
template <class F>
auto with_threads(int count, F&& f) {
  const int before = ct::num_threads();
  ct::set_num_threads(count);
  const auto result = f();
  ct::set_num_threads(before);
  return result;
}

void threads() {
  book::section("threads");
  std::vector<float> x;
  for (int i = 0; i < 3'000'000; ++i) x.push_back(static_cast<float>(i % 10007) / 10007);
  PlainMatrix a(130, 170), b(170, 90);
  fill(a, 0.7), fill(b, 1.3);
  const ct::Tensor left = tensor_of(a.values(), 130, 170), right = tensor_of(b.values(), 170, 90);
  std::printf("threads   cut by threads   cut by size   bits of ct::matmul\n");
  const float first = with_threads(1, [&] { return cut_by_size(x); });
  const ct::Tensor product = with_threads(1, [&] { return ct::matmul(left, right); });
  std::vector<float> others;
  for (const int count : {1, 2, 7}) {
    const float by_threads = with_threads(count, [&] { return cut_by_threads(x); });
    const float by_size = with_threads(count, [&] { return cut_by_size(x); });
    const ct::Tensor again = with_threads(count, [&] { return ct::matmul(left, right); });
    std::printf("%7d %16.3f %13.3f   %s\n", count, by_threads, by_size, count == 1 ? "" : "the same");
    book::claim(std::memcmp(&by_size, &first, sizeof first) == 0, "a sum cut by size has the same bits");
    book::claim(product.equal(again), "the library's product has the same bits");
    others.push_back(by_threads);
  }
  book::claim(others[0] != others[1] && others[1] != others[2],
              "a sum cut by threads has other bits for each number");
}

void core() {
  book::section("core");
  book::print_core();
}

void measured() {
  book::section("measured");
  const Size n = 384;
  PlainMatrix a(n, n), b(n, n);
  fill(a, 0.7), fill(b, 1.3);
  const ct::Tensor left = tensor_of(a.values(), n, n), right = tensor_of(b.values(), n, n);
  std::printf("384 x 384 x 384, f32, billions of operations a second\n");
  const auto row = [&](const char* name, const std::function<void()>& product) {
    double least = INFINITY;
    for (int i = 0; i < 2; ++i) {
      const auto start = std::chrono::steady_clock::now();
      product();
      least =
          std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::printf("%-24s %7.2f\n", name, 2 * std::pow(static_cast<double>(n), 3) / least * 1e-9);
  };
  using M = PlainMatrix;
  const auto into_new = [&](auto product) {
    return [&a, &b, product] {
      M c(a.rows, b.columns);
      product(a, b, c);
    };
  };
  row("by columns", into_new(by_columns<M>));
  row("by rows", into_new(by_rows<M>));
  row("by blocks", into_new(by_blocks<M>));
  for (const int count : {1, 2})
    with_threads(count, [&] {
      row(count == 1 ? "ct::matmul, one thread" : "ct::matmul, two threads",
          [&] { ct::matmul(left, right); });
      return 0;
    });
}

void chapter() {
  lines();
  picture();
  tiles();
  levels();
  threads();
  core();
  measured();
}

}  // namespace

int main() { return book::run(chapter); }
