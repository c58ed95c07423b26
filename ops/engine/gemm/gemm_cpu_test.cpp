#include <cotangent/ops/engine/gemm/gemm_cpu.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <cotangent/core/device/cpu_level.h>
#include <cotangent/core/device/parallel.h>

#include "tests/catch.h"

using ct::Gemm;
using std::int64_t;

namespace {

// Operands are small whole numbers: every product and every sum is exact in every type, so results must be
// equal to the last bit, whatever the order of the additions.
template <class T>
struct Matrix {
  std::vector<T> data;
  int64_t row = 0, col = 0, origin = 0;
  const T* begin() const { return data.data() + origin; }
};

enum class Layout { rows, columns, padded, padded_columns, strided, reversed, count };

std::mt19937& engine() {
  static std::mt19937 generator(20'240'607);
  return generator;
}

int64_t pick(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(engine());
}

// Elements between those of the matrix are NaN (or a large number): nobody may read them into a result.
template <class T>
T poison() {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(101);
  } else {
    return T(std::numeric_limits<float>::quiet_NaN());
  }
}

template <class T>
Matrix<T> make(int64_t m, int64_t n, Layout layout) {
  Matrix<T> x;
  int64_t size = 0;
  switch (layout) {
    case Layout::rows: x.row = n, x.col = 1, size = m * n; break;
    case Layout::columns: x.row = 1, x.col = m, size = m * n; break;
    case Layout::padded: x.row = n + 5, x.col = 1, size = m * (n + 5); break;
    case Layout::padded_columns: x.row = 1, x.col = m + 3, size = (m + 3) * n; break;
    case Layout::strided: x.row = 3 * n + 1, x.col = 3, size = m * (3 * n + 1); break;
    default: x.row = -n, x.col = 1, x.origin = m == 0 ? 0 : (m - 1) * n, size = m * n; break;
  }
  x.data.assign(static_cast<std::size_t>(size), poison<T>());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      x.data[static_cast<std::size_t>(x.origin + i * x.row + j * x.col)] =
          static_cast<T>(static_cast<float>(pick(-3, 3)));
  return x;
}

template <>
Matrix<std::uint8_t> make(int64_t m, int64_t n, Layout layout) {
  const Matrix<std::int32_t> from = make<std::int32_t>(m, n, layout);
  Matrix<std::uint8_t> x;
  x.row = from.row, x.col = from.col, x.origin = from.origin;
  for (const std::int32_t v : from.data) x.data.push_back(static_cast<std::uint8_t>(v + 3));
  return x;
}

template <class T>
double value(T x) {
  return static_cast<double>(static_cast<ct::compute_t<T>>(x));
}

template <class T>
T rounded(double x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<int64_t>(x));
  } else {
    return T(static_cast<ct::compute_t<T>>(x));
  }
}

template <class T>
bool same(T x, T y) {
  return std::memcmp(&x, &y, sizeof x) == 0 || value(x) == value(y);
}

// Rows x columns numbers, row by row.
template <class T>
std::vector<double> numbers(const T* x, int64_t rows, int64_t columns, int64_t row, int64_t column) {
  std::vector<double> all;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) all.push_back(value(x[i * row + j * column]));
  return all;
}

// c += a b, by the definition. Without a sanitizer's look at each of the loads, half a billion of them.
__attribute__((no_sanitize("address", "undefined"))) void add_products(int64_t m, int64_t n, int64_t k,
                                                                       const double* a, const double* b,
                                                                       double* c) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
}

std::vector<double> product(int64_t m, int64_t n, int64_t k, const std::vector<double>& a,
                            const std::vector<double>& b) {
  std::vector<double> c(static_cast<std::size_t>(m * n));
  add_products(m, n, k, a.data(), b.data(), c.data());
  return c;
}

