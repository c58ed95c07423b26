#include <cotangent/cotangent.h>

#include <cmath>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {

using V = std::vector<double>;
using testing::values;
Tensor count(const Shape& shape) { return arange(1, numel(shape) + 1).to(f32).reshape(shape); }

}  // namespace

TEST_CASE("max_pool2d gives the largest of each window and its place", "[pooling]") {
  const Tensor x = tensor({1.f, 5.f, 2.f, 0.f, 3.f, 4.f, 7.f, 6.f}).reshape({1, 2, 4});
  const ValuesIndices all = max_pool2d_with_indices(x, 2);
  CHECK(values(all.values) == V{5, 7});
  CHECK(values(all.indices) == V{1, 6});
  CHECK(all.values.shape() == Shape{1, 1, 2});
  CHECK(values(max_pool2d(x, {1, 2}, {.stride = 1})) == V{5, 5, 2, 4, 7, 7});
  CHECK(values(max_pool2d(x, {1, 3}, {.stride = {1, 2}, .padding = {0, 1}})) == V{5, 5, 4, 7});
  CHECK(values(max_pool2d(x, {1, 2}, {.stride = 1, .dilation = {1, 3}})) == V{1, 6});
  CHECK(values(max_pool2d(x, {1, 3}, {.stride = {1, 2}})) == V{5, 7});
  CHECK(values(max_pool2d(x, {1, 3}, {.stride = {1, 2}, .ceil_mode = true})) == V{5, 2, 7, 7});
}

TEST_CASE("ceil_mode makes no window that begins in the padding", "[pooling]") {
  const Tensor x = count({1, 1, 3});
  // Begins at -1, 1 and 3: the last one would see padding alone.
  CHECK(values(max_pool2d(x, {1, 2}, {.stride = {1, 2}, .padding = {0, 1}, .ceil_mode = true})) == V{1, 3});
}

TEST_CASE("with ceil_mode a window may be larger than the padded image", "[pooling]") {
  const Tensor x = tensor({1.f, 4.f, 3.f, 2.f}).reshape({1, 2, 2});
  CHECK(values(max_pool2d(x, 3, {.stride = 2, .ceil_mode = true})) == V{4});
  CHECK(values(max_pool2d_with_indices(x, 3, {.stride = 2, .ceil_mode = true}).indices) == V{1});
  CHECK(values(avg_pool2d(x, 3, {.stride = 2, .ceil_mode = true})) == V{2.5});
  CHECK(values(avg_pool2d(x, 4, {.stride = 3, .padding = 1, .ceil_mode = true})) == V{10 / 16.});
  CHECK(values(max_pool1d(tensor({3.f, 1.f}).reshape({1, 2}), 4, {.stride = 3, .ceil_mode = true})) == V{3});
  const Tensor leaf = x.detach().set_requires_grad();
  max_pool2d(leaf, 3, {.stride = 2, .ceil_mode = true}).sum().backward();
  CHECK(values(leaf.grad()) == V{0, 1, 0, 0});
  CHECK_THROWS_AS(max_pool2d(x, 4, {.stride = 2, .ceil_mode = true}), ShapeError);
  CHECK_THROWS_AS(max_pool2d(x, 3, {.stride = 2}), ShapeError);
}

TEST_CASE("of equal elements the first gets the gradient, a NaN wins", "[pooling]") {
  Tensor x = tensor({2.f, 2.f, 1.f, 2.f}).reshape({1, 2, 2}).detach().set_requires_grad();
  max_pool2d(x, 2).sum().backward();
  CHECK(values(x.grad()) == V{1, 0, 0, 0});
  const Tensor y = max_pool2d(tensor({1.f, NAN, 9.f, -INFINITY}).reshape({1, 1, 4}), {1, 2});
  CHECK(std::isnan(values(y)[0]));
  CHECK(values(y)[1] == 9);
  CHECK(values(max_pool2d_with_indices(full({1, 1, 2}, -INFINITY), {1, 2}).indices) == V{0});
}

TEST_CASE("an element in several windows gets the gradient of all that chose it", "[pooling]") {
  Tensor x = tensor({1.f, 9.f, 2.f, 3.f}).reshape({1, 1, 4}).detach().set_requires_grad();
  max_pool2d(x, {1, 2}, {.stride = 1}).backward(tensor({1.f, 10.f, 100.f}).reshape({1, 1, 3}));
  CHECK(values(x.grad()) == V{0, 11, 0, 100});
}

TEST_CASE("a window between all elements gives minus infinity and takes no gradient", "[pooling]") {
  Tensor x = count({1, 1, 4}).set_requires_grad();
  // Its two elements lie at -1 and 4.
  const ValuesIndices all = max_pool2d_with_indices(x, {1, 2}, {.padding = {0, 1}, .dilation = {1, 5}});
  CHECK(values(all.values) == V{-INFINITY});
  CHECK(values(all.indices) == V{-1});
  all.values.sum().backward();
  CHECK(values(x.grad()) == V{0, 0, 0, 0});
}

