#include <cotangent/ops/softmax/softmax.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/cotangent.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using namespace ct;
using testing::values;
using V = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();

void check(const Tensor& got, const V& want, double tolerance = 1e-15) {
  const V v = got.to_vector<double>();
  REQUIRE(v.size() == want.size());
  for (std::size_t i = 0; i < v.size(); ++i) {
    INFO("element " << i << ": " << v[i] << ", want " << want[i]);
    REQUIRE((v[i] == want[i] || std::abs(v[i] - want[i]) <= tolerance * (1 + std::abs(want[i]))));
  }
}
bool all_nan(const Tensor& t) {
  for (const double v : t.to_vector<double>())
    if (!std::isnan(v)) return false;
  return true;
}

const double e1 = std::exp(1.0);
const V logs{0, std::log(2.0), std::log(5.0)};  // softmax 1/8, 2/8, 5/8

}  // namespace

TEST_CASE("softmax along any axis is that along the last") {
  for (const Shape& shape : {Shape{2, 1, 5000}, Shape{3, 2, 1030}, Shape{5000, 3}, Shape{1, 700, 37},
                             Shape{2, 0, 3}, Shape{0, 2, 3}, Shape{2, 3, 0}})
    for (const bool log : {false, true}) {
      INFO(shape << (log ? " log" : ""));
      const int axis = shape.size() - 2;
      const Tensor x = randn(shape, {.dtype = f64}), g = randn(shape, {.dtype = f64});
      const auto run = [&](const Tensor& of, const Tensor& cotangent, int along) {
        Tensor leaf = of.contiguous().detach().set_requires_grad();
        const Tensor y = log ? log_softmax(leaf, along) : softmax(leaf, along);
        y.backward(cotangent.contiguous());
        return std::pair(y.detach(), leaf.grad());
      };
      const auto [y, dx] = run(x, g, axis);
      const auto [want_y, want_dx] = run(x.transpose(axis, -1), g.transpose(axis, -1), -1);
      check(y, values(want_y.transpose(axis, -1).contiguous()), 1e-13);
      check(dx, values(want_dx.transpose(axis, -1).contiguous()), 1e-13);
    }
}

TEST_CASE("equal rows have equal bits, wherever they lie in memory") {
  const std::int64_t rows = 16, n = 77;
  const Tensor x = randn({n}, {.dtype = f64}), g = randn({n}, {.dtype = f64});
  for (const bool log : {false, true}) {
    Tensor leaf = x.expand({rows, n}).contiguous().set_requires_grad();
    const Tensor y = log ? log_softmax(leaf, -1) : softmax(leaf, -1);
    y.backward(g.expand({rows, n}).contiguous());
    for (const Tensor& t : {y.detach(), leaf.grad()}) {
      const V v = values(t);
      CHECK(std::equal(v.begin() + n, v.end(), v.begin()));  // each row and the one before it
    }
  }
}

TEST_CASE("what is -inf has a probability and a gradient of 0, in long rows too") {
  for (const DType dtype : {f64, f32}) {
    const Tensor x = concat({ones({2, 8}, {.dtype = dtype}), full({2, 40}, -kInf, {.dtype = dtype})}, 1);
    CHECK(all(eq(softmax(x, 1).narrow(1, 8, 40), 0)).item<bool>());
    Tensor leaf = x.clone().set_requires_grad();
    cross_entropy(leaf, zeros({2}, {.dtype = i64})).backward();
    CHECK(all(eq(leaf.grad().narrow(1, 8, 40), 0)).item<bool>());
    const Tensor zeros_of_x = zeros({2, 48}, {.dtype = dtype}), hidden = x - 1;
    CHECK(all(eq(masked_softmax(zeros_of_x, hidden).narrow(1, 8, 40), 0)).item<bool>());
    const Tensor q = zeros({1, 1, 2, 4}, {.dtype = dtype}), k = zeros({1, 1, 48, 4}, {.dtype = dtype});
    const Tensor v = full({1, 1, 48, 4}, std::numeric_limits<double>::max() / 64, {.dtype = f64}).to(dtype);
    const Tensor of_seen = where(isfinite(v), v, 1e30);
    of_seen.narrow(2, 0, 8).fill_(1);  // what is hidden is large
    CHECK(testing::largest_difference(scaled_dot_product_attention(q, k, of_seen, {.mask = hidden}),
                                      ones({1, 1, 2, 4}, {.dtype = dtype})) < 1e-6);
  }
}