// Runs one product and compares it with the definition. beta and alpha are whole numbers too.
template <class T>
void check(int64_t m, int64_t n, int64_t k, Layout la, Layout lb, int alpha, int beta, bool bias) {
  INFO("m " << m << " n " << n << " k " << k << " layouts " << static_cast<int>(la) << ' '
            << static_cast<int>(lb) << " alpha " << alpha << " beta " << beta << " bias " << bias);
  const Matrix<T> a = make<T>(m, k, la), b = make<T>(k, n, lb), shift = make<T>(1, n, Layout::rows);
  const int64_t c_row = n + pick(0, 3);
  const std::size_t c_size = static_cast<std::size_t>(m * c_row);
  std::vector<T> c(c_size, poison<T>());
  if (beta != 0) c = make<T>(m, c_row, Layout::rows).data;
  std::vector<T> before = c;
  const Gemm shape{m, n, k, a.row, a.col, b.row, b.col, c_row};
  if (bias) {
    ct::gemm_bias_cpu<T>(shape, a.begin(), b.begin(), shift.begin(), c.data());
  } else {
    ct::gemm_cpu<T>(shape, static_cast<ct::compute_t<T>>(alpha), a.begin(), b.begin(),
                    static_cast<ct::compute_t<T>>(beta), c.data());
  }
  const std::vector<double> products =
      product(m, n, k, numbers(a.begin(), m, k, a.row, a.col), numbers(b.begin(), k, n, b.row, b.col));
  bool good = true;
  for (int64_t i = 0; i < m && good; ++i)
    for (int64_t j = 0; j < c_row && good; ++j) {
      const std::size_t at = static_cast<std::size_t>(i * c_row + j);
      if (j >= n) {
        good = std::memcmp(&c[at], &before[at], sizeof(T)) == 0;  // the gap between rows is not ours
      } else {
        double sum = alpha * products[static_cast<std::size_t>(i * n + j)];
        if (beta != 0) sum += beta * value(before[at]);
        if (bias) sum += value(shift.begin()[j]);
        good = same(c[at], rounded<T>(sum));
      }
      if (!good) FAIL_CHECK("wrong at " << i << ", " << j << ": " << value(c[at]));
    }
  CHECK(good);
}

