#include <emulator.h>

#include <random>

// Judges of the kernels in this folder: each runs one on ragged sizes, compares with the formula in f64, and counts what the
// block did to memory.

#define KERNEL __attribute__((weak)) void  // the program has one of them
KERNEL transpose(const float* x, float* y, int rows, int columns);
KERNEL block_sum(const float* x, float* sums, int n);
KERNEL softmax(const float* x, float* y, int n);
KERNEL softmax_backward(const float* y, const float* g, float* dx, int n);
KERNEL layer_norm_backward(const float* x, const float* w, const float* g, const float* mean,
                           const float* rstd, float* dx, int n);
KERNEL bias_backward(const float* g, float* db, int rows, int columns);
KERNEL bias_gelu_backward(const float* x, const float* b, const float* g, float* dx, float* db, int rows,
                          int columns);
KERNEL histogram(const int* x, int* counts, int n);

namespace {

using emulator::Array;
using emulator::Report;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

Floats drawn(std::size_t n, float scale = 1) {
  static std::mt19937 draw(5);
  Floats v(n);
  for (float& x : v) x = scale * (static_cast<float>(draw() % 20001) / 10000 - 1);
  return v;
}
std::size_t size(int n) { return static_cast<std::size_t>(n); }
unsigned pieces(int n, int of) { return static_cast<unsigned>((n + of - 1) / of); }

/// Throws std::runtime_error unless each number is `wanted` within `slack` of the largest one.
void compare(const char* name, const Array<float>& found, const Doubles& wanted, double slack = 1e-5) {
  double largest = 1e-30;
  for (const double w : wanted) largest = std::max(largest, std::abs(w));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (std::abs(double{found[i]} - wanted[i]) <= slack * largest) continue;
    char line[128];
    std::snprintf(line, sizeof line, "%s[%zu] is %.6g; it ought to be %.6g", name, i, double{found[i]},
                  wanted[i]);
    throw std::runtime_error(line);
  }
}

/// Prints a count beside its limit, and wants it kept.
void at_most(const char* what, long found, long limit) {
  std::printf("%-46s %8ld  at most %ld\n", what, found, limit);
  if (found > limit) throw std::runtime_error(std::string("too many: ") + what);
}
/// Sectors of `numbers` floats in `runs` runs, of which each may begin and end within a sector.
long sectors(long numbers, long runs = 0) { return numbers / 8 + 2 * runs; }

void judge_transpose() {
  for (const auto& [rows, columns] : {std::pair{64, 96}, {45, 70}, {1, 33}}) {
    const Floats x = drawn(size(rows * columns));
    Doubles wanted;
    for (int c = 0; c < columns; ++c)
      for (int r = 0; r < rows; ++r) wanted.push_back(x[size(r * columns + c)]);
    const Array<float> in("x", x), out("y", x.size());
    const int m = rows, n = columns;
    std::printf("%d x %d\n", m, n);
    const Report r = emulator::run({pieces(n, 32), pieces(m, 32)}, {32, 8},
                                   [&] { transpose(in.data(), out.data(), m, n); });
    compare("y", out, wanted);
    if (m % 32 != 0) continue;
    at_most("sectors loaded", r.loads.moved, sectors(m * n));
    at_most("sectors stored", r.stores.moved, sectors(m * n));
    at_most("turns of shared memory", r.shared.moved, r.shared.accesses);
  }
}

void judge_block_sum() {
  for (const int n : {4096, 3000, 1}) {
    const Floats x = drawn(size(n));
    const unsigned blocks = pieces(n, 1024);
    Doubles wanted(blocks);
    for (int i = 0; i < n; ++i) wanted[size(i / 1024)] += x[size(i)];
    const Array<float> in("x", x), out("sums", blocks);
    std::printf("%d numbers\n", n);
    const Report r = emulator::run({blocks}, {256}, [&] { block_sum(in.data(), out.data(), n); });
    compare("sums", out, wanted);
    at_most("numbers loaded by one thread", r.longest, 4);
    at_most("sectors loaded", r.loads.moved, sectors(n, 1));
    at_most("barriers of all blocks", r.barriers, blocks);
    at_most("atomic additions", r.atomics + r.shared_atomics, 0);
    at_most("turns of shared memory", r.shared.moved, r.shared.accesses);
  }
}

