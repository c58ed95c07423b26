#include <cotangent/ops/reduce/reduce.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/creation/creation.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using namespace ct;
using testing::values;
using V = std::vector<double>;
using I = std::vector<std::int64_t>;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor leaf(const Shape& shape, const V& v, DType dtype = f64) {
  Tensor t = values(shape, v, dtype);
  t.set_requires_grad();
  return t;
}
void check(const Tensor& got, const Shape& shape, const V& want, double tolerance = 1e-14) {
  REQUIRE(got.shape() == shape);
  const V v = got.to_vector<double>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    INFO("element " << i << ": " << v[i] << ", want " << want[i]);
    if (std::isnan(want[i])) {
      REQUIRE(std::isnan(v[i]));
    } else {
      REQUIRE((v[i] == want[i] || std::abs(v[i] - want[i]) <= tolerance * (1 + std::abs(want[i]))));
    }
  }
}
// Whether f throws an error with `text` in it.
template <class F>
bool says(const F& f, const char* text) {
  try {
    f();
  } catch (const Error& e) { return std::string(e.what()).find(text) != std::string::npos; }
  return false;
}
// d(sum of y * weights)/dx.
V gradient(const Tensor& x, const Tensor& y, const V& weights) {
  y.backward(values(y.shape(), weights, y.dtype()));
  return x.grad().to_vector<double>();
}

const V six{1, 5, -2, 4, 0, 3};  // as 2 x 3: rows 1 5 -2, 4 0 3

}  // namespace

TEST_CASE("sum and mean over rows, columns and everything") {
  const Tensor x = values({2, 3}, six);
  check(sum(x), {}, {11});
  check(sum(x, {0}), {3}, {5, 5, 1});
  check(sum(x, {1}), {2}, {4, 7});
  check(sum(x, {-1}, true), {2, 1}, {4, 7});
  check(sum(x, {0, 1}, true), {1, 1}, {11});
  check(sum(x, {1, 0}), {}, {11});
  check(mean(x, {1}), {2}, {4.0 / 3, 7.0 / 3});
  check(x.sum(), {}, {11});
  check(x.mean(), {}, {11.0 / 6});
}

TEST_CASE("reductions of no elements") {
  const Tensor none = values({0}, {}), wide = values({0, 2}, {});
  check(sum(none), {}, {0});
  check(sum(wide, {0}), {2}, {0, 0});
  check(sum(wide, {1}), {0}, {});
  check(prod(none), {}, {1});
  check(mean(none), {}, {kNan});
  check(var(none), {}, {kNan});
  check(norm(none), {}, {0});
  check(logsumexp(wide, {0}), {2}, {-kInf, -kInf});
  REQUIRE(any(none).item<bool>() == false);
  REQUIRE(all(none).item<bool>() == true);
  check(amax(wide, {1}), {0}, {});
  for (const auto f : {amax, amin}) REQUIRE_THROWS_AS(f(none, {}, false), ShapeError);
  REQUIRE_THROWS_AS(max(none), ShapeError);
  REQUIRE_THROWS_AS(argmax(none), ShapeError);
  REQUIRE(says([&] { max(wide, 0); }, "[max] got f64[0, 2]: a reduction over no elements"));
  REQUIRE_THROWS_AS(norm(none, kInf), ShapeError);
}

TEST_CASE("wrong axes are named") {
  const Tensor x = values({2, 3}, six);
  REQUIRE_THROWS_AS(sum(x, {2}), ShapeError);
  REQUIRE_THROWS_AS(sum(x, {-3}), ShapeError);
  REQUIRE(says([&] { sum(x, {1, -1}); }, "[sum] axis -1 is named twice"));
  REQUIRE_THROWS_AS(argmax(x, 2), ShapeError);
  REQUIRE_THROWS_AS(mean(x.to(i64)), DTypeError);
  REQUIRE_THROWS_AS(norm(x, kNan), ValueError);
}

