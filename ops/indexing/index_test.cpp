#include <cotangent/ops/indexing/index.h>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/testing/gradcheck.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;
using Catch::Contains;

namespace {
using V = std::vector<double>;
using testing::values;
}  // namespace

TEST_CASE("numbers, slices, None and Ellipsis give views", "[index]") {
  const Tensor x = arange(24).view({2, 3, 4});
  CHECK(values(x.index({1, Slice(0, 2), -1})) == V{15, 19});
  CHECK(values(x.index({Ellipsis, 2})) == values(x.select(2, 2)));
  CHECK(values(x.index({0, Ellipsis, Slice(None, None, 3)})) == V{0, 3, 4, 7, 8, 11});
  CHECK(x.index({None, Ellipsis, None}).shape() == Shape{1, 2, 3, 4, 1});
  CHECK(x.index({Slice(), None, 1}).shape() == Shape{2, 1, 4});
  CHECK(values(x.index({Slice(-1, None), 0, Slice(None, -2)})) == V{12, 13});
  CHECK(x.index({}).shape() == x.shape());
  CHECK(x.index({1, 2, 3}).item<int>() == 23);
  CHECK(x.index({Slice(5, 9)}).shape() == Shape{0, 3, 4});
  CHECK(x.index({1, Slice(0, 2)}).impl()->storage == x.impl()->storage);
  const std::vector<TensorIndex> list{0, indexing::Slice(1)};
  CHECK(x.index(list).shape() == Shape{2, 4});
  Tensor y = zeros({2, 3});
  y.index({Slice(), 1}) = tensor({5., 6.});
  y.index({1, Slice(2, None)}) = 7;
  CHECK(values(y) == V{0, 5, 0, 0, 6, 7});
}

TEST_CASE("an index that takes all is a view, and not the tensor itself", "[index]") {
  for (const Tensor& x : {ones({2, 3}, {.requires_grad = true}), ones({}, {.requires_grad = true}),
                          ones({3, 2}, {.requires_grad = true}).t()}) {
    for (const bool dots : {false, true}) {
      const Tensor view = dots ? x.index({Ellipsis}) : x.index({});
      CHECK_FALSE(view.is_same(x));
      CHECK(view.impl()->storage == x.impl()->storage);
      CHECK(view.strides() == x.strides());
      int calls = 0;
      view.register_hook([&](const Tensor& g) {
        ++calls;
        return g;
      });
      (x * 2).sum().backward();
      CHECK(calls == 0);
    }
  }
  const Tensor number = ones({}, {.requires_grad = true});
  CHECK_FALSE(number.movedim(0, 0).is_same(number));
}

TEST_CASE("tensors name elements together", "[index]") {
  const Tensor x = arange(12).view({3, 4});
  const Tensor rows = tensor({2, 0, -1}), columns = tensor({1, -4, 3}).to(i32);
  CHECK(values(x.index({rows})) == V{8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11});
  CHECK(values(x.index({rows, columns})) == V{9, 0, 11});
  CHECK(values(x.index({Slice(1, None), columns})) == V{5, 4, 7, 9, 8, 11});
  CHECK(values(x.index({rows.view({3, 1}), tensor({0, 1})})) == V{8, 9, 0, 1, 8, 9});
  CHECK(x.index({rows.view({3, 1}), tensor({0, 1})}).shape() == Shape{3, 2});
  CHECK(x.index({zeros({0}, {.dtype = i64})}).shape() == Shape{0, 4});
  CHECK(values(x.t().index({tensor({1, 2}), tensor({0, 2})})) == V{1, 10});
  CHECK(values(x.index({tensor(2), Slice(0, 2)})) == V{8, 9});
}