template <class T>
void check_random(int rounds, int64_t largest) {
  for (int round = 0; round < rounds; ++round) {
    const auto layout = [] { return static_cast<Layout>(pick(0, static_cast<int64_t>(Layout::count) - 1)); };
    const bool bias = round % 4 == 3;
    check<T>(pick(1, largest), pick(1, largest), pick(0, largest), layout(), layout(),
             bias || round % 3 != 0 ? 1 : 2, bias ? 0 : static_cast<int>(pick(0, 2)), bias);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("products of odd sizes and layouts equal the definition", "[gemm]", float, double,
                   ct::Half, ct::BFloat16, std::int64_t, std::int32_t, std::uint8_t) {
  check_random<TestType>(400, 70);
}

TEMPLATE_TEST_CASE("products at the edges of the blocks equal the definition", "[gemm]", float, double) {
  for (const Layout la : {Layout::rows, Layout::columns})
    for (const Layout lb : {Layout::rows, Layout::columns}) {
      for (const int64_t m : {1, 2, 11, 12, 13, 25})
        for (const int64_t n : {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 129})
          check<TestType>(m, n, 19, la, lb, 1, 0, false);
      for (const int64_t k : {0, 1, 15, 16, 17, 255, 256, 257, 511, 513, 785}) {
        check<TestType>(13, 33, k, la, lb, 1, 1, false);
        check<TestType>(1, 70, k, la, lb, 1, 0, true);
        check<TestType>(5, 3, k, la, lb, 2, 3, false);
      }
      check<TestType>(389, 45, 300, la, lb, 1, 0, true);
      check<TestType>(45, 530, 300, la, lb, 1, 1, false);
      check<TestType>(200, 300, 1030, la, lb, 1, 0, false);
      // Rows and columns so many lines apart that they meet in a few places of a cache.
      for (const int64_t m : {48, 64, 128, 320}) check<TestType>(m, 256, 150, la, lb, 2, 1, false);
      check<TestType>(256, 112, 530, la, lb, 1, 0, true);
    }
}

TEMPLATE_TEST_CASE("thin products, which are computed as scalar products, equal the definition", "[gemm]",
                   float, double) {
  for (const Layout lb : {Layout::rows, Layout::columns, Layout::padded_columns})
    for (const int64_t m : {1, 2, 4, 5, 33})
      for (const int64_t n : {1, 2, 3, 4, 5, 10})
        for (const int64_t k : {1, 8, 15, 16, 17, 31, 33, 64, 100, 257}) {
          check<TestType>(m, n, k, Layout::padded, lb, 1, 0, false);
          check<TestType>(m, n, k, Layout::rows, lb, 1, 0, true);
          check<TestType>(m, n, k, Layout::rows, lb, 3, 2, false);
        }
}

TEMPLATE_TEST_CASE("16-bit products are summed in float and rounded once", "[gemm]", ct::Half, ct::BFloat16) {
  for (const Layout la : {Layout::rows, Layout::columns})
    for (const Layout lb : {Layout::rows, Layout::columns})
      check<TestType>(50, 70, 1500, la, lb, 1, 1, false);
  // 1 + 2^-12 + 2^-12 + ...: rounding to the 16-bit type in between would stay at 1 for ever.
  const int64_t k = 4097;
  std::vector<TestType> a(static_cast<std::size_t>(k), TestType(0x1p-12f)),
      b(static_cast<std::size_t>(k), TestType(1.0f)), c(1);
  a[0] = TestType(1.0f);
  ct::gemm_cpu<TestType>({1, 1, k, k, 1, 1, 1, 1}, 1, a.data(), b.data(), 0, c.data());
  CHECK(static_cast<float>(c[0]) == 2.0f);
}

TEMPLATE_TEST_CASE("empty products", "[gemm]", float, ct::Half, std::int32_t) {
  TestType c[4] = {rounded<TestType>(5), rounded<TestType>(6), rounded<TestType>(7), rounded<TestType>(8)};
  const TestType* none = nullptr;
  ct::gemm_cpu<TestType>({0, 2, 3, 3, 1, 2, 1, 2}, 1, none, none, 0, c);
  ct::gemm_cpu<TestType>({2, 0, 3, 3, 1, 0, 1, 2}, 1, none, none, 0, c);
  CHECK(value(c[0]) == 5);
  ct::gemm_cpu<TestType>({2, 2, 0, 0, 1, 2, 1, 2}, 1, none, none, 1, c);
  CHECK(value(c[3]) == 8);
  ct::gemm_cpu<TestType>({2, 2, 0, 0, 1, 2, 1, 2}, 1, none, none, 0, c);
  for (const TestType x : c) CHECK(value(x) == 0);
  ct::gemm_batched_cpu<TestType>({2, 2, 1, 1, 1, 2, 1, 2}, 0, 0, 0, 0, 1, none, none, 0, nullptr);
}

TEMPLATE_TEST_CASE("batched products, with operands repeated", "[gemm]", float, double, ct::BFloat16,
                   std::int64_t) {
  const auto [batch, m, n, k] =
      GENERATE(std::array<int64_t, 4>{7, 9, 21, 14}, std::array<int64_t, 4>{3, 20, 5, 100},
               std::array<int64_t, 4>{2, 150, 160, 130});
  for (const bool repeat_a : {false, true})
    for (const bool repeat_b : {false, true})
      for (const Layout lb : {Layout::rows, Layout::columns}) {
        const auto a = make<TestType>(batch * m, k, Layout::rows),
                   b = make<TestType>(batch * k, n, Layout::rows);
        // read b's items as k x n, or as the transposes of n x k
        const int64_t b_row = lb == Layout::rows ? n : 1, b_col = lb == Layout::rows ? 1 : k;
        std::vector<TestType> c(static_cast<std::size_t>(batch * m * n), poison<TestType>());
        const int64_t a_step = repeat_a ? 0 : m * k, b_step = repeat_b ? 0 : k * n;
        ct::gemm_batched_cpu<TestType>({m, n, k, k, 1, b_row, b_col, n}, batch, a_step, b_step, m * n, 1,
                                       a.begin(), b.begin(), 0, c.data());
        bool good = true;
        for (int64_t s = 0; s < batch; ++s) {
          const auto products = product(m, n, k, numbers(a.begin() + s * a_step, m, k, k, 1),
                                        numbers(b.begin() + s * b_step, k, n, b_row, b_col));
          for (std::size_t i = 0; i < products.size(); ++i)
            good = good &&
                   same(c[static_cast<std::size_t>(s) * products.size() + i], rounded<TestType>(products[i]));
        }
        CHECK(good);
      }
}

TEMPLATE_TEST_CASE("rounding errors stay within the bound of one sum in order", "[gemm]", float, double) {
  // |error| <= k * eps / 2 * sum |a b| (Higham, Accuracy and Stability of Numerical Algorithms, 3.1); a
  // random walk stays far below, so a tenth of it is asked for.
  std::uniform_real_distribution<TestType> uniform(-1, 1);
  const int64_t m = 37, n = 45, k = 700;
  std::vector<TestType> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n)),
      c(static_cast<std::size_t>(m * n));
  for (auto& x : a) x = uniform(engine());
  for (auto& x : b) x = uniform(engine());
  for (const bool transposed : {false, true}) {
    ct::gemm_cpu<TestType>({m, n, k, k, 1, transposed ? 1 : n, transposed ? k : 1, n}, 1, a.data(), b.data(),
                           0, c.data());
    double worst = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        long double sum = 0, size = 0;
        for (int64_t p = 0; p < k; ++p) {
          const long double product = static_cast<long double>(a[static_cast<std::size_t>(i * k + p)]) *
                                      b[static_cast<std::size_t>(transposed ? j * k + p : p * n + j)];
          sum += product;
          size += std::abs(product);
        }
        worst = std::max(worst,
                         static_cast<double>(std::abs(sum - c[static_cast<std::size_t>(i * n + j)]) / size));
      }
    CHECK(worst <
          0.1 * static_cast<double>(k) * static_cast<double>(std::numeric_limits<TestType>::epsilon()) / 2);
  }
}