TEST_CASE("integers and bool sum and multiply as i64") {
  const Tensor bytes = values({3}, {200, 100, 2}, u8);
  REQUIRE(sum(bytes).dtype() == i64);
  REQUIRE(sum(bytes).item<std::int64_t>() == 302);
  REQUIRE(prod(bytes).item<std::int64_t>() == 40000);
  REQUIRE(sum(values({4}, {1, 0, 1, 1}, boolean)).item<std::int64_t>() == 3);
  REQUIRE(amax(bytes).dtype() == u8);
  REQUIRE(amax(bytes).item<std::int64_t>() == 200);
  REQUIRE(aminmax(bytes).max.item<std::int64_t>() == 200);
  REQUIRE(aminmax(bytes, {0}, true).min.item() == amin(bytes).item());
  REQUIRE(amin(values({3}, {-5, 7, -9}, i32)).item<std::int64_t>() == -9);
}

TEST_CASE("the result's dtype can be chosen") {
  const Tensor x = values({2}, {60000, 60000}, f16);
  REQUIRE(std::isinf(sum(x).item()));
  REQUIRE(sum(x, {}, false, f32).item() == 120000);
  REQUIRE(mean(values({4}, {1, 2, 3, 4}, i64), {}, false, f32).item() == 2.5);
  const Tensor d = sum(leaf({2}, {1, 2}, f32), {}, false, f64);
  REQUIRE(d.dtype() == f64);
  const Tensor h = leaf({2}, {1, 2}, f16);
  const Tensor s = sum(h, {}, false, f32);
  REQUIRE(s.dtype() == f32);
  s.backward();
  REQUIRE(h.grad().dtype() == f16);
  check(h.grad(), {2}, {1, 1});
}

TEST_CASE("extrema along an axis give values and first positions") {
  const Tensor x = values({2, 4}, {3, 7, 7, 1, -2, -2, -5, -5});
  const auto [high, at] = max(x, 1);
  check(high, {2}, {7, -2});
  REQUIRE(at.to_vector<std::int64_t>() == I{1, 0});
  const auto [low, where] = min(x, -1, true);
  check(low, {2, 1}, {1, -5});
  REQUIRE(where.to_vector<std::int64_t>() == I{3, 2});
  REQUIRE(max(x, 0).indices.to_vector<std::int64_t>() == I{0, 0, 0, 0});
  REQUIRE(argmax(x).item<std::int64_t>() == 1);
  REQUIRE(argmin(x).item<std::int64_t>() == 6);
  REQUIRE(argmax(x.t()).item<std::int64_t>() == 2);  // 3 -2 7 -2 7 ...: positions in logical order
  REQUIRE(argmin(x, 0).to_vector<std::int64_t>() == I{1, 1, 1, 1});
  REQUIRE(argmax(values({2, 2}, {-kInf, -kInf, -kInf, -kInf}), 1).to_vector<std::int64_t>() == I{0, 0});
}

TEST_CASE("a NaN is larger and smaller than everything") {
  const Tensor x = values({2, 3}, {1, kNan, 3, kNan, kNan, kInf});
  check(amax(x, {1}), {2}, {kNan, kNan});
  check(amin(x, {1}), {2}, {kNan, kNan});
  check(amin(x, {0}), {3}, {kNan, kNan, 3});
  REQUIRE(argmax(x, 1).to_vector<std::int64_t>() == I{1, 0});
  REQUIRE(argmin(x, 1).to_vector<std::int64_t>() == I{1, 0});
  check(sum(x, {1}), {2}, {kNan, kNan});
  check(prod(values({2}, {0, kInf})), {}, {kNan});
  // The squares of the deviations are beyond f32, their root is not; along either axis.
  for (const float size : {1e20f, 1e-23f, 3e38f}) {
    const Tensor x = values({2, 2}, {size, -size, size, -size});
    for (const Tensor& s : {stddev(x, {1}, 0), stddev(x.t().contiguous(), {0}, 0)})
      for (const double value : s.to_vector<double>()) CHECK(value == Approx(size));
  }
  CHECK_THROWS_AS(var(values({2}, {0, 1}), {}, kNan), ValueError);
  CHECK_THROWS_AS(stddev(values({2}, {0, 1}), {}, kNan), ValueError);
  check(norm(values({2}, {kNan, 1}), kInf), {}, {kNan});
  check(logsumexp(x, {0}), {3}, {kNan, kNan, kInf});
  REQUIRE(any(values({1}, {kNan})).item<bool>());
  V long_row(1000, 1.0);
  for (const std::size_t i : {0u, 17u, 511u, 512u, 999u}) {
    V row = long_row;
    row[i] = kNan;
    check(amax(values({1000}, row, f32)), {}, {kNan});
    check(amin(values({1000}, row, f32)), {}, {kNan});
    REQUIRE(argmax(values({1000}, row, f32)).item<std::int64_t>() == static_cast<std::int64_t>(i));
  }
}

