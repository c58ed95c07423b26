#include <cotangent/ops/norm/layer_norm.h>

#include <cmath>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/core/parallel.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/norm/rms_norm.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using namespace ct;
using testing::check;
using testing::leaf;
using testing::values;
using testing::waves;
using V = std::vector<double>;

// With eps = 1/3 the row (-1, 0, 1) has scale 1 and is its own normalized form.
const double kEps = 1.0 / 3;

// Rows of one value, short and long, far from 0: xhat is 0 and y the bias, not the mean's rounding made
// large.
void check_constant_rows(Device device) {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const std::int64_t n : {3, 96, 777, 1024, 50000})
      for (const double value : {10.1, 100000.1, -1e6 - 0.1}) {
        if (dtype == f16 && std::abs(value) > 1000) continue;
        INFO(dtype << " n " << n << " of " << value);
        const Tensor x = values({2, n}, V(static_cast<std::size_t>(2 * n), value), dtype).to(device);
        const Tensor bias = waves({n}, 1).to(dtype).to(device);
        const V b = bias.to_vector<double>();
        V want = b;
        want.insert(want.end(), b.begin(), b.end());
        REQUIRE(layer_norm(x, {}, bias).to_vector<double>() == want);
        REQUIRE(add_layer_norm(x, x * 0.5, {}, bias)[0].to_vector<double>() == want);
      }
}

// Rows whose squares leave the range, of every kernel: layer_norm and rms_norm don't care for a row's size.
void check_far_rows(Device device) {
  struct Size {
    DType dtype;
    double size, eps;
  };
  for (const std::int64_t n : {4, 96, 777, 50000})
    for (const Size& s : {Size{f32, 1e25, 1e-5},
                          {f32, 1e30, 0},
                          {f32, 1e-25, 0},
                          {bf16, 1e25, 1e-5},
                          {f64, 1e200, 1e-5},
                          {f64, 1e-200, 0}}) {
      INFO(s.dtype << " n " << n << " of " << s.size);
      const Tensor x = waves({2, n}, 1), g = waves({2, n}, 2).to(s.dtype).to(device);
      const double tolerance = s.dtype == f64 ? 1e-12 : s.dtype == f32 ? 1e-5 : 0.05;
      for (const bool centered : {true, false}) {
        const Tensor near = leaf(x.to(s.dtype).to(device)), far = leaf((x * s.size).to(s.dtype).to(device));
        const auto norm = [&](const Tensor& t, double eps) {
          return centered ? layer_norm(t, {}, {}, eps) : rms_norm(t, {}, eps);
        };
        const Tensor y = norm(far, s.eps), want = norm(near, 0);
        REQUIRE(testing::largest_difference(y, want) <= tolerance);
        y.backward(g);
        want.backward(g);
        if (s.dtype != bf16)
          REQUIRE(testing::largest_difference(far.grad().to(f64) * s.size, near.grad()) <= 100 * tolerance);
      }
    }
}

// The one element of a row is its mean: x does not move y.
void check_rows_of_one(Device device) {
  for (const DType dtype : {f32, f64, f16, bf16}) {
    const Tensor x = leaf(waves({40, 1}, 1, 3).to(dtype).to(device));
    const Tensor w = values({1}, {0.7}, dtype).to(device);
    layer_norm(x, w, {}).backward(waves({40, 1}, 2).to(dtype).to(device));
    for (const double d : x.grad().to_vector<double>()) REQUIRE(d == 0);
  }
}

}  // namespace

TEST_CASE("layer_norm of rows near the ends of the range", "[layer_norm]") { check_far_rows(cpu); }
TEST_CASE("layer_norm of rows near the ends of the range, on CUDA", "[layer_norm][cuda]") {
  check_far_rows(cuda(0));
}
TEST_CASE("layer_norm of rows of one element has no slope", "[layer_norm]") { check_rows_of_one(cpu); }
TEST_CASE("layer_norm of rows of one element has no slope, on CUDA", "[layer_norm][cuda]") {
  check_rows_of_one(cuda(0));
}

TEST_CASE("layer_norm of known rows", "[layer_norm]") {
  const testing::In in{GENERATE(f64, f32)};
  const Tensor w = in.values({3}, {2, 3, 4}), b = in.values({3}, {10, 20, 30});
  in.check(layer_norm(in.values({2, 3}, {-1, 0, 1, 4, 5, 6}), w, b, kEps), {8, 20, 34, 8, 20, 34});
  in.check(layer_norm(in.values({3}, {-1, 0, 1}), w, {}, kEps), {-2, 0, 4});
  in.check(layer_norm(in.values({3}, {-1, 0, 1}), {}, b, kEps), {9, 20, 31});
  in.check(layer_norm(in.values({3}, {-1, 0, 1}), {}, {}, kEps), {-1, 0, 1});
  in.check(layer_norm(in.values({2, 2}, {7, 7, -3, -3})), {0, 0, 0, 0});  // no variance
  // Two axes: mean 0, variance 5 and scale 1/sqrt(5 + 4) = 1/3.
  in.check(layer_norm(in.values({1, 2, 2}, {-3, -1, 1, 3}), in.values({2, 2}, {3, 3, 3, 6}), {}, 4),
           {-3, -1, 1, 6});
  // A row far from 0: its variance is found around the mean, or f32 would see none of it.
  check(layer_norm(in.values({3}, {1e6 - 1, 1e6, 1e6 + 1}), {}, {}, kEps), {-1, 0, 1}, 1e-6);
}

