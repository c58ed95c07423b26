#include <cotangent/ops/indexing/indexing.h>
#include <cotangent/ops/indexing/rearrange.h>

#include <cotangent/autograd/engine.h>
#include <cotangent/core/tensor/tensor_index.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/testing/gradcheck.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;
using Catch::Contains;

namespace {
using V = std::vector<double>;
using testing::values;
}  // namespace

TEST_CASE("flip and roll", "[rearrange]") {
  const Tensor x = arange(6).view({2, 3});
  CHECK(values(flip(x, {0})) == V{3, 4, 5, 0, 1, 2});
  CHECK(values(flip(x, {-1, 0})) == V{5, 4, 3, 2, 1, 0});
  CHECK(values(flip(x, {})) == values(x));
  CHECK(flip(tensor(3), {0}).item<int>() == 3);
  CHECK(flip(zeros({0, 2}), {0}).shape() == Shape{0, 2});
  CHECK_THROWS_AS(flip(x, {0, -2}), ShapeError);
  CHECK(values(roll(x, 1, 1)) == V{2, 0, 1, 5, 3, 4});
  CHECK(values(roll(x, {-1, 4}, {1, 0})) == V{1, 2, 0, 4, 5, 3});
  CHECK(values(roll(x, 2)) == V{4, 5, 0, 1, 2, 3});
  CHECK(roll(zeros({0}), 3).shape() == Shape{0});
  CHECK(roll(x, 3, 1).raw_data() != x.raw_data());
  CHECK_THROWS_AS(roll(x, {1, 2}, {0}), ShapeError);
}

