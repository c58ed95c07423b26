#include <cotangent/ops/indexing/scatter_reduce.h>

#include <cmath>
#include <cstring>
#include <limits>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/functional.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/indexing/indexing.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/softmax/softmax.h>
#include <cotangent/ops/testing/gradcheck.h>

#include "tests/catch.h"
#include "tests/op_testing.h"
#include "tests/scatter_reduce_testing.h"

using namespace ct;
using Catch::Contains;

namespace {

using V = std::vector<double>;
using testing::values;
using R = ScatterReduce;
using testing::kReductions;
using testing::Outcome;
using testing::outcome;
using testing::word;

constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();
bool equal_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(cpu).contiguous(), y = b.to(cpu).contiguous();
  return x.dtype() == y.dtype() && x.shape() == y.shape() &&
         std::memcmp(x.raw_data(), y.raw_data(), static_cast<std::size_t>(x.nbytes())) == 0;
}
// Numbers of which some are equal; of `products` 1, -1 and rarely 2, whose products no order rounds.
Tensor numbers(const Shape& shape, DType dtype, bool products) {
  Tensor t = Tensor::allocate(shape, f64, cpu);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const auto n = static_cast<double>((i * 7919 + i * i % 11) % 13);
    t.data<double>()[i] = dtype == u8 ? (products ? 1 + (i % 97 == 0) : n)
                          : products  ? (n > 6 ? 1 : -1) * (i % 97 == 0 ? 2 : 1)
                                      : n - 6;
  }
  return t.to(dtype);
}
Tensor indices(const Shape& shape, std::int64_t limit) {
  Tensor t = Tensor::allocate(shape, i64, cpu);
  for (std::int64_t i = 0; i < t.numel(); ++i) t.data<std::int64_t>()[i] = (i * i + 3 * i) % limit;
  return t;
}

// The softmax of the elements of each segment: of those that have one number in `segment`.
Tensor segment_softmax(const Tensor& x, const Tensor& segment, std::int64_t segments) {
  const TensorOptions like{.dtype = x.dtype(), .device = x.device()};
  const Tensor most = scatter_reduce(full({segments}, -kInf, like), 0, segment, x, R::amax);
  const Tensor e = exp(x - gather(most, 0, segment).detach());
  return e / gather(scatter_reduce(zeros({segments}, like), 0, segment, e, R::sum), 0, segment);
}

TEST_CASE("index_reduce is scatter_reduce with the index expanded", "[indexing]") {
  for (const DType dtype : {f64, f32})
    for (const ScatterReduce kind : kReductions)
      for (const bool self : {true, false}) {
        INFO(word(kind) << self);
        const Tensor x = randn({3, 5, 4}, {.dtype = dtype}), s = randn({3, 7, 4}, {.dtype = dtype}),
                     g = randn({3, 5, 4}, {.dtype = dtype}), i = indices({7}, 5);
        const Tensor spread = i.view({7, 1}).expand({3, 7, 4}).contiguous();
        const Outcome a =
            outcome([&](auto& t, auto& u) { return index_reduce(t, -2, i, u, kind, self); }, x, s, g);
        const Outcome b =
            outcome([&](auto& t, auto& u) { return scatter_reduce(t, 1, spread, u, kind, self); }, x, s, g);
        CHECK(equal_bits(a.y, b.y));
        CHECK(equal_bits(a.dx, b.dx));
        CHECK(equal_bits(a.ds, b.ds));
      }
  // An index is read as it lies.
  const Tensor lying = tensor({{9, 9}, {9, 2}, {9, 0}, {9, 2}}).select(1, 1).narrow(0, 1, 3);
  for (const DType dtype : {f64, f32})
    CHECK(values(index_reduce(zeros({3}, {.dtype = dtype}), 0, lying, values({3}, {1, 2, 4}, dtype),
                              R::sum)) == V{2, 0, 5});
  CHECK(values(index_reduce(tensor(3.), 0, tensor({0}), tensor(4.), R::mean)) == V{3.5});
  CHECK(values(scatter_reduce(tensor(3.), -1, tensor(0), tensor(4.), R::amax)) == V{4});
  CHECK(values(index_reduce(tensor({{1., 2.}, {3., 4.}}), 1, tensor(0), tensor({{5.}, {1.}}), R::amax)) ==
        V{5, 2, 3, 4});
}

