#include <cotangent/ops/indexing/indexing.h>

#include <cstring>

#include <cotangent/autograd/engine.h>
#include <cotangent/core/device/parallel.h>
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
Tensor whole(const Shape& shape, int modulus, DType dtype = f32) {
  Tensor t = Tensor::allocate(shape, f64, cpu);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = static_cast<double>((i * 7919) % modulus - modulus / 2);
  return t.to(dtype);
}
Tensor spread_index(const Shape& shape, std::int64_t limit) {
  Tensor t = Tensor::allocate(shape, i64, cpu);
  for (std::int64_t i = 0; i < t.numel(); ++i) t.data<std::int64_t>()[i] = (i * i + 3 * i) % limit;
  return t;
}
bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(cpu).contiguous(), y = b.to(cpu).contiguous();
  return x.dtype() == y.dtype() && x.shape() == y.shape() &&
         std::memcmp(x.raw_data(), y.raw_data(), static_cast<std::size_t>(x.nbytes())) == 0;
}
}  // namespace

TEST_CASE("index_select takes slices along an axis", "[indexing]") {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  CHECK(values(index_select(x, 0, tensor({1, 1, 0}))) == V{4, 5, 6, 4, 5, 6, 1, 2, 3});
  CHECK(values(index_select(x, -1, tensor({2, 0}).to(i32))) == V{3, 1, 6, 4});
  CHECK(index_select(x, 1, tensor(2)).shape() == Shape{2, 1});
  CHECK(index_select(x, 1, zeros({0}, {.dtype = i64})).shape() == Shape{2, 0});
  CHECK(values(index_select(x.t(), 0, tensor({2}))) == V{3, 6});
  CHECK(index_select(tensor(5), 0, tensor({0})).shape() == Shape{});
  CHECK(index_select(tensor({true, false}), 0, tensor({1, 0})).to_vector<bool>() ==
        std::vector<bool>{false, true});
}

TEST_CASE("gather takes an element by each index", "[indexing]") {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  CHECK(values(gather(x, 1, tensor({{2, 0}, {1, 1}}))) == V{3, 1, 5, 5});
  CHECK(values(gather(x, 0, tensor({{1, 0}}))) == V{4, 2});
  CHECK(values(gather(x, 0, tensor({{1, 0, 1}, {0, 0, 0}, {1, 1, 1}}))) == V{4, 2, 6, 1, 2, 3, 4, 5, 6});
  CHECK(values(take_along_dim(x, tensor({{2}, {0}}), 1)) == V{3, 4});
  CHECK(values(take_along_dim(x, tensor({{1, 0}}), 1)) == V{2, 1, 5, 4});
  CHECK(values(take_along_dim(x.narrow(0, 0, 1), tensor({{2}, {0}}), 1)) == V{3, 1});
  CHECK(values(take_along_dim(x, tensor({5, 0}))) == V{6, 1});
  CHECK(gather(tensor(7), 0, tensor(0)).item<int>() == 7);
}