TEST_CASE("repeat, tile and repeat_interleave", "[rearrange]") {
  const Tensor x = arange(4).view({2, 2});
  CHECK(values(repeat(x, {1, 2})) == V{0, 1, 0, 1, 2, 3, 2, 3});
  CHECK(values(repeat(x, {2, 1})) == V{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(repeat(x, {3, 2, 2}).shape() == Shape{3, 4, 4});
  CHECK(values(repeat(x, {2, 2, 2}).select(0, 1)) == V{0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3});
  CHECK(repeat(x, {0, 1}).shape() == Shape{0, 2});
  CHECK(repeat(x, {1, 1}).raw_data() != x.raw_data());
  CHECK(values(repeat(tensor(5), {3})) == V{5, 5, 5});
  CHECK(values(tile(x, {2})) == values(repeat(x, {1, 2})));
  CHECK(repeat(zeros({1, 1, 1, 1, 1, 1, 1, 2}), {1, 1, 1, 1, 1, 1, 2, 2}).numel() == 8);
  CHECK_THROWS_AS(repeat(x, {2}), ShapeError);
  CHECK_THROWS_AS(repeat(x, {2, -1}), ValueError);
  CHECK(values(repeat_interleave(x, 2, 1)) == V{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(values(repeat_interleave(x, 2, 0)) == V{0, 1, 0, 1, 2, 3, 2, 3});
  CHECK(values(repeat_interleave(x, tensor({0, 3}), 0)) == V{2, 3, 2, 3, 2, 3});
  CHECK(values(repeat_interleave(x, tensor({1, 2}).to(i32), -1)) == V{0, 1, 1, 2, 3, 3});
  CHECK(values(repeat_interleave(x, tensor({2}), 1)) == values(repeat_interleave(x, 2, 1)));
  CHECK_THROWS_AS(repeat_interleave(x, tensor({1, 2, 3}), 0), ShapeError);
  CHECK_THROWS_AS(repeat_interleave(x, tensor({1, -2}), 0), ValueError);
  CHECK_THROWS_AS(repeat_interleave(x, tensor({1., 2.}), 0), DTypeError);
}

TEST_CASE("tril, triu and diagonals", "[rearrange]") {
  const Tensor x = arange(1, 10).view({3, 3});
  CHECK(values(tril(x)) == V{1, 0, 0, 4, 5, 0, 7, 8, 9});
  CHECK(values(triu(x, 1)) == V{0, 2, 3, 0, 0, 6, 0, 0, 0});
  CHECK(values(tril(x, -1)) == V{0, 0, 0, 4, 0, 0, 7, 8, 0});
  CHECK(tril(x).dtype() == i64);
  CHECK(triu(ones({2, 2, 3}, {.dtype = boolean})).dtype() == boolean);
  CHECK(values(triu(ones({2, 3}, {.dtype = boolean}))) == V{1, 1, 1, 0, 1, 1});
  CHECK_THROWS_AS(tril(tensor({1.})), ShapeError);
  CHECK(values(diag(x, 1)) == V{2, 6});
  CHECK(values(diag(tensor({1, 2}), -1)) == V{0, 0, 0, 1, 0, 0, 0, 2, 0});
  CHECK(values(diag_embed(tensor({{1, 2}, {3, 4}}))) == V{1, 0, 0, 2, 3, 0, 0, 4});
  CHECK(values(diag_embed(tensor({{1, 2}, {3, 4}}), 0, 0, 2)) == V{1, 0, 3, 0, 0, 2, 0, 4});
  CHECK(diag_embed(tensor({true})).dtype() == boolean);
  CHECK(values(diag_embed(x.select(0, 0), 2).diagonal(2)) == V{1, 2, 3});
  CHECK_THROWS_AS(diag_embed(tensor(1)), ShapeError);
  CHECK_THROWS_AS(diag(zeros({2, 2, 2})), ShapeError);
}

TEST_CASE("views by axes and windows", "[rearrange]") {
  Tensor x = arange(24).view({2, 3, 4});
  CHECK(x.movedim(0, -1).shape() == Shape{3, 4, 2});
  CHECK(x.movedim(2, 0).shape() == Shape{4, 2, 3});
  CHECK(values(x.movedim(1, 0)) == values(x.transpose(0, 1)));
  CHECK(x.swapaxes(0, 2).shape() == Shape{4, 3, 2});
  CHECK(values(x.diagonal(1, 1, 2).select(0, 0)) == V{1, 6, 11});
  CHECK(x.diagonal().shape() == Shape{4, 2});
  x.diagonal(0, 1, 2).index({0}) = -1;
  CHECK(values(x.select(0, 0)) == V{-1, 1, 2, 3, 4, -1, 6, 7, 8, 9, -1, 11});
  CHECK(values(arange(5).unfold(0, 3, 1)) == V{0, 1, 2, 1, 2, 3, 2, 3, 4});
  CHECK(x.unfold(1, 2, 1).shape() == Shape{2, 2, 4, 2});
  Tensor windows = arange(6).unfold(0, 3, 1);
  CHECK_THROWS_WITH(windows.copy_(zeros({4, 3})), Contains("share one place in memory"));
  CHECK_NOTHROW(arange(6).unfold(0, 3, 3).copy_(zeros({2, 3})));
}

TEST_CASE("one_hot and meshgrid", "[rearrange]") {
  CHECK(values(one_hot(tensor({0, 2}))) == V{1, 0, 0, 0, 0, 1});
  CHECK(one_hot(tensor({{1}}).to(i32), 4).shape() == Shape{1, 1, 4});
  CHECK(one_hot(zeros({0}, {.dtype = i64}), 3).shape() == Shape{0, 3});
  CHECK_THROWS_AS(one_hot(tensor({3}), 3), IndexError);
  CHECK_THROWS_AS(one_hot(tensor({0.5}), 3), DTypeError);
  CHECK_THROWS_AS(one_hot(zeros({0}, {.dtype = i64})), ValueError);
  const std::vector<Tensor> ij = meshgrid({tensor({1, 2}), tensor({3, 4, 5})});
  CHECK(values(ij[0]) == V{1, 1, 1, 2, 2, 2});
  CHECK(values(ij[1]) == V{3, 4, 5, 3, 4, 5});
  const std::vector<Tensor> xy = meshgrid({tensor({1, 2}), tensor({3, 4, 5})}, Indexing::xy);
  CHECK(xy[0].shape() == Shape{3, 2});
  CHECK(values(xy[1]) == V{3, 3, 4, 4, 5, 5});
  CHECK_THROWS_AS(meshgrid({zeros({2, 2})}), ShapeError);
}

TEST_CASE("pad", "[rearrange]") {
  const Tensor x = arange(1, 7).view({2, 3});
  CHECK(values(pad(x, {1, 2}, Pad::constant, 9)) == V{9, 1, 2, 3, 9, 9, 9, 4, 5, 6, 9, 9});
  CHECK(values(pad(x, {0, 0, 1, 0})) == V{0, 0, 0, 1, 2, 3, 4, 5, 6});
  CHECK(values(pad(x, {-1, 1})) == V{2, 3, 0, 5, 6, 0});
  CHECK(values(pad(x, {2, 1}, Pad::reflect)) == V{3, 2, 1, 2, 3, 2, 6, 5, 4, 5, 6, 5});
  CHECK(values(pad(x, {2, 1}, Pad::replicate)) == V{1, 1, 1, 2, 3, 3, 4, 4, 4, 5, 6, 6});
  CHECK(values(pad(x, {2, 1, 0, 1}, Pad::circular)) ==
        V{2, 3, 1, 2, 3, 1, 5, 6, 4, 5, 6, 4, 2, 3, 1, 2, 3, 1});
  CHECK(values(pad(x, {3, 3}, Pad::circular).select(0, 0)) == V{1, 2, 3, 1, 2, 3, 1, 2, 3});
  CHECK(pad(x, {}).raw_data() != x.raw_data());
  CHECK(pad(x.t(), {1, 0}, Pad::replicate).shape() == Shape{3, 3});
  CHECK_THROWS_AS(pad(x, {1}), ValueError);
  CHECK_THROWS_AS(pad(x, {0, 0, 0, 0, 1, 1}), ValueError);
  CHECK_THROWS_AS(pad(x, {3, 0}, Pad::reflect), ValueError);
  CHECK_THROWS_AS(pad(x, {4, 0}, Pad::circular), ValueError);
  CHECK_THROWS_AS(pad(x, {-2, -2}), ValueError);
  CHECK_THROWS_AS(pad(x.to(u8), {1, 1}, Pad::constant, 300), ValueError);
}

TEST_CASE("what is rearranged has gradients of any order", "[rearrange]") {
  const GradcheckFunction f = [](std::span<const Tensor> in) {
    const Tensor& x = in[0];
    const Tensor y = x * x;
    return std::vector<Tensor>{flip(y, {0, 1}) * x,
                               roll(y, {1, -1}, {0, 1}) * x,
                               repeat(y, {2, 1, 2}),
                               repeat_interleave(y, tensor({2, 0, 1}), 0),
                               repeat_interleave(y, 3, 1),
                               tril(y, 1) * triu(x, -1),
                               diag_embed(y, 1, 0, 1),
                               y.diagonal(1) * 2,
                               y.unfold(1, 2, 1),
                               pad(y, {1, -1, 2, 0}),
                               pad(y, {2, 1, 1, 1}, Pad::reflect),
                               pad(y, {2, 1}, Pad::replicate),
                               pad(y, {0, 0, 1, 3}, Pad::circular)};
  };
  const std::vector<Tensor> inputs{randn({3, 4}, {.dtype = f64})};
  CHECK(gradcheck(f, inputs, {.all_devices = false}).message == "");
  CHECK(gradgradcheck(f, inputs, {.all_devices = false}).message == "");
}

TEST_CASE("what is rearranged is the same on both devices", "[rearrange][cuda]") {
  const Tensor x = arange(60 * 70).view({60, 70}), g = x.to(cuda(0));
  CHECK(values(flip(g, {0, 1})) == values(flip(x, {0, 1})));
  CHECK(values(roll(g, 17)) == values(roll(x, 17)));
  CHECK(values(repeat(g, {2, 1, 3})) == values(repeat(x, {2, 1, 3})));
  CHECK(values(repeat_interleave(g, arange(60).to(cuda(0)), 0)) ==
        values(repeat_interleave(x, arange(60), 0)));
  CHECK(values(tril(g, 3)) == values(tril(x, 3)));
  CHECK(values(diag_embed(g, -2)) == values(diag_embed(x, -2)));
  CHECK(values(g.diagonal(5)) == values(x.diagonal(5)));
  CHECK(values(g.unfold(1, 5, 2)) == values(x.unfold(1, 5, 2)));
  CHECK(values(one_hot(g.select(1, 0), 5000)) == values(one_hot(x.select(1, 0), 5000)));
  for (const Pad mode : {Pad::constant, Pad::reflect, Pad::replicate, Pad::circular})
    CHECK(values(pad(g, {3, 5, 20, 0}, mode)) == values(pad(x, {3, 5, 20, 0}, mode)));
}

TEST_CASE("flip of a long axis takes no index for each element", "[rearrange]") {
  for (const Shape& shape : {Shape{1 << 20}, Shape{(1 << 20) + 77}, Shape{3, 1 << 18, 2}, Shape{2, 100003}}) {
    const Tensor x = arange(numel(shape), {.dtype = i32}).view(shape).to(u8);
    const int axis = shape.size() > 1 ? 1 : 0;
    reset_peak_stats(cpu);
    const auto before = memory_stats(cpu).in_use;
    const Tensor y = flip(x, axis);
    INFO(shape);
    CHECK(memory_stats(cpu).peak_in_use - before < 4 * static_cast<std::size_t>(x.nbytes()));
    CHECK(equal(y, index_select(x, axis, (shape[axis] - 1) - arange(shape[axis]))));
  }
  const Tensor x = rand({2, 20003}).set_requires_grad(), w = rand({2, 20003});
  (flip(x, 1) * w).sum().backward();
  CHECK(equal(x.grad(), flip(w, {1})));
}