TEST_CASE("the axes of tensors come where they were, or first if they are apart", "[index]") {
  const Tensor x = arange(2 * 3 * 4 * 5).view({2, 3, 4, 5}), i = tensor({0, 1, 1}), two = tensor({{0}, {1}});
  CHECK(x.index({Slice(), i, i}).shape() == Shape{2, 3, 5});
  CHECK(x.index({Slice(), i, two}).shape() == Shape{2, 2, 3, 5});
  CHECK(x.index({i, Slice(), i}).shape() == Shape{3, 3, 5});
  CHECK(x.index({Slice(), i, Slice(), two}).shape() == Shape{2, 3, 2, 4});
  CHECK(x.index({i, None, i}).shape() == Shape{3, 1, 4, 5});
  // A number is no tensor: it selects first, and what it stood between become neighbours.
  CHECK(x.index({Slice(), i, 0, i}).shape() == Shape{2, 3});
  CHECK(x.index({Slice(), tensor(0), Slice(), i}).shape() == Shape{2, 4, 3});
  const Tensor y = x.index({i, Slice(), i});
  for (int k = 0; k < 3; ++k)
    CHECK(values(y.select(0, k)) == values(x.select(0, k > 0 ? 1 : 0).select(1, k > 0 ? 1 : 0)));
  const Tensor z = x.index({Slice(), i, two});
  for (int r = 0; r < 2; ++r)
    for (int k = 0; k < 3; ++k)
      CHECK(values(z.select(1, r).select(1, k)) == values(x.select(1, k > 0 ? 1 : 0).select(1, r)));
}

TEST_CASE("masks stand for the indices of what is true", "[index]") {
  const Tensor x = arange(12).view({3, 4});
  CHECK(values(x.index({gt(x, 8)})) == V{9, 10, 11});
  CHECK(values(x.index({tensor({true, false, true}), 1})) == V{1, 9});
  CHECK(values(x.index({Slice(), tensor({false, true, false, true})})) == V{1, 3, 5, 7, 9, 11});
  CHECK(values(x.index({tensor({true, false, true}), tensor({3, 0})})) == V{3, 8});
  CHECK(x.index({tensor(true)}).shape() == Shape{1, 3, 4});
  CHECK(x.index({tensor(false)}).shape() == Shape{0, 3, 4});
  CHECK(values(arange(8).view({2, 2, 2}).index({Ellipsis, tensor({{true, false}, {false, true}})})) ==
        V{0, 3, 4, 7});
}

TEST_CASE("index_put_ writes what index reads", "[index]") {
  Tensor x = zeros({3, 4});
  x.index_put_({tensor({2, 0}), Slice(1, 3)}, tensor({{1., 2.}, {3., 4.}}));
  CHECK(values(x) == V{0, 3, 4, 0, 0, 0, 0, 0, 0, 1, 2, 0});
  x.index_put_({tensor({0, 0, -1}), tensor({0, 0, 3})}, tensor({5., 6., 7.}));
  CHECK(values(x) == V{6, 3, 4, 0, 0, 0, 0, 0, 0, 1, 2, 7});
  x.index_put_({tensor({0, 0}), tensor({0, 0})}, 1, true);
  CHECK(values(x)[0] == 8);
  x.index_put_({gt(x, 3)}, 9);
  CHECK(values(x) == V{9, 3, 9, 0, 0, 0, 0, 0, 0, 1, 2, 9});
  x.index_put_({1}, tensor({1, 2, 3, 4}));
  x.index_put_({1, Slice(0, 2)}, 10, true);
  CHECK(values(x.select(0, 1)) == V{11, 12, 3, 4});
  // Axes that are apart, of a tensor whose memory no view joins.
  Tensor wide = zeros({2, 3, 2});
  wide.index_put_({tensor({0, 1}), Slice(), tensor({1, 0})}, tensor({{1., 2., 3.}, {4., 5., 6.}}));
  CHECK(values(wide) == V{0, 1, 0, 2, 0, 3, 4, 0, 5, 0, 6, 0});
  Tensor turned = zeros({2, 3}).t();
  turned.index_put_({tensor({0, 2}), tensor({1, 0})}, tensor({1., 2.}));
  CHECK(values(turned) == V{0, 1, 0, 0, 2, 0});
  CHECK(values(index_put(zeros({2}), {tensor({1, 1})}, tensor({3., 4.}), true)) == V{0, 7});
}