TEST_CASE("any and all") {
  const Tensor x = values({2, 2}, {0, 2, -0.5, 1});
  REQUIRE(any(x).dtype() == boolean);
  REQUIRE(all(x, {1}).to_vector<std::int64_t>() == I{0, 1});
  REQUIRE(all(x, {0}, true).to_vector<std::int64_t>() == I{0, 1});
  REQUIRE(any(values({2, 2}, {0, 0, 0, 1}, boolean), {1}).to_vector<std::int64_t>() == I{0, 1});
  REQUIRE(all(values({2}, {3, 4}, u8)).item<bool>());
}

TEST_CASE("variance, standard deviation, norms, logsumexp") {
  const Tensor x = values({2, 2}, {1, 3, 2, 6});
  check(var(x, {1}), {2}, {2, 8});
  check(var(x, {1}, 0), {2}, {1, 4});
  check(stddev(x, {1}, 0), {2}, {1, 2});
  check(var(values({1}, {4})), {}, {kNan});
  check(var(values({1}, {4}), {}, 0), {}, {0});
  check(var(x, {1}, 2), {2}, {kInf, kInf});
  const Tensor far = values({3}, {16777216, 16777218, 16777220}, f32);
  check(var(far), {}, {4});
  const Tensor y = values({2, 2}, {3, -4, 0, -2});
  check(norm(y), {}, {std::sqrt(29.0)});
  check(norm(y, 1, {1}), {2}, {7, 2});
  check(norm(y, kInf, {1}), {2}, {4, 2});
  check(norm(y, -kInf, {1}), {2}, {3, 0});
  check(norm(y, 0, {1}), {2}, {2, 1});
  check(norm(y, 3, {1}, true), {2, 1}, {std::cbrt(91.0), 2});
  check(logsumexp(values({2}, {1000, 1000})), {}, {1000 + std::log(2.0)});
  check(logsumexp(values({2, 2}, {-kInf, -kInf, kInf, 1}), {1}), {2}, {-kInf, kInf});
}

TEST_CASE("the gradients of sum and mean are views") {
  const Tensor x = leaf({2, 3}, six);
  REQUIRE(gradient(x, sum(x, {1}), {2, -1}) == V{2, 2, 2, -1, -1, -1});
  const Tensor y = leaf({2, 3}, six);
  REQUIRE(gradient(y, mean(y, {0}, true), {2, 4, 6}) == V{1, 2, 3, 1, 2, 3});
}

TEST_CASE("extrema share their gradient between equal elements, or give it to the first") {
  const V ties{2, 7, 7, 1, 7, 7, 0, 0};
  const Tensor a = leaf({2, 4}, ties);
  REQUIRE(gradient(a, amax(a, {1}), {6, 6}) == V{0, 3, 3, 0, 3, 3, 0, 0});
  const Tensor b = leaf({2, 4}, ties);
  REQUIRE(gradient(b, max(b), {8}) == V{0, 2, 2, 0, 2, 2, 0, 0});
  const Tensor c = leaf({2, 4}, ties);
  REQUIRE(gradient(c, max(c, 1).values, {6, 5}) == V{0, 6, 0, 0, 5, 0, 0, 0});
  const Tensor d = leaf({2, 4}, ties);
  REQUIRE(gradient(d, min(d, 0, true).values, {1, 2, 3, 4}) == V{1, 2, 0, 0, 0, 0, 3, 4});
  const Tensor e = leaf({3}, {1, kNan, kNan});
  REQUIRE(gradient(e, amin(e), {4}) == V{0, 2, 2});
}