TEST_CASE("softmax of known rows") {
  const testing::In in{GENERATE(f64, f32)};
  in.check(softmax(in.values({3}, logs), 0), {0.125, 0.25, 0.625});
  in.check(softmax(in.values({3}, {1e4, 1e4 + logs[1], 1e4 + logs[2]}), -1), {0.125, 0.25, 0.625}, 1e3);
  in.check(softmax(in.values({2, 2}, {0, 1, 1, 0}), 0),
           {1 / (1 + e1), e1 / (1 + e1), e1 / (1 + e1), 1 / (1 + e1)});
  in.check(softmax(in.values({}, {42}), 0), {1});
  in.check(softmax(in.values({2, 1}, {3, -kInf}).narrow(0, 0, 1), 1), {1});
  REQUIRE(softmax(in.values({3, 0}, {}), 1).numel() == 0);
  REQUIRE(softmax(in.values({0, 3}, {}), 1).numel() == 0);
}

TEST_CASE("log_softmax of known rows") {
  const testing::In in{GENERATE(f64, f32)};
  const double l8 = std::log(8.0);
  in.check(log_softmax(in.values({3}, logs), 0), {-l8, logs[1] - l8, logs[2] - l8});
  in.check(log_softmax(in.values({2}, {0, -1000}), 0), {0, -1000});
  in.check(log_softmax(in.values({1, 2}, {1e5, 1e5}), 1), {-std::log(2.0), -std::log(2.0)});
}

TEST_CASE("softmax of infinities and NaN") {
  check(softmax(values({3}, {-kInf, 0, -kInf}), 0), {0, 1, 0});
  check(log_softmax(values({2}, {-kInf, 0}), 0), {-kInf, 0});
  for (const DType dtype : {f64, f32, f16, bf16}) {
    for (const std::int64_t n : {3, 40, 700}) {  // scalars, one vector, several blocks
      for (const std::int64_t where : {std::int64_t{0}, n / 2, n - 1}) {
        for (const double v : {kInf, std::nan("")}) {
          V row(static_cast<std::size_t>(n), 0.5);
          row[static_cast<std::size_t>(where)] = v;
          REQUIRE(all_nan(softmax(values({n}, row, dtype), 0)));
          REQUIRE(all_nan(log_softmax(values({n}, row, dtype), 0)));
          REQUIRE(all_nan(softmax(values({n, 1}, row, dtype).expand({n, 2}), 0)));
        }
      }
      const Tensor nothing = values({n}, V(static_cast<std::size_t>(n), -kInf), dtype);
      REQUIRE(all_nan(softmax(nothing, 0)));
      REQUIRE(all_nan(log_softmax(nothing, 0)));
    }
  }
}

TEST_CASE("rows of softmax sum to one, and are the same for any number of threads") {
  for (const std::int64_t n : {1, 10, 16, 17, 512, 513, 5000}) {
    Tensor x = Tensor::allocate({12, n}, f32, Device{});
    for (std::int64_t i = 0; i < x.numel(); ++i)
      x.data<float>()[i] = static_cast<float>((i * 7919) % 1000) / 50;
    const Tensor y = softmax(x, 1), columns = softmax(x.t().contiguous(), 0).t().contiguous();
    const V v = y.to_vector<double>(), c = columns.to_vector<double>();
    for (std::int64_t r = 0; r < 12; ++r) {
      double sum = 0;
      for (std::int64_t i = 0; i < n; ++i) sum += v[static_cast<std::size_t>(r * n + i)];
      REQUIRE(std::abs(sum - 1) < 2e-6);
    }
    for (std::size_t i = 0; i < v.size(); ++i) REQUIRE(std::abs(v[i] - c[i]) <= 4e-7 * v[i]);
    const int threads = num_threads();
    set_num_threads(threads == 1 ? 2 : 1);
    REQUIRE(softmax(x, 1).to_vector<double>() == v);
    set_num_threads(threads);
  }
}