// Products of two bf16 are exact in float, so a chain of multiply-adds has the same bits at every level, one by one or in pairs.
// AMX adds up groups of them.
TEST_CASE("products of bf16 are chains of float in the order of k, at every level but AMX's", "[gemm]") {
  const float tolerance = std::string(ct::cpu_level()) == "v4-amx" ? 1e-4f : 0;
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (const auto [m, n, k] :
       {std::array<int64_t, 3>{13, 33, 1}, {30, 70, 64}, {5, 200, 1027}, {200, 3, 2049}})
    for (const int form : {0, 1, 2, 3}) {
      const int64_t a_row = form & 1 ? 1 : k, a_col = form & 1 ? m : 1;
      const int64_t b_row = form & 2 ? 1 : n, b_col = form & 2 ? k : 1;
      std::vector<ct::BFloat16> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
      for (auto& x : a) x = ct::BFloat16(uniform(engine()));
      for (auto& x : b) x = ct::BFloat16(uniform(engine()));
      std::vector<float> c(static_cast<std::size_t>(m * n), 0.3f);
      ct::gemm_cpu<ct::BFloat16, float>({m, n, k, a_row, a_col, b_row, b_col, n}, 1, a.data(), b.data(), 1,
                                        c.data());
      int64_t wrong = 0;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          float sum = 0.3f;
          for (int64_t p = 0; p < k; ++p)
            sum += static_cast<float>(a[static_cast<std::size_t>(i * a_row + p * a_col)]) *
                   static_cast<float>(b[static_cast<std::size_t>(p * b_row + j * b_col)]);
          wrong += !(std::abs(sum - c[static_cast<std::size_t>(i * n + j)]) <= tolerance);
        }
      INFO("m " << m << " n " << n << " k " << k << " form " << form);
      CHECK(wrong == 0);
    }
}

