#include <cotangent/ops/normalization/rms_norm.h>

#include <cmath>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/ops/elementwise/binary.h>

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

}  // namespace

TEST_CASE("rms_norm of known rows", "[rms_norm]") {
  const testing::In in{GENERATE(f64, f32)};
  const Tensor w = in.values({3}, {2, 3, 4});
  in.check(rms_norm(in.values({2, 3}, {-1, 0, 1, 1, -1, 0}), w, kEps), {-2, 0, 4, 2, -3, 0});
  in.check(rms_norm(in.values({3}, {-1, 0, 1}), {}, kEps), {-1, 0, 1});
  in.check(rms_norm(in.values({2, 2}, {0, 0, 5, 5}), {}, 0.0).narrow(0, 1, 1), {1, 1});
  in.check(rms_norm(in.values({2}, {0, 0})), {0, 0});
  // Two axes: mean square 5, scale 1/sqrt(5 + 4) = 1/3.
  in.check(rms_norm(in.values({1, 2, 2}, {-3, -1, 1, 3}), in.values({2, 2}, {3, 3, 3, 6}), 4),
           {-3, -1, 1, 6});
}

TEST_CASE("the gradients of rms_norm", "[rms_norm]") {
  const testing::In in{GENERATE(f64, f32)};
  Tensor x = in.values({2, 3}, {-1, 0, 1, -1, 0, 1}), w = in.values({3}, {2, 3, 4});
  for (Tensor* t : {&x, &w}) t->set_requires_grad();
  const Tensor g = in.values({2, 3}, {1, 1, 1, 3, 3, 3});
  // g w = (2, 3, 4), and its mean product with (-1, 0, 1) is 2/3.
  const V dx{2 + 2 / 3.0, 3, 4 - 2 / 3.0, 8, 9, 10};
  rms_norm(x, w, kEps).backward(g);
  in.check(x.grad(), dx);
  in.check(w.grad(), {-4, 0, 4});
  rms_norm(x, w, kEps).backward(g);
  in.check(x.grad(), {2 * dx[0], 6, 2 * dx[2], 16, 18, 20});
  in.check(w.grad(), {-8, 0, 8});
  REQUIRE(rms_norm(x, w).grad_fn_name() == "rms_norm");
}

TEST_CASE("rms_norm refuses what does not fit", "[rms_norm]") {
  const Tensor x = values({2, 3}, {1, 2, 3, 4, 5, 6});
  REQUIRE_THROWS_AS(rms_norm(x, values({2}, {1, 1})), ShapeError);
  REQUIRE_THROWS_AS(rms_norm(values({}, {1})), ShapeError);
  REQUIRE_THROWS_AS(rms_norm(x, {}, -1e-5), ValueError);
  REQUIRE_THROWS_AS(rms_norm(x, values({3}, {1, 1, 1}, f32)), DTypeError);
  REQUIRE_THROWS_AS(add_rms_norm(x, x[0]), ShapeError);
}