TEST_CASE("the gradients of softmax and log_softmax") {
  const testing::In in{GENERATE(f64, f32)};
  Tensor x = in.values({3}, logs);
  x.set_requires_grad();
  softmax(x, 0).backward(in.values({3}, {8, 0, 0}));  // sum(g y) = 1: dx = y (g - 1)
  in.check(x.grad(), {0.875, -0.25, -0.625});
  Tensor z = in.values({3}, logs);
  z.set_requires_grad();
  log_softmax(z, 0).backward(in.values({3}, {8, 0, 0}));  // sum(g) = 8: dx = g - 8 y
  in.check(z.grad(), {7, -2, -5});
  REQUIRE(softmax(z, 0).grad_fn_name() == "softmax");
}

TEST_CASE("softmax refuses wrong axes and dtypes") {
  REQUIRE_THROWS_AS(softmax(values({3}, logs), 1), ShapeError);
  REQUIRE_THROWS_AS(log_softmax(values({3}, logs), -2), ShapeError);
  REQUIRE_THROWS_AS(softmax(values({3}, logs).to(i64), 0), DTypeError);
}

TEST_CASE("every path of softmax on CUDA agrees with the CPU", "[cuda]") {
  for (const DType dtype : {f32, f64, f16, bf16}) {
    const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 2e-6 : dtype == f16 ? 2e-3 : 1.6e-2;
    for (const std::int64_t n : {1,    2,     5,     10,    31,    32,    33,     40,     64,    96,   128,
                                 250,  256,   512,   777,   1000,  1024,  1025,   1032,   2048,  4096, 5000,
                                 8192, 16384, 20000, 32768, 50257, 65536, 131072, 150000, 270000}) {
      const std::int64_t rows = n < 2000 ? 37 : 3;
      const double floor = is_low_precision(dtype) ? 1e-4 : 1e-6;  // below it f16 is subnormal
      Tensor x = Tensor::allocate({rows, n}, f32, Device{});
      for (std::int64_t i = 0; i < x.numel(); ++i)
        x.data<float>()[i] = static_cast<float>((i * 7919) % 10007) / 1000 + (i % n == n / 3 ? 8.0f : 0.0f);
      for (const bool logarithm : {false, true}) {
        for (const std::int64_t axis : {1, 0}) {
          INFO(dtype << " n = " << n << " axis " << axis << (logarithm ? " log" : ""));
          Tensor a = x.to(dtype).clone(), b = a.to(cuda(0));
          if (axis == 0) {
            if (n > 5000) continue;
            a = a.t().contiguous();
            b = b.t().contiguous();
          }
          a.set_requires_grad();
          b.set_requires_grad();
          const Tensor y = logarithm ? log_softmax(a, axis) : softmax(a, axis);
          const Tensor z = logarithm ? log_softmax(b, axis) : softmax(b, axis);
          const V want = y.to_vector<double>(), got = z.to_vector<double>();
          for (std::size_t i = 0; i < want.size(); ++i)
            if (!(std::abs(got[i] - want[i]) <=
                  tolerance * (logarithm ? 1 + std::abs(want[i]) : want[i] + floor)))
              FAIL("element " << i << " is " << got[i] << ", want " << want[i]);
          const Tensor g = a.detach().t().contiguous().reshape(a.shape());
          y.backward(g);
          z.backward(g.to(cuda(0)));
          const V dx = a.grad().to_vector<double>(), dz = b.grad().to_vector<double>();
          // The two results may differ by a rounding, which the gradient sees times the cotangent.
          double largest = 0;
          for (const double v : want) largest = std::max(largest, logarithm ? std::exp(v) : v);
          const double size = 18 * (logarithm ? 1 + largest * static_cast<double>(n) : largest);
          for (std::size_t i = 0; i < dx.size(); ++i)
            if (dz[i] != dx[i] &&
                !(std::abs(dz[i] - dx[i]) <= 4 * tolerance * size))  // equal: both infinite in f16
              FAIL("gradient " << i << " is " << dz[i] << ", want " << dx[i]);
        }
      }
    }
  }
}