TEST_CASE("index_add and scatter_add add up what names one place", "[indexing]") {
  const Tensor x = tensor({{1., 2.}, {3., 4.}, {5., 6.}}), s = tensor({{10., 20.}, {30., 40.}, {50., 60.}});
  CHECK(values(index_add(x, 0, tensor({2, 0, 2}), s)) == V{31, 42, 3, 4, 65, 86});
  CHECK(values(index_add(x, 0, tensor({2, 0, 2}), s, 0.5)) == V{16, 22, 3, 4, 35, 46});
  CHECK(values(index_add(x, 1, tensor({1, 1}), s.narrow(0, 0, 3))) == V{1, 32, 3, 74, 5, 116});
  CHECK(values(scatter_add(x, 0, tensor({{2, 0}, {2, 1}}), s)) == V{1, 22, 3, 44, 45, 6});
  CHECK(values(scatter_add(x, 1, tensor({{1}, {0}, {1}}), s)) == V{1, 12, 33, 4, 5, 56});
  Tensor y = x.clone();
  CHECK(&index_add_(y, 0, tensor({0}), s.narrow(0, 1, 1)) == &y);
  CHECK(values(y) == V{31, 42, 3, 4, 5, 6});
  scatter_add_(y, -1, tensor({{0, 0}}), s);
  CHECK(values(y) == V{61, 42, 3, 4, 5, 6});
  CHECK(values(x) == V{1, 2, 3, 4, 5, 6});
  // Columns of a matrix are changed where they lie, and the source may be the tensor itself.
  Tensor column = y.select(1, 0);
  index_add_(column, 0, tensor({0, 0, 0}), column);
  CHECK(values(y) == V{130, 42, 3, 4, 5, 6});
  Tensor turned = tensor({1., 2.});
  index_add_(turned, 0, tensor({1, 0}), turned);
  CHECK(values(turned) == V{3, 3});
  // Integers wrap.
  CHECK(values(index_add(tensor({200}).to(u8), 0, tensor({0}), tensor({100}).to(u8))) == V{44});
  CHECK(values(index_add(tensor({2, 1}).to(i32), 0, tensor({1, 1}), tensor({5, 7}).to(i32))) == V{2, 13});
}

TEST_CASE("16-bit sums are rounded once", "[indexing]") {
  // 1 + 1/2048 + 1/2048 in f16, whose numbers are 1/1024 apart there: one by one both would be lost.
  const Tensor x = tensor({1.0}).to(f16), s = full({2}, 1.0 / 2048, {.dtype = f16});
  CHECK(index_add(x, 0, tensor({0, 0}), s).item() == 1 + 1.0 / 1024);
  CHECK(scatter_add(x, 0, tensor({0, 0}), s).item() == 1 + 1.0 / 1024);
}

TEST_CASE("index_copy and scatter let the last writer win", "[indexing]") {
  const Tensor x = tensor({{1., 2.}, {3., 4.}, {5., 6.}}), s = tensor({{10., 20.}, {30., 40.}});
  CHECK(values(index_copy(x, 0, tensor({2, 0}), s)) == V{30, 40, 3, 4, 10, 20});
  CHECK(values(index_copy(x, 0, tensor({1, 1}), s)) == V{1, 2, 30, 40, 5, 6});
  CHECK(values(scatter(x, 0, tensor({{2, 0}, {2, 1}}), s)) == V{1, 20, 3, 40, 30, 6});
  CHECK(values(scatter(x, 1, tensor({{1, 1}, {0, 0}}), s)) == V{1, 20, 40, 4, 5, 6});
  CHECK(values(scatter(x, 1, tensor({{1}, {0}, {1}}), 7)) == V{1, 7, 7, 4, 5, 7});
  Tensor y = x.clone();
  scatter_(index_copy_(y, 1, tensor({0}), tensor({{7.}, {8.}, {9.}})), 0, tensor({{2}}), -1);
  CHECK(values(y) == V{7, 2, 8, 4, -1, 6});
  CHECK_THROWS_WITH(scatter(tensor({1}).to(u8), 0, tensor({0}), 300), Contains("does not fit into u8"));
}

TEST_CASE("gradients go where elements went", "[indexing]") {
  Tensor x = tensor({{1., 2.}, {3., 4.}}).set_requires_grad();
  index_select(x, 0, tensor({1, 1})).backward(tensor({{1., 2.}, {10., 20.}}));
  CHECK(values(x.grad()) == V{0, 0, 11, 22});
  x.set_grad({});
  gather(x, 1, tensor({{0, 0, 1}})).backward(tensor({{1., 2., 3.}}));
  CHECK(values(x.grad()) == V{3, 3, 0, 0});
  // The last of two writers gets the gradient, and the elements they overwrite get none.
  x.set_grad({});
  Tensor s = tensor({{5., 6.}, {7., 8.}}).set_requires_grad();
  index_copy(x, 0, tensor({1, 1}), s).backward(tensor({{1., 2.}, {3., 4.}}));
  CHECK(values(x.grad()) == V{1, 2, 0, 0});
  CHECK(values(s.grad()) == V{0, 0, 3, 4});
  x.set_grad({}), s.set_grad({});
  scatter(x, 1, tensor({{1, 1}, {0, 1}}), s).backward(tensor({{1., 2.}, {3., 4.}}));
  CHECK(values(x.grad()) == V{1, 0, 0, 0});
  CHECK(values(s.grad()) == V{0, 2, 3, 4});
  // In place on the tape.
  x.set_grad({}), s.set_grad({});
  Tensor y = x * 2;
  index_add_(y, 0, tensor({0, 0}), s, 3);
  sum(y * y).backward();  // y = {38, 46, 6, 8}
  CHECK(values(x.grad()) == V{152, 184, 24, 32});
  CHECK(values(s.grad()) == V{228, 276, 228, 276});
}