TEST_CASE("a source may be larger than the index, and empty ones change nothing", "[indexing]") {
  const Tensor x = tensor({{1., 2.}, {3., 4.}}), none = zeros({0, 2}, {.dtype = i64});
  CHECK(values(scatter_reduce(x, 0, tensor({{1}}), tensor({{7., 8.}, {9., 9.}}), R::amax)) == V{1, 2, 7, 4});
  for (const DType dtype : {f64, f32, i64, u8})
    for (const ScatterReduce kind : kReductions) {
      const Tensor t = x.to(dtype), empty = zeros({0, 2}, {.dtype = dtype});
      CHECK(equal_bits(scatter_reduce(t, 0, none, empty, kind, false), t));
      CHECK(equal_bits(index_reduce(t, 0, none.view({0}), empty, kind), t));
      CHECK(scatter_reduce(empty, 0, none, empty, kind).shape() == Shape{0, 2});
      CHECK(index_reduce(empty.t(), 0, tensor({1, 0}), empty.t(), kind).shape() == Shape{2, 0});
    }
  for (const DType dtype : {f64, f32}) {
    const Outcome o = outcome([&](auto& t, auto& s) { return scatter_reduce(t, 0, none, s, R::prod, false); },
                              x.to(dtype), zeros({0, 2}, {.dtype = dtype}), x.to(dtype));
    CHECK(values(o.dx) == V{1, 2, 3, 4});
    CHECK(o.ds.shape() == Shape{0, 2});
  }
}

TEST_CASE("in place x itself is reduced into", "[indexing]") {
  for (const DType dtype : {f64, f32, f16, i32}) {
    Tensor y = tensor({{1., 2.}, {3., 4.}}).to(dtype);
    const Tensor s = tensor({{5., 6.}}).to(dtype);
    CHECK(&scatter_reduce_(y, 0, tensor({{1, 0}}), s, R::sum) == &y);
    CHECK(values(y) == V{1, 8, 8, 4});
    CHECK(&index_reduce_(y, 0, tensor({0}), s, R::amin, false) == &y);
    CHECK(values(y) == V{5, 6, 8, 4});
    // A column where it lies, reduced into by itself.
    Tensor column = y.select(1, 0);
    index_reduce_(column, 0, tensor({1, 1}), column, R::prod, false);
    CHECK(values(y) == V{5, 6, 40, 4});
    Tensor turned = tensor({2., 3.}).to(dtype);
    scatter_reduce_(turned, 0, tensor({1, 0}), turned, R::prod);
    CHECK(values(turned) == V{6, 6});
  }
  // On the tape.
  Tensor x = tensor({2., 3.}).set_requires_grad(), s = tensor({4., 5.}).set_requires_grad();
  Tensor y = x * 1;
  scatter_reduce_(y, 0, tensor({0, 0}), s, R::prod);
  sum(y * tensor({1., 10.})).backward();
  CHECK(values(y) == V{40, 3});
  CHECK(values(x.grad()) == V{20, 10});
  CHECK(values(s.grad()) == V{10, 8});
}

