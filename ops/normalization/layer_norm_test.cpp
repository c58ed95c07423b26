#include <cotangent/ops/normalization/layer_norm.h>

#include <cmath>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/normalization/rms_norm.h>

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

TEST_CASE("layer_norm refuses what does not fit", "[layer_norm]") {
  const Tensor x = values({2, 3}, {1, 2, 3, 4, 5, 6});
  REQUIRE_THROWS_AS(layer_norm(x, values({2}, {1, 1})), ShapeError);
  REQUIRE_THROWS_AS(layer_norm(x, values({3}, {1, 1, 1}), values({2}, {1, 1})), ShapeError);
  REQUIRE_THROWS_AS(layer_norm(values({}, {1})), ShapeError);
  REQUIRE_THROWS_AS(layer_norm(x, {}, {}, -1e-5), ValueError);
  REQUIRE_THROWS_AS(layer_norm(x, values({3}, {1, 1, 1}, f32)), DTypeError);
  REQUIRE_THROWS_AS(add_layer_norm(x, x[0]), ShapeError);
}

TEST_CASE("layer_norm of a constant row is the bias", "[layer_norm]") { check_constant_rows(cpu); }

TEST_CASE("layer_norm of a constant row is the bias, on CUDA", "[layer_norm][cuda]") {
  check_constant_rows(cuda(0));
}