TEST_CASE("an odd k fills the last pair of bf16 with what adds nothing, not even 0 to -0", "[gemm]") {
  const ct::BFloat16 a(-0.0f), b(1.0f);
  float c = -0.0f;
  ct::gemm_cpu<ct::BFloat16, float>({1, 1, 1, 1, 1, 1, 1, 1}, 1, &a, &b, 1, &c);
  CHECK(std::signbit(c));
}

TEST_CASE("denormals in products of bf16 count, or at the levels of their instructions count as 0",
          "[gemm]") {
  const ct::BFloat16 a[3] = {ct::BFloat16(0x1p-130f), ct::BFloat16(0x1p-70f), ct::BFloat16(1.0f)};
  const ct::BFloat16 b[3] = {ct::BFloat16(0x1p10f), ct::BFloat16(0x1p-60f), ct::BFloat16(0x1p-126f)};
  float c[3];
  ct::gemm_batched_cpu<ct::BFloat16, float>({1, 1, 1, 1, 1, 1, 1, 1}, 3, 1, 1, 1, 1, a, b, 0, c);
  const bool kept = c[0] != 0;
  CHECK(c[0] == (kept ? 0x1p-120f : 0));  // of an operand
  CHECK(c[1] == (kept ? 0x1p-130f : 0));  // a sum
  CHECK(c[2] == 0x1p-126f);
  const std::string level = ct::cpu_level();
  if (level[0] == 'v')
    CHECK(kept ==
          (level.substr(0, 3) != "v4-"));  // the others follow the machine that the library was built on
}

TEMPLATE_TEST_CASE("the number of threads does not change a bit", "[gemm]", float, double, ct::Half,
                   ct::BFloat16) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  const int before = ct::num_threads();
  for (const auto [m, n, k] :
       {std::array<int64_t, 3>{200, 300, 500}, {64, 256, 784}, {1, 1000, 900}, {900, 1, 500}}) {
    std::vector<TestType> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
    for (auto& x : a) x = static_cast<TestType>(uniform(engine()));
    for (auto& x : b) x = static_cast<TestType>(uniform(engine()));
    for (const bool transposed : {false, true}) {
      std::vector<TestType> first;
      for (const int threads : {1, 2, 7}) {
        ct::set_num_threads(threads);
        std::vector<TestType> c(static_cast<std::size_t>(m * n)), negative = c;
        const auto multiply = [&, m = m, n = n, k = k](std::vector<TestType>& to) {
          ct::gemm_cpu<TestType>({m, n, k, k, 1, transposed ? 1 : n, transposed ? k : 1, n}, 1, a.data(),
                                 b.data(), 0, to.data());
        };
        multiply(c);
        if (first.empty()) first = c;
        CHECK(std::memcmp(first.data(), c.data(), c.size() * sizeof(TestType)) == 0);
        // Packed blocks of one product are not used for the next.
        for (auto& x : a) x = TestType(-x);
        multiply(negative);
        for (auto& x : a) x = TestType(-x);
        CHECK(std::equal(c.begin(), c.end(), negative.begin(), [](auto x, auto y) { return x == -y; }));
      }
    }
  }
  ct::set_num_threads(before);
}

TEMPLATE_TEST_CASE("NaN and infinity in an operand reach the result", "[gemm]", float, ct::BFloat16) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<TestType> a(20 * 30, TestType(1.0f)), b(30 * 40, TestType(1.0f));
  std::vector<float> c(20 * 40);
  a[3 * 30 + 7] = TestType(0.0f);
  b[7 * 40 + 5] = TestType(inf);  // 0 * inf in row 3, inf in the others
  ct::gemm_cpu<TestType, float>({20, 40, 30, 30, 1, 40, 1, 40}, 1, a.data(), b.data(), 0, c.data());
  CHECK(std::isnan(c[3 * 40 + 5]));
  CHECK(c[4 * 40 + 5] == inf);
  CHECK(c[3 * 40 + 6] == 29);
}