TEST_CASE("integers wrap, and their mean is rounded down", "[indexing]") {
  const Tensor index = tensor({0, 1, 1});
  const V want[] = {{9, 0, 5}, {14, -84, 5}, {4, 0, 5}, {7, 4, 5}, {2, -7, 5}};
  for (const DType dtype : {i64, i32})
    for (const ScatterReduce kind : kReductions)
      CHECK(values(scatter_reduce(tensor({7, -7, 5}).to(dtype), 0, index, tensor({2, 3, 4}).to(dtype),
                                  kind)) == want[static_cast<int>(kind)]);
  CHECK(values(scatter_reduce(tensor({-7}), 0, tensor({0}), tensor({2}), R::mean)) == V{-3});
  CHECK(values(scatter_reduce(tensor({9}), 0, tensor({0, 0}), tensor({-3, -4}), R::mean, false)) == V{-4});
  CHECK(values(scatter_reduce(tensor({200}).to(u8), 0, tensor({0}), tensor({100}).to(u8), R::sum)) == V{44});
  CHECK(values(scatter_reduce(tensor({200}).to(u8), 0, tensor({0}), tensor({100}).to(u8), R::mean)) ==
        V{150});
  CHECK(values(scatter_reduce(tensor({65536}).to(i32), 0, tensor({0}), tensor({65537}).to(i32), R::prod)) ==
        V{65536});
  const std::int64_t large = std::int64_t{1} << 62;
  CHECK(scatter_reduce(tensor({large}), 0, tensor({0, 0}), tensor({large, large}), R::sum)
            .item<std::int64_t>() == -large);
  CHECK(scatter_reduce(tensor({5}), 0, tensor({0}), tensor({large}), R::amin, false).item<std::int64_t>() ==
        large);
  CHECK(scatter_reduce(tensor({5}), 0, tensor({0}), tensor({-large}), R::amax, false).item<std::int64_t>() ==
        -large);
}

TEST_CASE("a NaN is the extremum, and the gradient goes to all that win", "[indexing]") {
  for (const DType dtype : {f64, f32, f16, bf16})
    for (const ScatterReduce kind : {R::amax, R::amin}) {
      INFO(word(kind) << " in " << name(dtype));
      const auto of = [&](const V& v) { return values({static_cast<std::int64_t>(v.size())}, v, dtype); };
      const Outcome o = outcome(
          [&](auto& x, auto& s) {
            return scatter_reduce(x, 0, tensor({0, 1, 2, 3, 4}), s, kind);
          },
          of({1, kNan, 2, -kInf, kNan}), of({kNan, 3, 2, -kInf, kNan}), of({1, 2, 4, 8, 16}));
      testing::check(o.y, {kNan, kNan, 2, -kInf, kNan});
      CHECK(values(o.dx) == V{0, 2, 2, 4, 8});
      CHECK(values(o.ds) == V{1, 0, 2, 4, 8});
      // x's own element is no winner where it is none of the elements.
      const Outcome p = outcome(
          [&](auto& x, auto& s) {
            return index_reduce(x, 0, tensor({0, 0, 0}), s, kind, false);
          },
          of({5, 5}), of({5, 5, kind == R::amax ? 1. : 9.}), of({1, 1}));
      CHECK(values(p.y) == V{5, 5});
      CHECK(values(p.dx) == V{0, 1});
      CHECK(values(p.ds) == V{0.5, 0.5, 0});
    }
}

TEST_CASE("16 bits are rounded once, and products stay in range on the way", "[indexing]") {
  const Tensor at = tensor({0, 0, 0});
  // Numbers of f16 are 1/1024 apart there: one by one both additions would be lost. A sum beyond 65504 has a mean.
  CHECK(values(scatter_reduce(values({1}, {1}, f16), 0, at, values({3}, {1. / 2048, 1. / 2048, 0}, f16),
                              R::sum)) == V{1 + 1. / 1024});
  CHECK(values(scatter_reduce(values({1}, {60000}, f16), 0, at, values({3}, {60000, 60000, 60000}, f16),
                              R::mean)) == V{60000});
  const Outcome o = outcome([&](auto& x, auto& s) { return scatter_reduce(x, 0, at, s, R::prod); },
                            values({1}, {0x1p100}, f32), values({3}, {0x1p100, 0x1p-100, 0x1p-99}, f32),
                            values({1}, {1}, f32));
  CHECK(values(o.y) == V{2});
  CHECK(values(o.dx) == V{0x1p-99});
  CHECK(values(o.ds) == V{0x1p-99, 0x1p101, 0x1p100});
}

