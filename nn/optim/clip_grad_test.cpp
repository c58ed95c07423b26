#include <cotangent/nn/optim/clip_grad.h>

#include <cmath>
#include <limits>

#include <cotangent/core/device/device.h>
#include <cotangent/nn/optim/sgd.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/unary.h>

#include "tests/catch.h"
#include "tests/optim_testing.h"

using namespace ct;
using namespace ct::optim;

namespace {

constexpr double k_inf = std::numeric_limits<double>::infinity();
constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

Tensor with_grad(std::vector<double> grad, DType dtype = f32) {
  const Shape shape{static_cast<std::int64_t>(grad.size())};
  Tensor p = zeros(shape, {.dtype = dtype, .requires_grad = true});
  p.set_grad(from_vector(grad, shape, {.dtype = dtype}));
  return p;
}

}  // namespace

TEST_CASE("clipping by norm, by hand", "[optim]") {
  const Tensor a = with_grad({3}), b = with_grad({0, -4}), none = zeros({5}, {.requires_grad = true});
  CHECK(clip_grad_norm_({a, none, b}, 10).item() == 5);
  CHECK(b.grad().to_vector<float>() == std::vector<float>{0, -4});
  CHECK(clip_grad_norm_({a, none, b}, 8, {.norm_type = 1}).item() == 7);
  CHECK(clip_grad_norm_({a, none, b}, 4.5, {.norm_type = k_inf}).item() == 4);
  CHECK(a.grad().item() == Approx(3).epsilon(1e-6));
  CHECK(clip_grad_norm_({a, none, b}, 2.5).item() == Approx(5));
  CHECK(a.grad().item() == Approx(1.5).epsilon(1e-6));
  CHECK(clip_grad_norm_({a, b}, 0).item() == Approx(2.5));
  CHECK(b.grad().to_vector<float>() == std::vector<float>{0, -0.f});
  CHECK(clip_grad_norm_({a, b}, 1).item() == 0);  // no division by zero
  CHECK(clip_grad_norm_({none}, 1).item() == 0);
  CHECK(clip_grad_norm_({}, 1).item() == 0);
}

TEST_CASE("clipping by value, by hand", "[optim]") {
  const Tensor a = with_grad({3, -0.5, -7, k_nan, -k_inf});
  clip_grad_value_({a, zeros({5}, {.requires_grad = true})}, 1);
  const std::vector<float> g = a.grad().to_vector<float>();
  CHECK((g[0] == 1 && g[1] == -0.5f && g[2] == -1 && std::isnan(g[3]) && g[4] == -1));
  clip_grad_value_({}, 1);
}

TEST_CASE("a norm does not overflow where its squares do", "[optim]") {
  const Tensor a = with_grad({3e30, -4e30});
  CHECK(clip_grad_norm_({a}, 1).item() == Approx(5e30));
  CHECK(a.grad().to_vector<float>()[1] == Approx(-0.8));
  const Tensor h = with_grad({48000, 36000}, f16);
  CHECK(clip_grad_norm_({h}, 1e9).item() == 60000);
}

TEST_CASE("the norm of gradients of several dtypes", "[optim]") {
  const Tensor a = with_grad({2}, f16), b = with_grad({-4}, bf16), c = with_grad({4}),
               d = with_grad({8}, f64);
  const Tensor norm = clip_grad_norm_({a, b, c}, 3);
  CHECK(norm.dtype() == f32);
  CHECK(norm.item() == 6);
  CHECK(a.grad().item() == 1);
  CHECK(b.grad().item() == -2);
  CHECK(c.grad().item() == Approx(2).epsilon(1e-6));
  CHECK(clip_grad_norm_({a, d}, 1000, {.norm_type = 1}).dtype() == f64);
  clip_grad_value_({a, b, c, d}, 0.5);
  CHECK((a.grad().item() == 0.5 && b.grad().item() == -0.5 && d.grad().item() == 0.5));
}

TEST_CASE("norms that are not numbers", "[optim]") {
  for (const double p : {2.0, 1.0, k_inf, 3.0}) {
    for (const std::int64_t at : {0, 31, 32, 999, 20000, 40000}) {
      std::vector<double> values(40001, 1.0);
      values[static_cast<std::size_t>(at)] = k_nan;
      Tensor a = with_grad(values), b = with_grad({1});
      CHECK_THROWS_AS(clip_grad_norm_({a, b}, 1, {.norm_type = p, .error_if_nonfinite = true}), ValueError);
      CHECK(b.grad().item() == 1);
      CHECK(std::isnan(clip_grad_norm_({a, b}, 1, {.norm_type = p}).item()));
      CHECK(std::isnan(b.grad().item()));  // as in PyTorch: the step is spoilt, and that shows
    }
    const Tensor a = with_grad({k_inf}), b = with_grad({1});
    CHECK(clip_grad_norm_({a, b}, 1, {.norm_type = p}).item() == k_inf);
    CHECK(std::isnan(a.grad().item()));
    CHECK(b.grad().item() == 0);
  }
}

TEST_CASE("clipping a gradient that is no contiguous tensor", "[optim]") {
  Tensor p = zeros({2, 3}, {.requires_grad = true});
  p.set_grad(full({}, 2.0).expand({2, 3}));
  CHECK(clip_grad_norm_({p}, std::sqrt(6.0)).item() == Approx(std::sqrt(24.0)));
  CHECK(p.grad().is_contiguous());
  CHECK(p.grad().to_vector<float>()[5] == Approx(1));
}

TEST_CASE("clipping counts as a change of the gradient", "[optim]") {
  Tensor p = with_grad({3});
  Tensor grad = p.grad();
  const auto version = grad.impl()->storage->version();
  clip_grad_norm_({p}, 1);
  CHECK(grad.impl()->storage->version() == version + 1);
}

TEST_CASE("clipping refuses limits that have no meaning", "[optim]") {
  const Tensor p = with_grad({1});
  CHECK_THROWS_AS(clip_grad_norm_({p}, -1), ValueError);
  CHECK_THROWS_AS(clip_grad_norm_({p}, k_nan), ValueError);
  CHECK_THROWS_AS(clip_grad_norm_({p}, 1, {.norm_type = 0}), ValueError);
  CHECK_THROWS_AS(clip_grad_norm_({p}, 1, {.norm_type = k_nan}), ValueError);
  CHECK_THROWS_AS(clip_grad_value_({p}, -1), ValueError);
  CHECK(p.grad().item() == 1);
}

TEST_CASE("clipping refuses gradients on several devices", "[optim][cuda]") {
  const Tensor p = with_grad({1});
  Tensor q = zeros({1}, {.device = cuda(0), .requires_grad = true});
  q.set_grad(ones({1}, {.device = cuda(0)}));
  CHECK_THROWS_AS(clip_grad_norm_({p, q}, 1), DeviceError);
  CHECK_THROWS_AS(clip_grad_value_({p, q}, 1), DeviceError);
  CHECK(clip_grad_norm_({q}, 1).item() == 1);  // and the next call works
}