TEST_CASE("the gradient of a product with zeros") {
  const Tensor x = leaf({3, 3}, {2, 3, 4, 2, 0, 4, 0, 5, 0});
  REQUIRE(gradient(x, prod(x, {1}), {1, 2, 3}) == V{12, 8, 6, 0, 16, 0, 0, 0, 0});
  const Tensor bad = values({3}, {0, 2, kNan}).set_requires_grad();
  const V d = gradient(bad, prod(bad), {1});
  REQUIRE((std::isnan(d[0]) && std::isnan(d[1]) && d[2] == 0));
}

TEST_CASE("the gradients of norms at zero are zero") {
  for (const double p : {2.0, 1.0, 3.0, 0.5, kInf, 0.0}) {
    const Tensor x = leaf({2}, {0, 0});
    REQUIRE(gradient(x, norm(x, p), {1}) == V{0, 0});
  }
  const Tensor x = leaf({3}, {3, -4, 0});
  const V g = gradient(x, norm(x), {5});
  REQUIRE(g == V{3, -4, 0});
  const Tensor y = leaf({3}, {3, -4, 4});
  REQUIRE(gradient(y, norm(y, kInf), {1}) == V{0, -0.5, 0.5});
  const Tensor s = leaf({2}, {1, 1});
  REQUIRE(gradient(s, stddev(s), {1}) == V{0, 0});
}

TEST_CASE("long reductions are accurate and independent of the number of threads") {
  const std::int64_t n = 300000;
  Tensor x = Tensor::allocate({n}, f32, Device{});
  double total = 0, squares = 0;
  std::uint64_t state = 1;
  for (std::int64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const float v = static_cast<float>(state >> 40) * 0x1p-24f - 0.25f;
    x.data<float>()[i] = v;
    total += v;
    squares += static_cast<double>(v) * v;
  }
  const double mean_value = total / n;
  const double variance = (squares - n * mean_value * mean_value) / (n - 1);
  const int threads = num_threads();
  for (const int count : {1, 2, 5}) {
    set_num_threads(count);
    for (const Tensor& t : {x, x.reshape({1, n}), x.reshape({n / 4, 4})}) {
      REQUIRE(std::abs(sum(t).item() - total) <= 6e-8 * total);
      REQUIRE(std::abs(var(t).item() - variance) <= 2e-7 * variance);
      REQUIRE(std::abs(norm(t).item() - std::sqrt(squares)) <= 2e-7 * std::sqrt(squares));
      REQUIRE(argmax(t).item<std::int64_t>() == argmax(x).item<std::int64_t>());
    }
    const V columns = sum(x.reshape({n / 4, 4}), {0}).to_vector<double>();
    REQUIRE(std::abs(columns[0] + columns[1] + columns[2] + columns[3] - total) <= 3e-7 * total);
    const V wide = sum(x.reshape({300, 1000}), {0}).to_vector<double>();
    REQUIRE(std::abs(wide[999] - sum(x.reshape({300, 1000}).select(1, 999)).item()) <= 1e-5);
  }
  set_num_threads(threads);
}

namespace {

// Values in [-1, 1) that repeat after 2^20 elements, with equal extrema.
Tensor noise(const Shape& shape, DType dtype) {
  Tensor t = Tensor::allocate(shape, f32, Device{});
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    state = state * 1664525u + 1013904223u;
    t.data<float>()[i] = static_cast<float>(state >> 12) * 0x1p-19f - 1;
  }
  return t.to(dtype);
}

void compare(const Tensor& got, const Tensor& want, double tolerance) {
  REQUIRE(got.shape() == want.shape());
  REQUIRE(got.dtype() == want.dtype());
  const V a = got.to_vector<double>(), b = want.to_vector<double>();
  std::size_t i = 0;  // an assertion for each of millions of elements would take minutes
  while (i < a.size() && std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i]))) ++i;
  if (i < a.size()) FAIL("element " << i << " of " << describe(got) << ": " << a[i] << ", want " << b[i]);
}

}  // namespace

