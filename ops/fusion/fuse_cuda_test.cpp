#include <string>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/fusion/fuse.h>

#include "tests/catch.h"
#include "tests/op_testing.h"
#include "tests/variable.h"

// fuse() on a GPU: the vector and the element kernel, and the ops one by one where no kernel compiles.

using ct::DType;
using ct::Tensor;

namespace {

// 0.25 is the same number in 16 bits, to which a comparison rounds its number: elsewhere f64 takes the other branch.
const auto kFormula = [](auto x, auto b, auto mask) {
  const auto h = gelu(x + b) * 1.5 - where(mask, x, sigmoid(b));
  return where(h < 0.25, atan2(h, 1 + square(b)), softplus(h, 2)) + pow(2.0, clamp(h, -1, 1));
};

struct Result {
  Tensor y, dx, db;
};
template <class F>
Result run(const F& f, const Tensor& x, const Tensor& b, const Tensor& mask) {
  const Tensor xs = x.detach().set_requires_grad(), bs = b.detach().set_requires_grad();
  const Tensor y = f(xs, bs, mask);
  const Tensor g = ct::full(y.shape(), 0.5, {.dtype = y.dtype(), .device = y.device()});
  const auto grads = ct::grad({y}, {xs, bs}, {g});
  return {y.detach(), grads[0], grads[1]};
}

void compare(const Tensor& got, const Tensor& want, double tolerance) {
  CHECK(got.dtype() == want.dtype());
  REQUIRE(got.shape() == want.shape());
  double largest = 1;
  for (const double v : want.to(ct::cpu).to_vector<double>()) largest = std::max(largest, std::abs(v));
  CHECK(ct::testing::largest_difference(got.to(ct::cpu), want.to(ct::cpu)) <= tolerance * largest);
}

// Shapes and layouts of x and b that ask for chunks of 16 bytes, for elements, for one axis and for several.
template <class Check>
void each_layout(DType dtype, const Check& check) {
  const auto tensor = [&](const ct::Shape& shape, double phase) {
    return ct::testing::waves(shape, phase, 2).to(dtype).to(ct::cuda());
  };
  check("chunks", tensor({64, 128}, 1), tensor({64, 128}, 2));
  check("a row", tensor({64, 128}, 1), tensor({128}, 2));
  check("a column", tensor({64, 128}, 1), tensor({64, 1}, 2));
  check("a number", tensor({64, 128}, 1), tensor({}, 2));
  check("odd", tensor({37, 65}, 1), tensor({65}, 2));
  check("one", tensor({1}, 1), tensor({}, 2));
  check("none", tensor({0, 3}, 1), tensor({3}, 2));
  check("transposed", tensor({48, 32}, 1).t(), tensor({48}, 2));
  check("a slice", tensor({40, 72}, 1).slice(1, 1, 70, 3), tensor({40, 72}, 2).slice(1, 0, 23));
  check("four axes", tensor({3, 5, 7, 8}, 1), tensor({3, 1, 7, 1}, 2));
}

}  // namespace

TEST_CASE("fuse on a GPU gives what the ops give one by one", "[fuse][cuda]") {
  const auto f = ct::fuse(kFormula);
  for (const DType dtype : {ct::f32, ct::f64, ct::f16, ct::bf16})
    each_layout(dtype, [&](const char* label, const Tensor& x, const Tensor& b) {
      INFO(label << ", " << ct::name(dtype));
      const double tolerance = dtype == ct::f64   ? 1e-13
                               : dtype == ct::f32 ? 2e-5
                               : dtype == ct::f16 ? 4e-3
                                                  : 3e-2;
      const Tensor mask = ct::gt(ct::testing::waves(x.shape(), 3).to(ct::cuda()), 0.1);
      const Result got = run(f, x, b, mask), want = run(kFormula, x.to(ct::f64), b.to(ct::f64), mask);
      compare(got.y, want.y.to(dtype), tolerance);
      compare(got.dx, want.dx.to(dtype), tolerance);
      compare(got.db, want.db.to(dtype), 20 * tolerance);
      const Result again = run(f, x, b, mask);
      CHECK(ct::testing::largest_difference(got.dx.to(ct::cpu), again.dx.to(ct::cpu)) == 0);
    });
}

TEST_CASE("fuse on a GPU runs the ops one by one where no kernel compiles", "[fuse][cuda]") {
  // Another formula, of which no kernel is there yet.
  const auto formula = [](auto x, auto b, auto mask) { return kFormula(x, b, mask) * 0.75; };
  const auto f = ct::fuse(formula);
  const ct::testing::NoCompiler none;
  each_layout(ct::f32, [&](const char* label, const Tensor& x, const Tensor& b) {
    INFO(label);
    const Tensor mask = ct::gt(ct::testing::waves(x.shape(), 3).to(ct::cuda()), 0.1);
    const Result got = run(f, x, b, mask), want = run(formula, x, b, mask);
    compare(got.y, want.y, 0);
    compare(got.dx, want.dx, 0);
    compare(got.db, want.db, 0);
  });
}