TEST_CASE("the gradients of layer_norm", "[layer_norm]") {
  const testing::In in{GENERATE(f64, f32)};
  Tensor x = in.values({2, 3}, {-1, 0, 1, 4, 5, 6}), w = in.values({3}, {2, 3, 4}),
         b = in.values({3}, {0, 0, 0});
  for (Tensor* t : {&x, &w, &b}) t->set_requires_grad();
  const Tensor g = in.values({2, 3}, {1, 1, 1, 3, 3, 3});
  // g w = (2, 3, 4) has mean 3, and its mean product with (-1, 0, 1) is 2/3.
  const V dx{-1 / 3.0, 0, 1 / 3.0, -1, 0, 1};
  layer_norm(x, w, b, kEps).backward(g);
  in.check(x.grad(), dx);
  in.check(w.grad(), {-4, 0, 4});
  in.check(b.grad(), {4, 4, 4});
  layer_norm(x, w, b, kEps).backward(g);
  in.check(x.grad(), {dx[0] * 2, 0, dx[2] * 2, -2, 0, 2});
  in.check(w.grad(), {-8, 0, 8});
  in.check(b.grad(), {8, 8, 8});
  REQUIRE(layer_norm(x, w, b).grad_fn_name() == "layer_norm");
}

TEST_CASE("add_layer_norm is the sum, then layer_norm", "[layer_norm]") {
  const testing::In in{GENERATE(f64, f32)};
  const Tensor x = in.waves({5, 37}, 0), r = in.waves({5, 37}, 2), w = in.waves({37}, 1, 0.3, 1),
               b = in.waves({37}, 4);
  const Tensor gy = in.waves({5, 37}, 3), gs = in.waves({5, 37}, 5);
  // Which results are used, and so have a gradient: both, y alone, the sum alone.
  for (const int used : {3, 1, 2}) {
    Tensor a[4] = {leaf(x), leaf(r), leaf(w), leaf(b)}, c[4] = {leaf(x), leaf(r), leaf(w), leaf(b)};
    const auto [y, s] = add_layer_norm(a[0], a[1], a[2], a[3]);
    const Tensor sum = c[0] + c[1], want = layer_norm(sum, c[2], c[3]);
    in.check(y, want.to_vector<double>());
    in.check(s, sum.to_vector<double>());
    const auto loss = [&](const Tensor& p, const Tensor& q) {
      return used == 3 ? (p * gy).sum() + (q * gs).sum() : used == 1 ? (p * gy).sum() : (q * gs).sum();
    };
    loss(y, s).backward();
    loss(want, sum).backward();
    for (int i = 0; i < 4; ++i) {
      INFO("used " << used << ", gradient " << i);
      if (c[i].grad().defined())
        in.check(a[i].grad(), c[i].grad().to_vector<double>());
      else
        in.check(a[i].grad(), V(static_cast<std::size_t>(a[i].numel()), 0.0));
    }
  }
}

TEST_CASE("all rows have a share in the gradients of layer_norm's parameters", "[layer_norm]") {
  const testing::In in{GENERATE(f64, f32)};
  // More rows than one chunk of the CPU's has.
  const Tensor x = in.waves({700, 130}, 0), g = in.waves({700, 130}, 3);
  const Tensor w = leaf(in.waves({130}, 1)), b = leaf(in.waves({130}, 2));
  const Tensor dw = sum(g * layer_norm(x), {0});
  layer_norm(x, w, b).backward(g);
  in.check(w.grad(), dw.to_vector<double>(), 100);
  in.check(b.grad(), sum(g, {0}).to_vector<double>(), 100);
}

TEST_CASE("layer_norm has the same bits for any number of threads", "[layer_norm]") {
  const Tensor x = waves({700, 130}, 0).to(f32), w = waves({130}, 1).to(f32), b = waves({130}, 2).to(f32);
  const auto run = [&] {
    Tensor in[3] = {leaf(x), leaf(w), leaf(b)};
    const Tensor y = layer_norm(in[0], in[1], in[2]);
    y.backward(waves({700, 130}, 3).to(f32));
    std::vector<float> all = y.to_vector<float>();
    for (const Tensor& t : in)
      for (const float v : t.grad().to_vector<float>()) all.push_back(v);
    return all;
  };
  const int threads = num_threads();
  const std::vector<float> first = run();
  set_num_threads(threads == 1 ? 3 : 1);
  REQUIRE(run() == first);
  set_num_threads(threads);
}

