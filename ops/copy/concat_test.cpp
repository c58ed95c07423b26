#include <cotangent/ops/copy/concat.h>

#include <cotangent/autograd/engine.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/view/view.h>

#include "tests/catch.h"

using ct::Shape;
using ct::Tensor;

namespace {
using Numbers = std::vector<double>;
Numbers values(const Tensor& t) { return t.to_vector<double>(); }

std::vector<ct::Device> devices() {
  std::vector<ct::Device> all{ct::cpu};
  if (ct::cuda_is_available()) all.push_back(ct::cuda());
  return all;
}
}  // namespace

TEST_CASE("concat puts tensors one after the other", "[concat]") {
  const Tensor a = ct::tensor({{1, 2}, {3, 4}}), b = ct::tensor({{5, 6}});
  CHECK(values(ct::concat({a, b})) == Numbers{1, 2, 3, 4, 5, 6});
  CHECK(ct::concat({a, b}).shape() == Shape{3, 2});
  CHECK(values(ct::concat({a, a}, 1)) == Numbers{1, 2, 1, 2, 3, 4, 3, 4});
  CHECK(values(ct::concat({a, a.t()}, -1)) == Numbers{1, 2, 1, 3, 3, 4, 2, 4});
  CHECK(values(ct::concat({a})) == values(a));
  CHECK(ct::concat({a}).raw_data() != a.raw_data());
  const std::vector<Tensor> list{a, b, b};
  CHECK(ct::concat(list).shape() == Shape{4, 2});
  CHECK(ct::concat({ct::zeros({0, 2}), ct::zeros({0, 2})}).shape() == Shape{0, 2});
  CHECK(ct::concat({ct::zeros({2, 0}), ct::ones({2, 1})}, 1).shape() == Shape{2, 1});
}

TEST_CASE("stack puts tensors side by side", "[concat]") {
  const Tensor a = ct::tensor({1, 2, 3}), b = ct::tensor({4, 5, 6});
  CHECK(values(ct::stack({a, b})) == Numbers{1, 2, 3, 4, 5, 6});
  CHECK(values(ct::stack({a, b}, 1)) == Numbers{1, 4, 2, 5, 3, 6});
  CHECK(values(ct::stack({a, b}, -1)) == Numbers{1, 4, 2, 5, 3, 6});
  CHECK(ct::stack({ct::tensor(1), ct::tensor(2)}).shape() == Shape{2});
  const Tensor m = ct::arange(6).view({2, 3});
  CHECK(ct::stack({m, m, m}, 1).shape() == Shape{2, 3, 3});
  CHECK(values(ct::stack({m.t(), m.t()}, 2)) == Numbers{0, 0, 3, 3, 1, 1, 4, 4, 2, 2, 5, 5});
  CHECK(ct::stack({ct::zeros({0}), ct::zeros({0})}).shape() == Shape{2, 0});
}

TEST_CASE("dtypes are promoted", "[concat]") {
  const Tensor y = ct::concat({ct::tensor({1, 2}), ct::tensor({0.5f}), ct::tensor({true})});
  CHECK(y.dtype() == ct::f32);
  CHECK(values(y) == Numbers{1, 2, 0.5, 1});
  CHECK(ct::stack({ct::ones({1}, {.dtype = ct::f16}), ct::ones({1}, {.dtype = ct::bf16})}).dtype() ==
        ct::f32);
}

TEST_CASE("what can't be joined is refused", "[concat]") {
  CHECK_THROWS_AS(ct::concat(std::vector<Tensor>{}), ct::ValueError);
  CHECK_THROWS_AS(ct::stack(std::vector<Tensor>{}), ct::ValueError);
  CHECK_THROWS_AS(ct::concat({ct::zeros({2, 3}), ct::zeros({2, 4})}), ct::ShapeError);
  CHECK_THROWS_AS(ct::concat({ct::zeros({2, 3}), ct::zeros({2})}), ct::ShapeError);
  CHECK_THROWS_AS(ct::concat({ct::tensor(1), ct::tensor(2)}), ct::ShapeError);
  CHECK_THROWS_AS(ct::concat({ct::zeros({2})}, 1), ct::ShapeError);
  CHECK_THROWS_AS(ct::stack({ct::zeros({2}), ct::zeros({3})}), ct::ShapeError);
  CHECK_THROWS_AS(ct::concat({ct::zeros({2}), Tensor{}}), ct::Error);
  CHECK_THROWS_WITH(ct::concat({ct::zeros({2, 3}), ct::zeros({2, 4})}),
                    Catch::Contains("[concat] input 1 is f32[2, 4], input 0 f32[2, 3]"));
}

TEST_CASE("many inputs of all kinds", "[concat]") {
  for (const ct::Device device : devices()) {
    for (const ct::DType dtype : {ct::u8, ct::f16, ct::f32, ct::f64}) {
      for (const std::int64_t inner : {1, 4, 16}) {
        std::vector<Tensor> parts;
        Numbers want;
        for (int k = 0; k < 230; ++k) {
          const Shape shape{k % 4, inner};
          Tensor t = ct::full(shape, k % 100, {.dtype = dtype, .device = device});
          if (k % 5 == 1) t = t.t().clone().t();  // other strides
          if (k % 7 == 3) t = ct::full({inner}, k % 100, {.dtype = dtype, .device = device}).expand(shape);
          parts.push_back(t);
          want.insert(want.end(), static_cast<std::size_t>(k % 4 * inner), k % 100);
        }
        INFO(ct::name(dtype) << ", rows of " << inner);
        CHECK((values(ct::concat(parts)) == want));
      }
    }
    // Unaligned pieces, between rows.
    const Tensor x = ct::arange(1000).to(device).view({10, 100});
    CHECK(
        (values(ct::concat({x.narrow(1, 0, 33), x.narrow(1, 33, 1), x.narrow(1, 34, 66)}, 1)) == values(x)));
    CHECK((values(ct::concat({x.narrow(0, 0, 3), x.narrow(0, 3, 7)})) == values(x)));
    CHECK((values(ct::stack(x.unbind(1), 1)) == values(x)));
  }
}

TEST_CASE("gradients are views of the cotangent", "[concat]") {
  Tensor a = ct::zeros({2, 1}, {.requires_grad = true}), b = ct::zeros({2, 2}, {.requires_grad = true});
  const Tensor seed = ct::tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}});
  const Tensor inputs[] = {a, b};
  const Tensor outputs[] = {ct::concat({a, b}, 1)};
  const Tensor seeds[] = {seed};
  const std::vector<Tensor> grads = ct::grad(outputs, inputs, seeds);
  CHECK(values(grads[0]) == Numbers{1, 4});
  CHECK(values(grads[1]) == Numbers{2, 3, 5, 6});
  CHECK(grads[0].impl()->storage == seed.impl()->storage);
  // The same tensor twice: both pieces count. Its own gradient is a copy, not a view of the seed.
  ct::stack({a, a}).backward(ct::tensor({{{1.f}, {2.f}}, {{10.f}, {20.f}}}));
  CHECK(values(a.grad()) == Numbers{11, 22});
  ct::concat({b.select(0, 0), b.select(0, 1).to(ct::f64)})
      .backward(ct::tensor({1., 2., 3., 4.}, {.dtype = ct::f64}));
  CHECK(values(b.grad()) == Numbers{1, 2, 3, 4});
  CHECK(b.grad().is_contiguous());
}

TEST_CASE("inputs of different devices are refused", "[concat][cuda]") {
  CHECK_THROWS_AS(ct::concat({ct::zeros({2}), ct::zeros({2}, {.device = ct::cuda()})}), ct::DeviceError);
}