TEST_CASE("long products of f32 are those of f64", "[indexing]") {
  const Tensor x = testing::waves({3, 4}, 0, 0.1, 1), s = testing::waves({3000, 4}, 1, 0.1, 1),
               g = testing::waves({3, 4}, 2), i = indices({3000}, 3);
  const auto f = [&](const Tensor& a, const Tensor& b) { return index_reduce(a, 0, i, b, R::prod); };
  const Outcome wide = outcome(f, x, s, g), narrow = outcome(f, x.to(f32), s.to(f32), g.to(f32));
  for (const auto& [got, want] : {std::pair(narrow.y, wide.y), {narrow.dx, wide.dx}, {narrow.ds, wide.ds}})
    testing::check(got.to(f64) / want, V(static_cast<std::size_t>(want.numel()), 1.0), 1e-4);
}

TEST_CASE("what does not fit is refused", "[indexing]") {
  Tensor x = values({3}, {1, 2, 3});
  const Tensor s = values({2}, {1, 1});
  CHECK_THROWS_WITH(
      scatter_reduce_(x, 0, tensor({0, 3}), s, R::mean),
      "[scatter_reduce_mean] index 3 is out of range for an axis of size 3; indices must lie in [0, 3)");
  CHECK_THROWS_AS(index_reduce_(x, 0, tensor({0, -1}), s, R::amax, false), IndexError);
  CHECK(values(x) == V{1, 2, 3});
  CHECK_THROWS_AS(scatter_reduce(x.to(f32), 0, tensor({0, 3}), s.to(f32), R::prod), IndexError);
  CHECK_THROWS_AS(scatter_reduce(zeros({0, 2}), 0, tensor({{0, 0}}), zeros({1, 2}), R::sum), IndexError);
  CHECK_THROWS_AS(scatter_reduce(tensor({true}), 0, tensor({0}), tensor({true}), R::amax), DTypeError);
  CHECK_THROWS_AS(scatter_reduce(x, 0, tensor({0., 1.}), s, R::sum), DTypeError);
  CHECK_THROWS_AS(scatter_reduce(x, 0, tensor({0, 1}), s.to(f32), R::sum), DTypeError);
  CHECK_THROWS_WITH(
      index_reduce(x, 0, tensor({{0, 1}}), s, R::sum),
      Contains("[index_reduce] index is i64[1, 2]") && Contains("scatter_reduce() takes an index for each"));
  CHECK_THROWS_WITH(index_reduce(x, 0, tensor({0, 1}), x, R::sum),
                    Contains("[index_reduce] source is") && Contains("source must be [2]"));
  CHECK_THROWS_AS(index_reduce(tensor(1.), 0, tensor({0, 0}), tensor(1.), R::sum), ShapeError);
  CHECK_THROWS_AS(index_reduce(x, 1, tensor({0, 1}), s, R::sum), ShapeError);
  CHECK_THROWS_AS(scatter_reduce(x, 0, tensor({0, 1}), s, static_cast<ScatterReduce>(5)), ValueError);
  CHECK_THROWS_AS(index_reduce(x, 0, Tensor(), s, R::sum), Error);
  CHECK_THROWS_AS(scatter_reduce(Tensor(), 0, tensor({0, 1}), s, R::sum), Error);
}

TEST_CASE("reductions have the same bits for any number of threads", "[indexing]") {
  const int before = num_threads();
  for (const DType dtype : {f32, f16})
    for (const ScatterReduce kind : kReductions)
      for (const Shape& shape : {Shape{3000, 90}, Shape{200000}}) {
        INFO(word(kind) << " in " << name(dtype) << " of " << shape);
        Shape places = shape;
        places[0] = shape[0] * 3 / 2;
        const Tensor x = randn(shape, {.dtype = dtype}), s = randn(places, {.dtype = dtype}),
                     g = randn(shape, {.dtype = dtype}), i = indices({places[0]}, shape[0]);
        Outcome o[2];
        for (const int threads : {1, 3}) {
          set_num_threads(threads);
          o[threads / 2] = outcome([&](auto& t, auto& u) { return index_reduce(t, 0, i, u, kind); }, x, s, g);
        }
        CHECK(equal_bits(o[0].y, o[1].y));
        CHECK(equal_bits(o[0].dx, o[1].dx));
        CHECK(equal_bits(o[0].ds, o[1].ds));
      }
  set_num_threads(before);
}