TEST_CASE("layer_norm refuses what does not fit", "[layer_norm]") {
  const Tensor x = values({2, 3}, {1, 2, 3, 4, 5, 6});
  REQUIRE_THROWS_AS(layer_norm(x, values({2}, {1, 1})), ShapeError);
  REQUIRE_THROWS_AS(layer_norm(x, values({3}, {1, 1, 1}), values({2}, {1, 1})), ShapeError);
  REQUIRE_THROWS_AS(layer_norm(values({}, {1})), ShapeError);
  REQUIRE_THROWS_AS(layer_norm(x, {}, {}, -1e-5), ValueError);
  REQUIRE_THROWS_AS(layer_norm(x, values({3}, {1, 1, 1}, f32)), DTypeError);
  REQUIRE_THROWS_AS(add_layer_norm(x, x[0]), ShapeError);
}

TEST_CASE("every path of layer_norm on CUDA agrees with the CPU", "[layer_norm][cuda]") {
  for (const DType dtype : {f32, f64, f16, bf16}) {
    const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 4e-6 : dtype == f16 ? 4e-3 : 3e-2;
    // One to three vectors per lane, one to 32 warps, odd rows of each kind, and rows read from memory again.
    for (const std::int64_t n : {1,    7,    32,   64,   100,  129,   384,   768,   1000,  1024,  1025, 1600,
                                 2047, 2050, 4096, 5120, 8192, 10000, 16384, 20000, 32768, 40001, 70000}) {
      for (const std::int64_t rows : {std::int64_t{3}, n > 4096 ? std::int64_t{37} : std::int64_t{2500}}) {
        if (rows > 3 && n != 64 && n != 129 && n != 768 && n != 4096 && n != 20000) continue;
        INFO(dtype << " rows " << rows << " n " << n);
        const Tensor in[4] = {waves({rows, n}, 0, 2, 1), waves({rows, n}, 2), waves({n}, 1, 0.3, 1),
                              waves({n}, 4)};
        const Tensor gy = waves({rows, n}, 3).to(dtype), gs = waves({rows, n}, 5).to(dtype);
        for (const bool add : {false, true}) {
          Tensor a[4], b[4];
          for (int i = 0; i < 4; ++i) {
            a[i] = leaf(in[i].to(dtype).to(f64));
            b[i] = leaf(in[i].to(dtype).to(cuda(0)));
          }
          const auto run = [&](Tensor* t, const Device device, const DType type) {
            const Tensor y_grad = gy.to(type).to(device), s_grad = gs.to(type).to(device);
            if (!add) {
              const Tensor y = layer_norm(t[0], t[2], t[3]);
              y.backward(y_grad);
              return y;
            }
            const auto [y, s] = add_layer_norm(t[0], t[1], t[2], t[3]);
            backward(std::vector<Tensor>{y, s}, std::vector<Tensor>{y_grad, s_grad});
            return y;
          };
          const Tensor want = run(a, cpu, f64), got = run(b, cuda(0), dtype);
          check(got, want.to_vector<double>(), tolerance);
          for (int i = 0; i < 4; ++i) {
            if (!add && i == 1) continue;
            INFO((add ? "add, " : "") << "gradient " << i);
            // Sums over rows are as exact as the largest of their parts.
            const double scale = i < 2 ? 1 : std::sqrt(static_cast<double>(rows)) * 4;
            check(b[i].grad(), a[i].grad().to_vector<double>(), 4 * tolerance * scale);
          }
        }
      }
    }
  }
}

TEST_CASE("layer_norm on CUDA accumulates, and gives the same bits twice", "[layer_norm][cuda]") {
  const Tensor x = waves({3000, 768}, 0).to(bf16).to(cuda(0)), w = waves({768}, 1).to(bf16).to(cuda(0));
  const Tensor g = waves({3000, 768}, 3).to(bf16).to(cuda(0));
  const auto run = [&](int passes) {
    Tensor in[3] = {leaf(x), leaf(w), leaf(w)};
    for (int i = 0; i < passes; ++i) layer_norm(in[0], in[1], in[2]).backward(g);
    std::vector<float> all;
    for (const Tensor& t : in)
      for (const float v : t.grad().to_vector<float>()) all.push_back(v);
    return all;
  };
  const std::vector<float> once = run(1), twice = run(2);
  REQUIRE(run(1) == once);
  for (std::size_t i = 0; i < once.size(); ++i)
    if (!(std::abs(twice[i] - 2 * once[i]) <= 0.02f * (1 + std::abs(once[i]))))
      FAIL("element " << i << ": " << twice[i] << " after two passes, " << once[i] << " after one");
}

TEST_CASE("layer_norm of a constant row is the bias", "[layer_norm]") { check_constant_rows(cpu); }

TEST_CASE("layer_norm of a constant row is the bias, on CUDA", "[layer_norm][cuda]") {
  check_constant_rows(cuda(0));
}
