#include <cotangent/ops/view/view.h>

#include <array>
#include <initializer_list>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>

#include "tests/catch.h"

using ct::Shape;
using ct::Strides;
using ct::Tensor;

namespace {

using Numbers = std::vector<std::int64_t>;
Numbers numbers(const Tensor& t) { return t.to_vector<std::int64_t>(); }
std::vector<double> grad_of(const Tensor& t) { return t.grad().to_vector<double>(); }

// 0, 1, 2, ... that collect a gradient.
Tensor leaf(const Shape& shape) {
  return ct::arange(static_cast<double>(ct::numel(shape)), {.dtype = ct::f64})
      .view(shape)
      .detach()
      .set_requires_grad();
}
// A cotangent of 1, 2, 3, ...
Tensor counting(const Shape& shape) {
  return ct::arange(1, static_cast<double>(ct::numel(shape)) + 1, {.dtype = ct::f64}).view(shape);
}

}  // namespace

TEST_CASE("view and reshape", "[view]") {
  const Tensor x = ct::arange(12);
  const Tensor y = x.view({3, -1});
  CHECK(y.shape() == Shape{3, 4});
  CHECK(y.strides() == Strides{4, 1});
  CHECK(y.raw_data() == x.raw_data());
  CHECK(x.view({12}).raw_data() == x.raw_data());
  CHECK(x.view({2, 1, 6, 1}).shape() == Shape{2, 1, 6, 1});
  CHECK(ct::tensor(5).view({1, 1}).shape() == Shape{1, 1});
  CHECK(ct::tensor({5}).view({}).dim() == 0);
  CHECK(ct::zeros({0, 3}).view({3, 0, 7}).shape() == Shape{3, 0, 7});
  CHECK(ct::zeros({0, 3}).view({-1, 3}).shape() == Shape{0, 3});
  // A transposed layout allows some views; reshape copies for the others.
  const Tensor t = y.t();
  CHECK(t.view({2, 2, 3}).raw_data() == x.raw_data());
  CHECK(numbers(t.view({2, 2, 3})) == numbers(t));
  CHECK_THROWS_AS(t.view({12}), ct::ShapeError);
  CHECK_THROWS_WITH(t.view({12}), Catch::Contains("use reshape()"));
  CHECK(t.reshape({12}).raw_data() != x.raw_data());
  CHECK(numbers(t.reshape({12})) == Numbers{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  CHECK(numbers(t.reshape({-1, 2})) == Numbers{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  CHECK_THROWS_WITH(x.reshape({5}), Catch::Contains("[reshape] shape [5] has 5 elements, the tensor 12"));
  CHECK_THROWS_AS(x.view({-1, -1}), ct::ShapeError);
  CHECK_THROWS_AS(x.view({-1, 5}), ct::ShapeError);
  CHECK_THROWS_AS(x.view({-2, -6}), ct::ShapeError);
  CHECK_THROWS_AS(ct::zeros({0}).view({-1, 0}), ct::ShapeError);
  CHECK_THROWS_AS(x.view({INT64_MAX, INT64_MAX}), ct::ShapeError);
}

TEST_CASE("strides of a view are found whenever they exist", "[view]") {
  // Search over layouts: if view_strides finds strides, they must read the elements in order; if it finds
  // none, no strides may do so.
  const auto order = [](const Shape& shape, const Strides& strides) {
    Numbers out;
    for (std::int64_t at = 0; at < ct::numel(shape); ++at) {
      std::int64_t rest = at, offset = 0;
      for (int i = shape.size() - 1; i >= 0; --i) {
        offset += rest % shape[i] * strides[i];
        rest /= shape[i];
      }
      out.push_back(offset);
    }
    return out;
  };
  const std::vector<Shape> shapes = {{12},      {3, 4},    {4, 3},    {2, 6},     {6, 2},
                                     {2, 2, 3}, {2, 3, 2}, {3, 2, 2}, {1, 12, 1}, {2, 1, 6}};
  int found = 0, refused = 0;
  for (const Shape& shape : shapes) {
    for (int layout = 0; layout < 4; ++layout) {
      Strides strides = ct::contiguous_strides(shape);
      if (layout == 1)  // every second element
        for (std::int64_t& s : strides) s *= 2;
      if (layout == 2) strides[0] += 5;  // gaps between rows
      if (layout == 3) std::swap(strides[0], strides.back());
      for (const Shape& wanted : shapes) {
        Strides out;
        const Numbers want = order(shape, strides);
        if (ct::view_strides(shape, strides, wanted, &out)) {
          ++found;
          REQUIRE(order(wanted, out) == want);
        } else {
          ++refused;
          // Strides are fixed by the elements that are one step away from the first along each axis.
          Strides only = wanted;
          std::int64_t step = 1;
          for (int i = wanted.size() - 1; i >= 0; --i) {
            only[i] = wanted[i] > 1 ? want[static_cast<std::size_t>(step)] : 0;
            step *= wanted[i];
          }
          REQUIRE(order(wanted, only) != want);
        }
      }
    }
  }
  CHECK(found > 200);
  CHECK(refused > 50);
}

TEST_CASE("flatten", "[view]") {
  const Tensor x = ct::zeros({2, 3, 4, 5});
  CHECK(x.flatten().shape() == Shape{120});
  CHECK(x.flatten(1).shape() == Shape{2, 60});
  CHECK(x.flatten(1, 2).shape() == Shape{2, 12, 5});
  CHECK(x.flatten(-2, -1).shape() == Shape{2, 3, 20});
  CHECK(x.flatten(2, 2).shape() == x.shape());
  CHECK(ct::tensor(1).flatten().shape() == Shape{1});
  CHECK(ct::zeros({2, 0, 3}).flatten(1).shape() == Shape{2, 0});
  CHECK_THROWS_AS(x.flatten(2, 1), ct::ShapeError);
  CHECK_THROWS_AS(x.flatten(0, 4), ct::ShapeError);
}

TEST_CASE("transpose, t and permute", "[view]") {
  const Tensor x = ct::arange(6).view({2, 3});
  CHECK(x.t().shape() == Shape{3, 2});
  CHECK(numbers(x.t()) == Numbers{0, 3, 1, 4, 2, 5});
  CHECK(numbers(x.transpose(-1, 0)) == Numbers{0, 3, 1, 4, 2, 5});
  CHECK(ct::tensor({1, 2}).t().shape() == Shape{2});
  CHECK(ct::tensor(1).t().dim() == 0);
  CHECK(ct::tensor(1).transpose(0, -1).dim() == 0);
  const Tensor y = ct::arange(24).view({2, 3, 4});
  const Tensor p = y.permute({2, 0, 1});
  CHECK(p.shape() == Shape{4, 2, 3});
  CHECK(p.strides() == Strides{1, 12, 4});
  CHECK(p.permute({1, 2, 0}).is_contiguous());
  CHECK_THROWS_AS(y.t(), ct::ShapeError);
  CHECK_THROWS_AS(y.transpose(0, 3), ct::ShapeError);
  CHECK_THROWS_AS(y.permute({0, 1}), ct::ShapeError);
  CHECK_THROWS_AS(y.permute({0, 1, 1}), ct::ShapeError);
}

TEST_CASE("narrow, slice and select", "[view]") {
  const Tensor x = ct::arange(20).view({4, 5});
  CHECK(numbers(x.narrow(0, 1, 2)) == Numbers{5, 6, 7, 8, 9, 10, 11, 12, 13, 14});
  CHECK(numbers(x.narrow(1, -2, 1)) == Numbers{3, 8, 13, 18});
  CHECK(x.narrow(0, 4, 0).shape() == Shape{0, 5});
  CHECK_THROWS_AS(x.narrow(0, 3, 2), ct::IndexError);
  CHECK_THROWS_AS(x.narrow(0, 0, -1), ct::IndexError);
  CHECK_THROWS_AS(x.narrow(0, 5, 0), ct::IndexError);
  CHECK_THROWS_AS(x.narrow(0, 1, INT64_MAX), ct::IndexError);
  CHECK_THROWS_AS(x.narrow(2, 0, 1), ct::ShapeError);

  CHECK(numbers(x.slice(1, 0, INT64_MAX, 2).select(0, 0)) == Numbers{0, 2, 4});
  CHECK(numbers(x.slice(1, 1, 4, 3).select(0, 0)) == Numbers{1});
  CHECK(numbers(x.slice(0, -1)) == Numbers{15, 16, 17, 18, 19});
  CHECK(numbers(x.slice(1, 0, -3).select(0, 3)) == Numbers{15, 16});
  CHECK(x.slice(0, 3, 1).shape() == Shape{0, 5});
  CHECK(x.slice(0, 100).shape() == Shape{0, 5});
  CHECK(x.slice(0, -100, 100).shape() == x.shape());
  CHECK(x.slice(0, 0, 4, INT64_MAX).shape() == Shape{1, 5});
  CHECK_THROWS_AS(x.slice(0, 0, 4, 0), ct::ValueError);
  CHECK_THROWS_AS(x.slice(0, 0, 4, -1), ct::ValueError);

  CHECK(numbers(x[2]) == Numbers{10, 11, 12, 13, 14});
  CHECK(numbers(x[-1][0]) == Numbers{15});
  CHECK(numbers(x.select(-1, -5)) == Numbers{0, 5, 10, 15});
  CHECK(x[1][2].item<int>() == 7);
  CHECK_THROWS_AS(x[4], ct::IndexError);
  CHECK_THROWS_AS(x[-5], ct::IndexError);
  CHECK_THROWS_WITH(x[4], Catch::Contains("[select] index 4 is out of range for an axis of size 4"));
  CHECK_THROWS_AS(ct::tensor(1)[0], ct::ShapeError);
  CHECK_THROWS_AS(ct::zeros({0})[0], ct::IndexError);
}

TEST_CASE("expand repeats without a copy", "[view]") {
  const Tensor x = ct::arange(3).view({3, 1});
  const Tensor y = x.expand({2, 3, 4});
  CHECK(y.shape() == Shape{2, 3, 4});
  CHECK(y.strides() == Strides{0, 1, 0});
  CHECK(numbers(y.select(0, 1)) == Numbers{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
  CHECK(x.expand({-1, 5}).shape() == Shape{3, 5});
  CHECK(x.expand_as(y).shape() == y.shape());
  CHECK(x.expand({3, 0}).numel() == 0);
  CHECK(ct::tensor(7).expand({2}).to_vector<int>() == std::vector<int>{7, 7});
  CHECK_THROWS_AS(x.expand({3}), ct::ShapeError);
  CHECK_THROWS_AS(x.expand({2, 4}), ct::ShapeError);
  CHECK_THROWS_AS(x.expand({-1, 3, 1}), ct::ShapeError);
  CHECK_THROWS_AS(x.expand({3, -2}), ct::ShapeError);
  CHECK_THROWS_AS(ct::ones({1, 1}).expand({INT64_MAX / 2, 4}), ct::ShapeError);
}

TEST_CASE("squeeze and unsqueeze", "[view]") {
  const Tensor x = ct::zeros({1, 3, 1, 2});
  CHECK(x.squeeze().shape() == Shape{3, 2});
  CHECK(x.squeeze(0).shape() == Shape{3, 1, 2});
  CHECK(x.squeeze(-2).shape() == Shape{1, 3, 2});
  CHECK(x.squeeze(1).shape() == x.shape());
  CHECK(ct::tensor({1}).squeeze().dim() == 0);
  CHECK(ct::tensor(1).squeeze(0).dim() == 0);
  CHECK(x.unsqueeze(0).shape() == Shape{1, 1, 3, 1, 2});
  CHECK(x.unsqueeze(-1).shape() == Shape{1, 3, 1, 2, 1});
  CHECK(x.unsqueeze(4).shape() == Shape{1, 3, 1, 2, 1});
  CHECK(ct::tensor(1).unsqueeze(0).shape() == Shape{1});
  CHECK_THROWS_AS(x.unsqueeze(5), ct::ShapeError);
  CHECK_THROWS_AS(x.squeeze(4), ct::ShapeError);
  CHECK_THROWS_AS(ct::zeros({1, 1, 1, 1, 1, 1, 1, 1}).unsqueeze(0), ct::ShapeError);
}

TEST_CASE("unbind, split and chunk", "[view]") {
  const Tensor x = ct::arange(10).view({5, 2});
  const std::vector<Tensor> rows = x.unbind();
  REQUIRE(rows.size() == 5);
  CHECK(numbers(rows[3]) == Numbers{6, 7});
  CHECK(numbers(x.unbind(-1).at(1)) == Numbers{1, 3, 5, 7, 9});
  CHECK(ct::zeros({0, 2}).unbind().empty());

  const std::vector<Tensor> twos = x.split(2);
  REQUIRE(twos.size() == 3);
  CHECK(twos[2].shape() == Shape{1, 2});
  CHECK(numbers(twos[1]) == Numbers{4, 5, 6, 7});
  CHECK(x.split(100).size() == 1);
  CHECK(ct::zeros({0}).split(3).size() == 1);
  const std::vector<Tensor> sized = x.split(std::vector<std::int64_t>{1, 0, 4});
  CHECK(sized[1].shape() == Shape{0, 2});
  CHECK(numbers(sized[2]).front() == 2);
  CHECK_THROWS_AS(x.split(0), ct::ValueError);
  CHECK_THROWS_AS(x.split(std::vector<std::int64_t>{1, 3}), ct::ShapeError);
  CHECK_THROWS_AS(x.split(std::vector<std::int64_t>{6, -1}), ct::ValueError);
  CHECK_THROWS_AS(x.split(std::vector<std::int64_t>{INT64_MAX, INT64_MAX, x.size(0) + 2}), ct::ShapeError);

  CHECK(x.chunk(2)[0].shape() == Shape{3, 2});
  CHECK(x.chunk(2)[1].shape() == Shape{2, 2});
  CHECK(x.chunk(4).size() == 3);  // 2 + 2 + 1, as in PyTorch
  CHECK(x.chunk(2, 1).size() == 2);
  CHECK_THROWS_AS(x.chunk(0), ct::ValueError);
  CHECK(x.chunk(INT64_MAX).size() == static_cast<std::size_t>(x.size(0)));
  CHECK_THROWS_AS(ct::tensor(1).chunk(2), ct::ShapeError);
}

TEST_CASE("views of views up to rank 8", "[view]") {
  const Tensor x = ct::arange(256).view({2, 2, 2, 2, 2, 2, 2, 2});
  const Tensor y = x.permute({7, 6, 5, 4, 3, 2, 1, 0}).slice(0, 1).select(3, 1).transpose(0, 6);
  CHECK(y.dim() == 7);
  CHECK(y.shape() == Shape{2, 2, 2, 2, 2, 2, 1});
  CHECK(y.strides() == Strides{128, 2, 4, 16, 32, 64, 1});
  // 1 from the slice, 8 from the select, and 128 + 4 + 32 from the indices.
  CHECK(y[1][0][1][0][1][0][0].item<int>() == 173);
}

TEST_CASE("a view shares its memory and its version", "[view]") {
  Tensor x = ct::arange(6);
  Tensor y = x.view({2, 3});
  y.select(0, 1).fill_(9);
  CHECK(numbers(x) == Numbers{0, 1, 2, 9, 9, 9});
  CHECK(x.impl()->storage->version() == 1);
  CHECK(y.impl()->storage == x.impl()->storage);
}

TEST_CASE("gradients of views", "[view]") {
  SECTION("reshape of a transpose") {
    const Tensor x = leaf({2, 3});
    x.t().reshape({6}).backward(counting({6}));
    CHECK(grad_of(x) == std::vector<double>{1, 3, 5, 2, 4, 6});
  }
  SECTION("slice") {
    const Tensor x = leaf({2, 4});
    x.slice(1, 1, 4, 2).backward(counting({2, 2}));
    CHECK(grad_of(x) == std::vector<double>{0, 1, 0, 2, 0, 3, 0, 4});
  }
  SECTION("select") {
    const Tensor x = leaf({3, 2});
    x[1].backward(counting({2}));
    CHECK(grad_of(x) == std::vector<double>{0, 0, 1, 2, 0, 0});
  }
  SECTION("expand sums") {
    const Tensor x = leaf({2, 1});
    x.expand({3, 2, 2}).backward(counting({3, 2, 2}));
    CHECK(grad_of(x) == std::vector<double>{1 + 2 + 5 + 6 + 9 + 10, 3 + 4 + 7 + 8 + 11 + 12});
  }
}

TEST_CASE("pieces of a tensor add up in one gradient", "[view]") {
  const Tensor x = leaf({6});
  const std::vector<Tensor> parts = x.split(2);
  // The middle is left out, the last is used twice.
  const Tensor roots[] = {parts[0], parts[2], parts[2], x.unbind()[5]};
  const Tensor gradients[] = {ct::tensor({1, 2}, {.dtype = ct::f64}), ct::tensor({3, 4}, {.dtype = ct::f64}),
                              ct::tensor({10, 20}, {.dtype = ct::f64}), ct::tensor(100, {.dtype = ct::f64})};
  ct::backward(roots, gradients);
  CHECK(grad_of(x) == std::vector<double>{1, 2, 0, 0, 13, 124});
  // A second pass adds to the same gradient.
  const void* memory = x.grad().raw_data();
  x.split(2)[1].backward(ct::tensor({5, 6}, {.dtype = ct::f64}));
  CHECK(grad_of(x) == std::vector<double>{1, 2, 5, 6, 13, 124});
  CHECK(x.grad().raw_data() == memory);
}

TEST_CASE("the parts of an axis are one op, and their gradients one tensor", "[view]") {
  const Tensor x = leaf({2, 3, 2});
  const std::vector<Tensor> parts = x.unbind(1);
  REQUIRE(parts.size() == 3);
  for (std::size_t k = 0; k < 3; ++k) {
    CHECK(parts[k].grad_fn_name() == "unbind");
    CHECK(parts[k].shape() == Shape{2, 2});
    CHECK(parts[k].strides() == Strides{6, 1});
    CHECK(parts[k].storage_offset() == 2 * static_cast<std::int64_t>(k));
    CHECK(parts[k].impl()->storage == x.impl()->storage);
  }
  CHECK(leaf({5}).unbind()[4].grad_fn_name() == "select");  // more parts than an op has outputs

  SECTION("all are used") {
    const Tensor gradients[] = {counting({2, 2}), counting({2, 2}).t(), counting({1, 2}).expand({2, 2})};
    const std::size_t before = ct::memory_stats(ct::cpu).requests;
    ct::backward(parts, gradients);
    CHECK(ct::memory_stats(ct::cpu).requests - before == 1);  // the gradient
    CHECK(grad_of(x) == std::vector<double>{1, 2, 1, 3, 1, 2, 3, 4, 2, 4, 1, 2});
    CHECK(x.grad().is_contiguous());
    // A second pass adds in place.
    const void* memory = x.grad().raw_data();
    ct::backward(std::array{x.unbind(-2)[1]}, std::array{counting({2, 2})});
    CHECK(grad_of(x) == std::vector<double>{1, 2, 2, 5, 1, 2, 3, 4, 5, 8, 1, 2});
    CHECK(x.grad().raw_data() == memory);
  }
  SECTION("one is missing, one is used twice") {
    ct::backward(std::array{parts[2], parts[0], parts[2]},
                 std::array{counting({2, 2}), counting({2, 2}), counting({2, 2})});
    CHECK(grad_of(x) == std::vector<double>{1, 2, 0, 0, 2, 4, 3, 4, 0, 0, 6, 8});
  }
  SECTION("the last one alone") {
    parts[2].backward(counting({2, 2}));
    CHECK(grad_of(x) == std::vector<double>{0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 3, 4});
  }
  SECTION("x has another use") {
    ct::backward(std::array{x * 2.0, parts[1]}, std::array{counting({2, 3, 2}), counting({2, 2})});
    CHECK(grad_of(x) == std::vector<double>{2, 4, 7, 10, 10, 12, 14, 16, 21, 24, 22, 24});
  }
}

TEST_CASE("parts that were one tensor come back as one, without a copy", "[view]") {
  const Tensor whole = counting({2, 3, 2});
  const auto gradient = [&](std::initializer_list<Tensor> gradients) {
    const Tensor x = leaf({2, 3, 2});
    const std::vector<Tensor> parts = (x * 1.0).unbind(1);
    std::vector<Tensor> roots(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(gradients.size()));
    const std::vector<Tensor> g(gradients);
    ct::backward(roots, g);
    return grad_of(x);
  };
  const auto part = [&](std::int64_t k) { return whole.select(1, k); };
  const std::vector<double> in_order = whole.to_vector<double>();
  CHECK(gradient({part(0), part(1), part(2)}) == in_order);
  // Look-alikes.
  CHECK(gradient({part(2), part(1), part(0)}) == std::vector<double>{5, 6, 3, 4, 1, 2, 11, 12, 9, 10, 7, 8});
  CHECK(gradient({part(0), part(2), part(1)}) == std::vector<double>{1, 2, 5, 6, 3, 4, 7, 8, 11, 12, 9, 10});
  CHECK(gradient({part(1), part(1), part(1)}) == std::vector<double>{3, 4, 3, 4, 3, 4, 9, 10, 9, 10, 9, 10});
  CHECK(gradient({part(0), part(1)}) == std::vector<double>{1, 2, 3, 4, 0, 0, 7, 8, 9, 10, 0, 0});
  CHECK(gradient({part(0), part(1).clone(), part(2)}) == in_order);
  CHECK(gradient({part(0).clone(), part(1), part(2)}) == in_order);
  CHECK(gradient({part(0), part(1), part(2).t()}) ==
        std::vector<double>{1, 2, 3, 4, 5, 11, 7, 8, 9, 10, 6, 12});
  CHECK(gradient({part(0), (whole * 10.0).select(1, 1), part(2)}) ==
        std::vector<double>{1, 2, 30, 40, 5, 6, 7, 8, 90, 100, 11, 12});

  // stack's gradient hands out the parts of its cotangent, which becomes the gradient as it is.
  const Tensor x = leaf({2, 3, 2});
  const Tensor y = ct::stack(x.unbind(1), 1);
  const Tensor g = ct::grad(std::array{y}, std::array{x}, std::array{whole}, {.retain_graph = true})[0];
  CHECK(g.impl()->storage == whole.impl()->storage);
  CHECK(g.is_contiguous());
  CHECK(g.to_vector<double>() == in_order);
  // A leaf gets a tensor of its own, and adds to it in place.
  y.backward(whole, true);
  y.backward(whole);
  CHECK(grad_of(x) == (whole * 2.0).to_vector<double>());
  CHECK(whole.to_vector<double>() == in_order);
  // Gradients that arrived from elsewhere are not lost.
  const Tensor z = leaf({2, 3, 2}), h = z * 1.0;
  const std::vector<Tensor> parts = h.unbind(1);
  ct::backward(std::array{h * 2.0, parts[0], parts[1], parts[2]},
               std::array{whole, part(0), part(1), part(2)});
  CHECK(grad_of(z) == (whole * 3.0).to_vector<double>());
}

TEST_CASE("a part can't be changed in place on the tape; off it, all parts know", "[view]") {
  const Tensor x = leaf({3, 2});
  std::vector<Tensor> parts = (x * 1.0).unbind();
  CHECK_THROWS_AS(parts[1].mul_(2.0), ct::AutogradError);
  const Tensor y = parts[0] * parts[0];  // saves part 0
  {
    const ct::NoGrad guard;
    parts[1].mul_(2.0);
  }
  CHECK_THROWS_WITH(y.backward(counting({2})), Catch::Contains("in place"));
  // A recorded change of the whole makes its parts out of date.
  Tensor z = x * 1.0;
  parts = z.unbind();
  z.mul_(3.0);
  CHECK_THROWS_AS(parts[2] * 1.0, ct::AutogradError);
  z.unbind()[2].backward(counting({2}));
  CHECK(grad_of(x) == std::vector<double>{0, 0, 0, 0, 3, 6});
}

TEST_CASE("parts of other dtypes and layouts", "[view]") {
  for (const ct::DType dtype : {ct::i64, ct::i32, ct::u8, ct::f16, ct::bf16, ct::f32}) {
    const Tensor x = ct::arange(24).to(dtype).view({2, 3, 4});
    const std::vector<Tensor> parts = x.transpose(0, 2).unbind(-2);
    REQUIRE(parts.size() == 3);
    for (const Tensor& part : parts) CHECK(part.dtype() == dtype);
    CHECK(numbers(parts[1]) == Numbers{4, 16, 5, 17, 6, 18, 7, 19});
    CHECK(!parts[1].requires_grad());
  }
  CHECK(ct::zeros({3, 0}).unbind()[2].shape() == Shape{0});
  CHECK(ct::zeros({1, 2}).unbind().size() == 1);
  CHECK_THROWS_AS(ct::zeros({3}).unbind(1), ct::ShapeError);
}

TEST_CASE("views are not recorded under NoGrad, and integers never", "[view]") {
  const Tensor x = leaf({4});
  {
    const ct::NoGrad guard;
    CHECK(!x.view({2, 2}).requires_grad());
  }
  CHECK(x.view({2, 2}).grad_fn_name() == "view");
  CHECK(x.slice(0, 1).grad_fn_name() == "slice");
  CHECK(!ct::arange(4).view({2, 2}).requires_grad());
}