TEST_CASE("avg_pool2d divides by what its options say", "[pooling]") {
  const Tensor x = count({1, 2, 3});  // 1 2 3 / 4 5 6
  CHECK(values(avg_pool2d(x, {2, 3})) == V{3.5});
  CHECK(values(avg_pool2d(x, {2, 1})) == V{2.5, 3.5, 4.5});
  CHECK(values(avg_pool2d(x, 2, {.stride = 2, .padding = {0, 1}})) == V{1.25, 4});
  CHECK(values(avg_pool2d(x, 2, {.stride = 2, .padding = {0, 1}, .count_include_pad = false})) == V{2.5, 4});
  CHECK(values(avg_pool2d(x, {2, 3}, {.divisor_override = 2})) == V{10.5});
  // The last window reaches over the end: what lies beyond is not counted.
  CHECK(values(avg_pool2d(x, {1, 2}, {.ceil_mode = true})) == V{1.5, 3, 4.5, 6});
  Tensor leaf = count({1, 2, 3}).set_requires_grad();
  avg_pool2d(leaf, {1, 2}, {.stride = 1}).backward(tensor({2.f, 4.f, 6.f, 8.f}).reshape({1, 2, 2}));
  CHECK(values(leaf.grad()) == V{1, 3, 2, 3, 7, 4});
}

TEST_CASE("adaptive pools share out the elements as evenly as can be", "[pooling]") {
  const Tensor x = count({1, 1, 5});
  CHECK(values(adaptive_avg_pool2d(x, {1, 2})) == V{2, 4});  // [0, 3) and [2, 5)
  CHECK(values(adaptive_max_pool2d(x, {1, 3})) == V{2, 4, 5});
  CHECK(values(adaptive_avg_pool2d(x, 1)) == V{3});
  CHECK(values(adaptive_avg_pool1d(x[0].unsqueeze(0), 5)) == V{1, 2, 3, 4, 5});
  CHECK(values(adaptive_max_pool1d(x[0], 1)) == V{5});
  CHECK_THROWS_AS(adaptive_avg_pool2d(x, 0), ValueError);
}

TEST_CASE("pools of one axis", "[pooling]") {
  const Tensor x = count({1, 2, 4});
  CHECK(max_pool1d(x, 2).shape() == Shape{1, 2, 2});
  CHECK(values(max_pool1d(x, 2)) == V{2, 4, 6, 8});
  CHECK(values(max_pool1d(x[0], 3, {.stride = 1, .padding = 1})) == V{2, 3, 4, 4, 6, 7, 8, 8});
  CHECK(values(avg_pool1d(x, 2, {.stride = 2, .padding = 1})) == V{0.5, 2.5, 2, 2.5, 6.5, 4});
  CHECK_THROWS_AS(max_pool1d(count({4}), 2), ShapeError);
  CHECK_THROWS_AS(avg_pool1d(count({1, 1, 1, 4}), 2), ShapeError);
}

TEST_CASE("pools of many images on CUDA agree with the CPU", "[pooling][cuda]") {
  const Tensor x = randn({70, 1000, 5, 4}), g = randn({70, 1000, 3, 2});  // more images than a grid is high
  const auto run = [&](Device device, bool largest) {
    Tensor leaf = x.to(device).detach().set_requires_grad();
    const Tensor y = largest ? max_pool2d(leaf, 2, {.stride = 2, .ceil_mode = true})
                             : avg_pool2d(leaf, 2, {.stride = 2, .ceil_mode = true});
    y.backward(g.to(device));
    return std::array{values(y), values(leaf.grad())};
  };
  for (const bool largest : {true, false}) CHECK((run(cpu, largest) == run(cuda(0), largest)));
}

TEST_CASE("on CUDA the same of equal elements wins, and the last NaN", "[pooling][cuda]") {
  const Tensor few = randint(0, 4, {3, 5, 11, 14}).to(f32), x = where(few > 2, NAN, few);
  const MaxPool2dOptions options[] = {{.stride = 2, .padding = 1},
                                      {.stride = {1, 3}, .padding = {0, 1}, .dilation = {2, 3}},
                                      {.stride = 3, .ceil_mode = true}};
  for (const Size2d kernel : {Size2d(3), Size2d(2, 3), Size2d(4, 2)})
    for (const MaxPool2dOptions& o : options)
      for (const DType dtype : {f32, f64, f16, bf16})
        CHECK(values(max_pool2d_with_indices(x.to(dtype), kernel, o).indices) ==
              values(max_pool2d_with_indices(x.to(cuda(0), dtype), kernel, o).indices));
}
