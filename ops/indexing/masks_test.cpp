#include <cotangent/ops/indexing/masks.h>

#include <limits>

#include <cotangent/autograd/engine.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;
using Catch::Contains;

namespace {
using V = std::vector<double>;
using testing::values;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
}  // namespace

TEST_CASE("nonzero lists indices row by row", "[masks]") {
  const Tensor x = tensor({{0., 3., -0.}, {kNan, 0., 1e-30}});
  CHECK(nonzero(x).shape() == Shape{3, 2});
  CHECK(values(nonzero(x)) == V{0, 1, 1, 0, 1, 2});
  CHECK(values(nonzero(x.t())) == V{0, 1, 1, 0, 2, 1});
  CHECK(nonzero(zeros({4, 2, 3})).shape() == Shape{0, 3});
  CHECK(nonzero(zeros({0, 2})).shape() == Shape{0, 2});
  CHECK(nonzero(tensor(5)).shape() == Shape{1, 0});
  CHECK(nonzero(tensor(0)).shape() == Shape{0, 0});
  CHECK(values(nonzero(tensor({true, false, true}))) == V{0, 2});
  const std::vector<Tensor> at = where(gt(x, 0));
  REQUIRE(at.size() == 2);
  CHECK(values(at[0]) == V{0, 1});
  CHECK(values(at[1]) == V{1, 2});
  CHECK(values(where(tensor(true)).at(0)) == V{0});
}

TEST_CASE("masked_select takes what the mask chooses, and its gradient goes back there", "[masks]") {
  Tensor x = tensor({{1., 2., 3.}, {4., 5., 6.}}).set_requires_grad();
  const Tensor mask = tensor({{true, false, true}, {false, false, true}});
  const Tensor y = masked_select(x, mask);
  CHECK(values(y) == V{1, 3, 6});
  y.backward(tensor({10., 20., 30.}));
  CHECK(values(x.grad()) == V{10, 0, 20, 0, 0, 30});
  CHECK(values(masked_select(x, tensor({true, false, false}))) == V{1, 4});
  CHECK(values(masked_select(tensor({1., 2.}), tensor({{true}, {true}}))) == V{1, 2, 1, 2});
  CHECK(masked_select(x, tensor(false)).shape() == Shape{0});
  CHECK_THROWS_AS(masked_select(x, x), DTypeError);
  CHECK_THROWS_AS(masked_select(x, tensor({true, false})), ShapeError);
}

TEST_CASE("masked_fill writes a number where the mask is true", "[masks]") {
  Tensor x = tensor({1., 2., 3.}).set_requires_grad();
  const Tensor mask = tensor({true, false, true});
  CHECK(values(masked_fill(x, mask, -1)) == V{-1, 2, -1});
  Tensor value = tensor(7.).set_requires_grad();
  masked_fill(x, mask, value).backward(tensor({1., 2., 4.}));
  CHECK(values(x.grad()) == V{0, 2, 0});
  CHECK(value.grad().item() == 5);
  x.set_grad({});
  Tensor y = x * 2;
  masked_fill_(y, mask, 9);
  CHECK(values(y) == V{9, 4, 9});
  sum(y * y).backward();
  CHECK(values(x.grad()) == V{0, 16, 0});
  Tensor wide = zeros({2, 3});
  CHECK(values(masked_fill_(wide, mask, value.detach())) == V{7, 0, 7, 7, 0, 7});
  CHECK(masked_fill(tensor({1, 2, 3}), mask, 5).dtype() == i64);
  CHECK(masked_fill(tensor({true, true, true}), mask, false).to_vector<bool>() ==
        std::vector<bool>{false, true, false});
  CHECK_THROWS_AS(masked_fill(tensor({1, 2, 3}), mask, 0.5), DTypeError);
  CHECK_THROWS_WITH(masked_fill(tensor({1, 2, 3}).to(u8), mask, 300), Contains("[masked_fill]"));
  CHECK_THROWS_AS(masked_fill(x, mask, x), ShapeError);
  CHECK_THROWS_AS(masked_fill(x, x, 1), DTypeError);
  CHECK_THROWS_WITH(masked_fill_(y, tensor({{true}, {true}}), 1),
                    Contains("[masked_fill_] the mask does not"));
  const Tensor truth = tensor({true, false, true});
  CHECK(masked_fill(truth, truth, 0).dtype() == boolean);
  CHECK(values(masked_fill(truth, logical_not(truth), 2.5)) == V{1, 1, 1});
}

TEST_CASE("masked_scatter writes a source in order", "[masks]") {
  Tensor x = tensor({{1., 2.}, {3., 4.}}).set_requires_grad(),
         s = tensor({10., 20., 30.}).set_requires_grad();
  const Tensor mask = tensor({{false, true}, {true, false}});
  const Tensor y = masked_scatter(x, mask, s);
  CHECK(values(y) == V{1, 10, 20, 4});
  y.backward(tensor({{1., 2.}, {3., 4.}}));
  CHECK(values(x.grad()) == V{1, 0, 0, 4});
  CHECK(values(s.grad()) == V{2, 3, 0});
  Tensor z = zeros({2, 2});
  CHECK(values(masked_scatter_(z, tensor({true, false}), s.detach())) == V{10, 0, 20, 0});
  CHECK_THROWS_WITH(masked_scatter(x, tensor(true), s), Contains("the mask chooses 4 elements"));
}

TEST_CASE("masks choose the same on both devices", "[masks][cuda]") {
  for (const std::int64_t n : {1, 31, 4096, 4097, 1300007}) {
    Tensor x = Tensor::allocate({n}, i64, cpu);
    for (std::int64_t i = 0; i < n; ++i) x.data<std::int64_t>()[i] = (i * i + i / 7) % 5 < 2 ? 0 : i;
    INFO(n);
    const Tensor mask = ne(x, 0), on_gpu = mask.to(cuda(0));
    CHECK(values(nonzero(x.to(cuda(0)))) == values(nonzero(x)));
    CHECK(values(masked_select(x.to(cuda(0)), on_gpu)) == values(masked_select(x, mask)));
    CHECK(values(masked_scatter((x * 0).to(cuda(0)), on_gpu, x.to(cuda(0)))) ==
          values(masked_scatter(x * 0, mask, x)));
  }
  const Tensor x = arange(2 * 3 * 5 * 700).view({2, 3, 5, 700});
  const Tensor few = eq(x * x, x);
  CHECK(values(nonzero(few.to(cuda(0)))) == values(nonzero(few)));
  CHECK(values(nonzero(few.to(cuda(0)).transpose(0, 3))) == values(nonzero(few.transpose(0, 3))));
  CHECK(nonzero(zeros({5, 3}, {.device = cuda(0)})).shape() == Shape{0, 2});
  CHECK(nonzero(zeros({0, 3}, {.device = cuda(0)})).shape() == Shape{0, 2});
}