TEST_CASE("a product's derivatives are exact where elements are 0", "[indexing][second_order]") {
  // The product x_0 a b c has zeros a, b: its second derivative in a and b is x_0 c, a third one would be c.
  const Tensor index = tensor({0, 1, 0, 0});
  const auto f = [&](const std::vector<Tensor>& in) {
    return scatter_reduce(in[0], 0, index, in[1], R::prod).sum();
  };
  const std::vector<Tensor> at = {tensor({2., 3.}), tensor({0., 7., 0., 5.})};
  const auto h = hessian(f, at);
  CHECK(values(h[1][1]) == V{0, 0, 10, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0});
  CHECK(values(h[0][1]) == V{0, 0, 0, 0, 0, 1, 0, 0});
  CHECK(values(jvp(f, at, {tensor({1., 0.}), tensor({0., 1., 0., 0.})}).derivative) == V{3});
  // A NaN stays among the elements that it meets.
  const auto n = hessian(f, {tensor({2., kNan}), tensor({3., kNan, 4., 5.})});
  testing::check(n[1][1], {0, 0, 10, 8, 0, 0, 0, 0, 10, 0, 0, 6, 8, 0, 6, 0});
}

TEST_CASE("reductions have right derivatives of first and second order", "[indexing][second_order]") {
  const Tensor x = values({3, 2}, {0.5, -1.2, 2, 0, 0.7, 1.5}),
               s = values({5, 2}, {1.1, 0, -0.6, 2.2, 0, 0.3, 0.9, -1.4, 1.7, 0.8}),
               i = tensor({2, 0, 2, 0, 2});
  for (const ScatterReduce kind : kReductions)
    for (const bool self : {true, false}) {
      INFO(word(kind) << self);
      const auto f = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        return {index_reduce(in[0], 0, i.to(in[0].device()), in[1], kind, self)};
      };
      CHECK(gradcheck(f, {x, s}).message == "");
      CHECK(gradgradcheck(f, {x, s}).message == "");
    }
}

TEST_CASE("a softmax over segments is the softmax of each", "[indexing]") {
  const Tensor x = values({7}, {1, 300, 2, -1, 301, 0.5, 3}), segment = tensor({0, 2, 0, 3, 2, 0, 3});
  const Tensor y = segment_softmax(x, segment, 4);  // segment 1 is empty
  for (const std::vector<std::int64_t>& part : {std::vector<std::int64_t>{0, 2, 5}, {1, 4}, {3, 6}}) {
    const Tensor at = from_vector(part);
    testing::check(index_select(y, 0, at), values(softmax(index_select(x, 0, at), 0)), 1e-14);
  }
  const auto f = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {segment_softmax(in[0], segment.to(in[0].device()), 4)};
  };
  CHECK(gradcheck(f, {x}).message == "");
  CHECK(gradgradcheck(f, {x}).message == "");
  const Tensor narrow = x.to(f32).set_requires_grad(), g = values({7}, {1, 2, 3, 4, 5, 6, 7});
  segment_softmax(narrow, segment, 4).backward(g.to(f32));
  const Tensor wide = x.clone().set_requires_grad();
  segment_softmax(wide, segment, 4).backward(g);
  testing::check(narrow.grad(), values(wide.grad()), 1e-6);
}