TEST_CASE("index and index_put_ are on the tape", "[index]") {
  Tensor x = tensor({{1., 2.}, {3., 4.}}).set_requires_grad();
  x.index({tensor({1, 1}), tensor({0, 0})}).backward(tensor({1., 2.}));
  CHECK(values(x.grad()) == V{0, 0, 3, 0});
  x.set_grad({});
  Tensor v = tensor({5., 6.}).set_requires_grad();
  Tensor y = x * 1;
  y.index_put_({Slice(), tensor({1})}, v.view({2, 1}));
  CHECK(values(y) == V{1, 5, 3, 6});
  sum(y * y).backward();
  CHECK(values(x.grad()) == V{2, 0, 6, 0});
  CHECK(values(v.grad()) == V{10, 12});
  y = x * 1;
  y.index_put_({0}, v);
  CHECK(values(y) == V{5, 6, 3, 4});
  CHECK_THROWS_AS(x.index_put_({0}, v), AutogradError);
  const GradcheckFunction f = [](std::span<const Tensor> in) {
    const Tensor i = tensor({2, 0, 2}), m = tensor({true, false, true, true});
    return std::vector<Tensor>{in[0].index({i, Slice(1, None)}) * in[0].index({i, Slice(0, 3)}),
                               index_put(in[0], {i, m}, in[1], true) * 2};
  };
  const std::vector<Tensor> inputs{randn({3, 4}, {.dtype = f64}), randn({3}, {.dtype = f64})};
  CHECK(gradcheck(f, inputs, {.all_devices = false}).message == "");
  CHECK(gradgradcheck(f, inputs, {.all_devices = false}).message == "");
}

TEST_CASE("indices that do not fit are refused", "[index]") {
  const Tensor x = arange(12).view({3, 4});
  CHECK_THROWS_WITH(x.index({3}),
                    "[index] index 3 is out of range for an axis of size 3; indices must lie in [-3, 3)");
  CHECK_THROWS_WITH(x.index({Slice(), tensor({0, -5})}),
                    "[index] index -5 is out of range for an axis of size 4; indices must lie in [-4, 4)");
  CHECK_THROWS_WITH(x.index({0, 0, 0}), Contains("indices for 3 axes"));
  CHECK_THROWS_WITH(x.index({Ellipsis, Ellipsis}), Contains("there can be one"));
  CHECK_THROWS_AS(x.index({tensor({true, false})}), IndexError);
  CHECK_THROWS_AS(x.index({tensor({0.5})}), DTypeError);
  CHECK_THROWS_AS(x.index({tensor({0, 1}), tensor({0, 1, 2})}), ShapeError);
  CHECK_THROWS_AS(x.index({Slice(0, 3, 0)}), ValueError);
  Tensor y = x.clone();
  CHECK_THROWS_AS(y.index_put_({tensor({0, 9})}, 1), IndexError);
  CHECK_THROWS_AS(y.index_put_({0}, zeros({3})), ShapeError);
  CHECK(values(y) == values(x));
}

TEST_CASE("indices mean the same on both devices", "[index][cuda]") {
  const Tensor x = arange(7 * 60 * 50).view({7, 60, 50}), on_gpu = x.to(cuda(0));
  Tensor i = Tensor::allocate({300}, i64, cpu), j = Tensor::allocate({2, 300}, i64, cpu);
  for (std::int64_t k = 0; k < 300; ++k) i.data<std::int64_t>()[k] = k * k % 14 - 7;
  for (std::int64_t k = 0; k < 600; ++k) j.data<std::int64_t>()[k] = k * 31 % 100 - 50;
  const Tensor mask = eq(x.select(2, 3).select(0, 0) - 3, x.select(2, 0).select(0, 0));
  const auto same = [&](const TensorIndices& indices, const TensorIndices& theirs) {
    CHECK(values(on_gpu.index(theirs)) == values(x.index(indices)));
    Tensor a = x.clone(), b = on_gpu.clone();
    const Tensor some = arange(x.index(indices).numel()).view(x.index(indices).shape());
    a.index_put_(indices, some), b.index_put_(theirs, some.to(cuda(0)));
    CHECK(values(a) == values(b));
    a.index_put_(indices, some, true), b.index_put_(theirs, some.to(cuda(0)), true);
    CHECK(values(a) == values(b));
  };
  const Tensor gi = i.to(cuda(0)), gj = j.to(cuda(0)), gmask = mask.to(cuda(0));
  same({i}, {gi});
  same({i, Slice(3, 50, 2), j}, {gi, Slice(3, 50, 2), gj});
  same({Slice(), i, j}, {Slice(), gi, gj});
  same({Slice(), mask, 4}, {Slice(), gmask, 4});
  same({Ellipsis, i}, {Ellipsis, i});  // indices on the CPU
  const Tensor bad = on_gpu.index({tensor({0, 7}).to(cuda(0))});
  CHECK_THROWS_WITH(synchronize(cuda(0)),
                    "[index] index 7 is out of range for an axis of size 7; indices must lie in [-7, 7)");
}