TEST_CASE("every path of the CUDA reductions agrees with the CPU", "[cuda]") {
  struct Case {
    Shape shape;
    Dims axes;
    const char* path;
  };
  const Case cases[] = {
      {{3000001}, {}, "one output in pieces, odd end"},
      {{5, 300007}, {1}, "odd rows in pieces"},
      {{700, 5000}, {1}, "a block per row"},
      {{5000, 700}, {1}, "a warp per row"},
      {{70000, 3}, {1}, "a thread per row"},
      {{100000, 10}, {0}, "narrow columns in pieces"},
      {{3000, 1024}, {0}, "wide columns in pieces"},
      {{64, 256}, {0}, "columns, one launch"},
      {{33, 4097}, {0}, "odd columns"},
      {{20, 16, 64, 64}, {0, 2, 3}, "runs of whole vectors: channels of images"},
      {{20, 16, 7, 9}, {0, 2, 3}, "odd runs"},
      {{20, 300, 33}, {1}, "middle axis"},
      {{8, 9, 10, 11, 12}, {0, 2, 4}, "axes that do not merge"},
  };
  for (const Case& c : cases) {
    INFO(c.path);
    for (const DType dtype : {f32, f64, f16, bf16, i64, i32, u8}) {
      Tensor x = is_floating(dtype) ? noise(c.shape, dtype) : noise(c.shape, f64);
      if (!is_floating(dtype)) {
        for (std::int64_t i = 0; i < x.numel(); ++i)
          x.data<double>()[i] = std::trunc(100 * std::abs(x.data<double>()[i]));
        x = x.to(dtype);
      }
      const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : dtype == f16 ? 2e-3 : 1.6e-2;
      const Tensor g = x.to(cuda(0));
      compare(sum(g, c.axes).to(cpu), sum(x, c.axes), is_floating(dtype) ? tolerance : 0);
      compare(amax(g, c.axes).to(cpu), amax(x, c.axes), 0);
      compare(amin(g, c.axes, true).to(cpu), amin(x, c.axes, true), 0);
      compare(any(g, c.axes).to(cpu), any(x, c.axes), 0);
      compare(argmax(g).to(cpu), argmax(x), 0);
      if (c.axes.size() == 1) compare(argmin(g, c.axes[0]).to(cpu), argmin(x, c.axes[0]), 0);
      if (!is_floating(dtype)) continue;
      compare(mean(g, c.axes).to(cpu), mean(x, c.axes), tolerance);
      compare(var(g, c.axes).to(cpu), var(x, c.axes), tolerance);
      compare(norm(g, 2, c.axes).to(cpu), norm(x, 2, c.axes), tolerance);
      compare(logsumexp(g, c.axes).to(cpu), logsumexp(x, c.axes), tolerance);
      for (const double p : {2.0, kInf}) {
        Tensor xl = x.detach(), gl = g.detach();
        xl.set_requires_grad();
        gl.set_requires_grad();
        norm(xl, p).backward();
        norm(gl, p).backward();
        compare(gl.grad().to(cpu), xl.grad(), tolerance);
      }
    }
  }
}

TEST_CASE("CUDA reductions take rows at any address, and give the same bits again", "[cuda]") {
  const Tensor x = noise({40, 5003}, f16), g = x.to(cuda(0));
  for (const std::int64_t start : {1, 2, 3, 7}) {
    const Tensor a = x.narrow(1, start, 4990), b = g.narrow(1, start, 4990);
    compare(sum(b, {1}, false, f32).to(cpu), sum(a, {1}, false, f32), 1e-5);
    compare(sum(b, {0}, false, f32).to(cpu), sum(a, {0}, false, f32), 1e-5);
    compare(argmax(b, 1).to(cpu), argmax(a, 1), 0);
    compare(sum(b, {}, false, f32).to(cpu), sum(a, {}, false, f32), 1e-4);
    REQUIRE(sum(b).item() == sum(b).item());
  }
  const Tensor expanded = g.select(0, 0).expand({1000, 5003});
  compare(sum(expanded, {0}).to(cpu), sum(x.select(0, 0).expand({1000, 5003}), {0}), 2e-3);
}

TEST_CASE("a long sum of ones on CUDA is exact", "[cuda]") {
  REQUIRE(sum(full({1 << 24}, 1, {.device = cuda(0)})).item() == 1 << 24);
}