Doubles softmax_of(const Floats& x, int n) {
  Doubles y;
  for (std::size_t row = 0; row < x.size(); row += size(n)) {
    double top = -INFINITY, sum = 0;
    for (std::size_t i = row; i < row + size(n); ++i) top = std::max<double>(top, x[i]);
    for (std::size_t i = row; i < row + size(n); ++i) sum += std::exp(x[i] - top);
    for (std::size_t i = row; i < row + size(n); ++i) y.push_back(std::exp(x[i] - top) / sum);
  }
  return y;
}

void judge_softmax() {
  for (const int n : {1024, 200, 5, 1}) {
    const int rows = 3;
    Floats x = drawn(size(rows * n), 8);
    for (int i = 0; i < n; ++i) x[size(i)] += 100, x[size(n + i)] -= 200;
    const Array<float> in("x", x), out("y", x.size());
    std::printf("%d rows of %d\n", rows, n);
    const Report r = emulator::run({rows}, {128}, [&] { softmax(in.data(), out.data(), n); });
    compare("y", out, softmax_of(x, n));
    at_most("sectors loaded, for one read of x", r.loads.moved, sectors(rows * n, rows * pieces(n, 32)));
    at_most("barriers of all blocks", r.barriers, rows * 4);
    at_most("atomic additions", r.atomics + r.shared_atomics, 0);
    at_most("turns of shared memory", r.shared.moved, r.shared.accesses);
  }
}

void judge_softmax_backward() {
  for (const int n : {1024, 200, 1}) {
    const int rows = 3;
    const Doubles y = softmax_of(drawn(size(rows * n), 3), n);
    const Floats yf(y.begin(), y.end()), g = drawn(y.size());
    Doubles wanted;
    for (std::size_t row = 0; row < y.size(); row += size(n)) {
      double dot = 0;
      for (std::size_t j = row; j < row + size(n); ++j) dot += g[j] * y[j];
      for (std::size_t i = row; i < row + size(n); ++i) wanted.push_back(y[i] * (g[i] - dot));
    }
    const Array<float> in("y", yf), cotangent("g", g), out("dx", g.size());
    std::printf("%d rows of %d\n", rows, n);
    const Report r =
        emulator::run({rows}, {128}, [&] { softmax_backward(in.data(), cotangent.data(), out.data(), n); });
    compare("dx", out, wanted);
    at_most("sectors loaded, for one read of y and g", r.loads.moved,
            sectors(2 * rows * n, 2 * rows * pieces(n, 32)));
    at_most("barriers of all blocks", r.barriers, rows * 2);
    at_most("atomic additions", r.atomics + r.shared_atomics, 0);
  }
}

void judge_layer_norm_backward() {
  for (const int n : {1024, 200, 5}) {
    const int rows = 3;
    Floats x = drawn(size(rows * n)), mean, rstd;
    const Floats w = drawn(size(n)), g = drawn(x.size());
    for (int i = 0; i < n; ++i) x[size(n + i)] += 10;
    Doubles wanted;
    for (std::size_t row = 0; row < x.size(); row += size(n)) {
      double m = 0, v = 0, sum = 0, along = 0;
      for (std::size_t i = 0; i < size(n); ++i) m += x[row + i] / n;
      for (std::size_t i = 0; i < size(n); ++i) v += (x[row + i] - m) * (x[row + i] - m) / n;
      const double r = 1 / std::sqrt(v + 1e-5);
      mean.push_back(static_cast<float>(m)), rstd.push_back(static_cast<float>(r));
      for (std::size_t i = 0; i < size(n); ++i) {
        sum += g[row + i] * w[i] / n;
        along += g[row + i] * w[i] * (x[row + i] - m) * r / n;
      }
      for (std::size_t i = 0; i < size(n); ++i)
        wanted.push_back(r * (g[row + i] * w[i] - sum - (x[row + i] - m) * r * along));
    }
    const Array<float> in("x", x), weight("w", w), cotangent("g", g), means("mean", mean),
        scales("rstd", rstd), out("dx", x.size());
    std::printf("%d rows of %d\n", rows, n);
    const Report r = emulator::run({rows}, {128}, [&] {
      layer_norm_backward(in.data(), weight.data(), cotangent.data(), means.data(), scales.data(), out.data(),
                          n);
    });
    compare("dx", out, wanted, 1e-4);
    at_most("sectors loaded, for one read of x, w and g", r.loads.moved,
            sectors(3 * rows * n, 3 * rows * pieces(n, 32)) + rows * 8);
    at_most("barriers of all blocks, for both sums", r.barriers, rows * 2);
    at_most("atomic additions", r.atomics + r.shared_atomics, 0);
  }
}