TEST_CASE("both devices reduce alike, and alike in every run", "[indexing][cuda]") {
  struct Layout {
    Shape x;
    std::int64_t axis, places;
  };
  for (const DType dtype : {f32, f64, f16, bf16, i64, i32, u8})
    for (const ScatterReduce kind : kReductions)
      for (const bool self : {true, false})
        for (const Layout& c : {Layout{{40000}, 0, 70000}, Layout{{3}, 0, 5000}, Layout{{70, 15}, 0, 3000},
                                Layout{{7, 128}, 0, 900}, Layout{{5, 40, 33}, 1, 300}, Layout{{9}, 0, 5}}) {
          INFO(name(dtype) << ' ' << word(kind) << self << ' ' << c.x << " axis " << c.axis);
          Shape shape = c.x;
          shape[static_cast<int>(c.axis)] = c.places;
          const std::int64_t n = c.x[static_cast<int>(c.axis)];
          // 16-bit products that leave the range are infinite or 0 on both.
          const Tensor x = numbers(c.x, dtype, kind == R::prod), s = numbers(shape, dtype, kind == R::prod);
          const Tensor i = indices({c.places}, n), e = indices(shape, n);
          const Tensor gx = x.to(cuda(0)), gs = s.to(cuda(0)), gi = i.to(cuda(0)).to(i32), ge = e.to(cuda(0));
          const double tolerance = kind == R::mean ? 1e-6 : 0;
          const auto alike = [&](const Tensor& got, const Tensor& want) {
            CHECK(got.dtype() == want.dtype());
            testing::check(got.to(cpu), want.to_vector<double>(), is_low_precision(dtype) ? 8e-3 : tolerance);
          };
          alike(index_reduce(gx, c.axis, gi, gs, kind, self), index_reduce(x, c.axis, i, s, kind, self));
          alike(scatter_reduce(gx, c.axis, ge, gs, kind, self), scatter_reduce(x, c.axis, e, s, kind, self));
          if (!is_floating(dtype)) continue;
          const Tensor g = numbers(c.x, dtype, true);
          for (const bool rows : {true, false}) {
            const auto f = [&](const Tensor& at) {
              return [&, at](const Tensor& t, const Tensor& u) {
                return rows ? index_reduce(t, c.axis, at, u, kind, self)
                            : scatter_reduce(t, c.axis, at, u, kind, self);
              };
            };
            const Outcome want = outcome(f(rows ? i : e), x, s, g),
                          got = outcome(f(rows ? gi : ge), gx, gs, g.to(cuda(0))),
                          again = outcome(f(rows ? gi : ge), gx, gs, g.to(cuda(0)));
            const double allowed = is_low_precision(dtype) ? 8e-3 : 1e-6;
            testing::check(got.dx.to(cpu), want.dx.to_vector<double>(), allowed);
            testing::check(got.ds.to(cpu), want.ds.to_vector<double>(), allowed);
            CHECK(equal_bits(got.y, again.y));
            CHECK(equal_bits(got.dx, again.dx));
            CHECK(equal_bits(got.ds, again.ds));
          }
        }
}

TEST_CASE("sums on CUDA that every order rounds have the same bits in every run", "[indexing][cuda]") {
  for (const DType dtype : {f32, f16})
    for (const ScatterReduce kind : {R::sum, R::mean, R::prod}) {
      const TensorOptions like{.dtype = dtype, .device = cuda(0)};
      const Tensor x = randn({100, 33}, like), s = randn({20000, 33}, like),
                   e = indices({20000, 33}, 100).to(cuda(0));
      const Tensor first = scatter_reduce(x, 0, e, s, kind);
      for (int run = 0; run < 3; ++run) CHECK(equal_bits(scatter_reduce(x, 0, e, s, kind), first));
    }
}

TEST_CASE("a bad index of a reduction on CUDA is reported when the host waits, and writes nothing",
          "[indexing][cuda]") {
  Tensor x = tensor({1., 2., 3.}).to(cuda(0));
  const Tensor i = tensor({0, 3}).to(cuda(0)), s = tensor({10., 20.}).to(cuda(0));
  scatter_reduce_(x, 0, i, s, R::amax);
  CHECK_THROWS_WITH(
      synchronize(cuda(0)),
      "[scatter_reduce_amax] index 3 is out of range for an axis of size 3; indices must lie in [0, 3)");
  CHECK(values(x) == V{10, 2, 3});
  const Tensor leaf = s.clone().set_requires_grad(), g = ones({3}, {.device = cuda(0)});
  index_reduce(x, 0, i, leaf, R::mean).backward(g);
  CHECK_THROWS_AS(synchronize(cuda(0)), IndexError);
  CHECK(values(leaf.grad()) == V{0.5, 0});
}

}  // namespace