TEST_CASE("bad indices are refused before anything is written", "[indexing]") {
  Tensor x = tensor({1., 2., 3.});
  CHECK_THROWS_WITH(index_add_(x, 0, tensor({0, 3}), tensor({1., 1.})),
                    "[index_add] index 3 is out of range for an axis of size 3; indices must lie in [0, 3)");
  CHECK_THROWS_AS(scatter_(x, 0, tensor({0, -1}), 9), IndexError);
  CHECK(values(x) == V{1, 2, 3});
  CHECK_THROWS_AS(gather(x, 0, tensor({3})), IndexError);
  CHECK_THROWS_AS(index_select(zeros({0, 2}), 0, tensor({0})), IndexError);
  CHECK_THROWS_AS(index_add(tensor({true}), 0, tensor({0}), tensor({true})), DTypeError);
  CHECK_THROWS_AS(take_along_dim(x, tensor({{0}}), 0), ShapeError);
}

TEST_CASE("sums have the same bits for any number of threads", "[indexing]") {
  const Tensor x = randn({70, 300}, {.dtype = f16}), s = randn({900, 300}, {.dtype = f16}),
               i = spread_index({900}, 70);
  const Tensor e = spread_index({900, 300}, 70);
  const int threads = num_threads();
  Tensor first[2], second[2];
  set_num_threads(1);
  first[0] = index_add(x, 0, i, s), first[1] = scatter_add(x, 0, e, s);
  set_num_threads(3);
  second[0] = index_add(x, 0, i, s), second[1] = scatter_add(x, 0, e, s);
  const Tensor set = scatter(x, 0, e, s);
  set_num_threads(threads);
  CHECK(same_bits(first[0], second[0]));
  CHECK(same_bits(first[1], second[1]));
  CHECK(same_bits(set, scatter(x, 0, e, s)));
}

TEST_CASE("single elements are added in the order of their places, by any number of threads", "[indexing]") {
  const std::int64_t n = 600'000, count = 700'000;  // several parts of the table
  const Tensor x = randn({n}), s = randn({count}), i = spread_index({count}, n - 1);
  std::vector<float> into(x.data<float>(), x.data<float>() + n), gradient(static_cast<std::size_t>(n), 0.0f);
  for (std::int64_t q = 0; q < count; ++q) {
    into[static_cast<std::size_t>(i.data<std::int64_t>()[q])] += s.data<float>()[q];
    gradient[static_cast<std::size_t>(i.data<std::int64_t>()[q])] += s.data<float>()[q];
  }
  const int before = num_threads();
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    CHECK(same_bits(scatter_add(x, 0, i, s), from_vector(into, {n})));
    const Tensor leaf = x.clone().set_requires_grad();
    gather(leaf, 0, i).backward(s);
    CHECK(same_bits(leaf.grad(), from_vector(gradient, {n})));
  }
  set_num_threads(before);
}