TEST_CASE("a long row of softmax has the same bits however many there are on CUDA", "[cuda]") {
  // Few rows have a block or a cluster each; of many, each of those works on several, one after the other.
  struct Size {
    std::int64_t n, copies;
  };
  constexpr std::int64_t kRows = 7, kNan = 3;
  for (const DType dtype : {f32, f16, bf16})
    for (const Size size : {Size{2048, 700}, {4104, 300}, {16384, 100}, {50304, 40}, {131072, 12}}) {
      const std::int64_t n = size.n, copies = size.copies;
      Tensor rows = Tensor::allocate({kRows, n}, f32, Device{}),
             grads = Tensor::allocate({kRows, n}, f32, Device{});
      for (std::int64_t i = 0; i < rows.numel(); ++i) {
        rows.data<float>()[i] = static_cast<float>((i * 7919) % 10007) / 1000;
        grads.data<float>()[i] = static_cast<float>((i * 104729) % 10009) / 10009;
      }
      rows.data<float>()[kNan * n + n / 2] = std::nanf("");
      for (const bool logarithm : {false, true}) {
        const auto run = [&](std::int64_t count, V& y, V& dx) {
          const auto repeated = [&](const Tensor& t) {
            return t.to(dtype)
                .to(cuda(0))
                .reshape({1, kRows, n})
                .expand({count, kRows, n})
                .contiguous()
                .reshape({count * kRows, n});
          };
          Tensor x = repeated(rows).detach();
          x.set_requires_grad();
          const Tensor result = logarithm ? log_softmax(x, 1) : softmax(x, 1);
          result.backward(repeated(grads));
          y = result.to_vector<double>();
          dx = x.grad().to_vector<double>();
        };
        V y, dx, all_y, all_dx;
        run(1, y, dx);
        run(copies, all_y, all_dx);
        INFO(dtype << " n = " << n << (logarithm ? " log" : ""));
        const auto compare = [&](const V& some, const V& all) {
          for (std::size_t i = 0; i < all.size(); ++i) {
            const std::size_t at = i % some.size();
            const bool nan = static_cast<std::int64_t>(at) / n == kNan;
            if (nan ? !std::isnan(all[i]) : all[i] != some[at])
              FAIL("element " << i << " is " << all[i] << ", want " << some[at]);
          }
        };
        compare(y, all_y);
        compare(dx, all_dx);
      }
    }
}

TEST_CASE("rows without a finite maximum are NaN on CUDA, too", "[cuda]") {
  for (const DType dtype : {f64, f32, bf16})
    for (const std::int64_t n : {3, 40, 700, 2048, 2049, 65536}) {
      for (const double v : {kInf, std::nan("")}) {
        V row(static_cast<std::size_t>(n), 0.5);
        row[static_cast<std::size_t>(n / 2)] = v;
        const Tensor x = values({n, 1}, row, dtype).to(cuda(0));
        REQUIRE(all_nan(softmax(x.reshape({n}), 0)));
        REQUIRE(all_nan(log_softmax(x.expand({n, 3}), 0)));
      }
      const Tensor nothing = values({n}, V(static_cast<std::size_t>(n), -kInf), dtype).to(cuda(0));
      REQUIRE(all_nan(softmax(nothing, 0)));
      V one(static_cast<std::size_t>(n), -kInf);
      one[1] = 3;
      V want(static_cast<std::size_t>(n), 0.0);
      want[1] = 1;
      check(softmax(values({n}, one, dtype).to(cuda(0)), 0), want);
      check(softmax(values({n, 1}, one, dtype).to(cuda(0)), 0), want);
    }
}