void judge_bias_backward() {
  for (const auto& [rows, columns] : {std::pair{200, 64}, {37, 45}, {1, 1}}) {
    const int m = rows, n = columns;
    const Floats g = drawn(size(m * n));
    Doubles wanted(size(n));
    for (int i = 0; i < m * n; ++i) wanted[size(i % n)] += g[size(i)];
    const Array<float> in("g", g), out("db", Floats(size(n)));
    std::printf("%d x %d\n", m, n);
    const Report r =
        emulator::run({pieces(n, 32)}, {32, 8}, [&] { bias_backward(in.data(), out.data(), m, n); });
    compare("db", out, wanted);
    at_most("atomic additions", r.atomics + r.shared_atomics, 0);
    at_most("numbers loaded by one thread", r.longest, pieces(m, 8));
    at_most("sectors loaded", r.loads.moved, sectors(m * n, m * pieces(n, 32)));
    at_most("turns of shared memory", r.shared.moved, r.shared.accesses);
  }
}

void judge_bias_gelu_backward() {
  for (const auto& [rows, columns] : {std::pair{200, 64}, {37, 45}, {1, 1}}) {
    const int m = rows, n = columns;
    const Floats x = drawn(size(m * n), 3), b = drawn(size(n)), g = drawn(x.size());
    Doubles dx, db(size(n));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t j = i % size(n);
      const double u = static_cast<double>(x[i]) + b[j];
      dx.push_back(g[i] * ((1 + std::erf(u / std::sqrt(2.0))) / 2 +
                           u * std::exp(-u * u / 2) / std::sqrt(2 * 3.14159265358979)));
      db[j] += dx.back();
    }
    const Array<float> in("x", x), bias("b", b), cotangent("g", g), out("dx", x.size()),
        sums("db", Floats(size(n)));
    std::printf("%d x %d\n", m, n);
    const Report r = emulator::run({pieces(n, 32)}, {32, 8}, [&] {
      bias_gelu_backward(in.data(), bias.data(), cotangent.data(), out.data(), sums.data(), m, n);
    });
    compare("dx", out, dx);
    compare("db", sums, db);
    at_most("atomic additions", r.atomics + r.shared_atomics, 0);
    at_most("sectors loaded, for one read of x and g", r.loads.moved,
            sectors(2 * m * n, 2 * m * pieces(n, 32)) + 8 * 6 * pieces(n, 32));
    at_most("turns of shared memory", r.shared.moved, r.shared.accesses);
  }
}

void judge_histogram() {
  for (const int n : {5000, 700, 1}) {
    std::mt19937 draw(7);
    std::vector<int> x(size(n)), wanted(64);
    for (int& v : x) ++wanted[size(v = static_cast<int>(std::min(draw() % 64, draw() % 64)))];
    const Array<int> in("x", x), out("counts", std::vector<int>(64));
    std::printf("%d numbers\n", n);
    const Report r = emulator::run({2}, {256}, [&] { histogram(in.data(), out.data(), n); });
    for (std::size_t v = 0; v < 64; ++v)
      book::claim(out[v] == wanted[v], "counts[" + std::to_string(v) + "] is right: it is " +
                                           std::to_string(out[v]) + ", it ought to be " +
                                           std::to_string(wanted[v]));
    at_most("atomic additions in memory", r.atomics, 2 * 64);
    at_most("atomic additions in shared memory", r.shared_atomics, n);
    at_most("sectors loaded", r.loads.moved, sectors(n, 2));
  }
}

void judge() {
  const auto one = [](const void* kernel, void (*judge_it)()) {
    if (kernel) judge_it();
  };
#define JUDGE(name) one(reinterpret_cast<const void*>(name), judge_##name)
  JUDGE(transpose);
  JUDGE(block_sum);
  JUDGE(softmax);
  JUDGE(softmax_backward);
  JUDGE(layer_norm_backward);
  JUDGE(bias_backward);
  JUDGE(bias_gelu_backward);
  JUDGE(histogram);
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