TEST_CASE("both devices take, add and set alike", "[indexing][cuda]") {
  struct Case {
    Shape x;
    std::int64_t axis, places;
  };
  // Whole numbers, whose sums no order rounds; sizes of all kernels: narrow, general, vectors with 1, 3 and 4 loads.
  for (const DType dtype : {f32, f64, f16, bf16, i64, i32, u8})
    for (const Case& c : {Case{{40000}, 0, 70000}, Case{{3}, 0, 5000}, Case{{70, 15}, 0, 3000},
                          Case{{70, 17}, 0, 900}, Case{{70, 128}, 0, 900}, Case{{70, 384}, 0, 300},
                          Case{{30, 1024}, 0, 700}, Case{{5, 40, 33}, 1, 300}, Case{{33, 700}, 1, 900}}) {
      INFO(name(dtype) << ' ' << c.x << " axis " << c.axis);
      Shape shape = c.x;
      shape[static_cast<int>(c.axis)] = c.places;
      const std::int64_t n = c.x[static_cast<int>(c.axis)];
      const bool tiny = dtype == u8 || dtype == bf16;
      const Tensor x = whole(c.x, tiny ? 3 : 17, dtype), s = whole(shape, tiny ? 2 : 5, dtype);
      const Tensor i = spread_index({c.places}, n), e = spread_index(shape, n);
      const Tensor gx = x.to(cuda(0)), gs = s.to(cuda(0)), gi = i.to(cuda(0)), ge = e.to(cuda(0)).to(i32);
      CHECK(same_bits(index_select(gx, c.axis, gi), index_select(x, c.axis, i)));
      CHECK(same_bits(gather(gx, c.axis, ge), gather(x, c.axis, e)));
      CHECK(same_bits(index_add(gx, c.axis, gi, gs), index_add(x, c.axis, i, s)));
      CHECK(same_bits(scatter_add(gx, c.axis, ge, gs), scatter_add(x, c.axis, e, s)));
      CHECK(same_bits(index_copy(gx, c.axis, gi, gs), index_copy(x, c.axis, i, s)));
      CHECK(same_bits(scatter(gx, c.axis, ge, gs), scatter(x, c.axis, e, s)));
    }
}

TEST_CASE("sums on CUDA have the same bits in every run", "[indexing][cuda]") {
  for (const DType dtype : {f32, f16}) {
    const Tensor x = randn({100, 256}, {.dtype = dtype, .device = cuda(0)}),
                 s = randn({20000, 256}, {.dtype = dtype, .device = cuda(0)});
    const Tensor i = spread_index({20000}, 100).to(cuda(0)), e = spread_index({20000, 256}, 100).to(cuda(0));
    const Tensor added = index_add(x, 0, i, s), scattered = scatter_add(x, 0, e, s);
    for (int run = 0; run < 3; ++run) {
      CHECK(same_bits(index_add(x, 0, i, s), added));
      CHECK(same_bits(scatter_add(x, 0, e, s), scattered));
    }
  }
}

TEST_CASE("rows wider than a grid are added in parts", "[indexing][cuda]") {
  const Tensor x = whole({2, (1 << 20) + 7}, 17), s = whole({3, (1 << 20) + 7}, 5), i = tensor({1, 0, 1});
  CHECK(same_bits(index_add(x.to(cuda(0)), 0, i.to(cuda(0)), s.to(cuda(0))), index_add(x, 0, i, s)));
}

TEST_CASE("a bad index on CUDA is reported when the host waits, and writes nothing", "[indexing][cuda]") {
  Tensor x = tensor({1., 2., 3.}).to(cuda(0));
  const Tensor i = tensor({0, 3}).to(cuda(0)), s = tensor({10., 20.}).to(cuda(0));
  index_add_(x, 0, i, s);
  CHECK_THROWS_WITH(synchronize(cuda(0)),
                    "[index_add] index 3 is out of range for an axis of size 3; indices must lie in [0, 3)");
  CHECK(values(x) == V{11, 2, 3});
  scatter_(x, 0, i, s);
  CHECK_THROWS_AS(synchronize(cuda(0)), IndexError);
  CHECK(values(x) == V{10, 2, 3});
  const Tensor taken = gather(x, 0, i);
  CHECK_THROWS_AS(synchronize(cuda(0)), IndexError);
  CHECK(values(taken) == V{10, 0});
}
