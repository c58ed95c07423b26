#include <cotangent/cotangent.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {

using testing::values;

// 1, 2, 3, ... in the given shape.
Tensor counting(const Shape& shape, DType dtype = f32) {
  return arange(1, numel(shape) + 1, {.dtype = f64}).reshape(shape).to(dtype);
}

using V = std::vector<double>;

}  // namespace

TEST_CASE("matmul follows the ranks of its operands", "[matmul]") {
  const Tensor a = counting({2, 3}), b = counting({3, 2});
  const Tensor c = matmul(a, b);
  CHECK(c.shape() == Shape{2, 2});
  CHECK(values(c) == V{22, 28, 49, 64});
  CHECK(values(a.matmul(b)) == values(c));
  CHECK(values(mm(a, b)) == values(c));

  const Tensor v = counting({3});
  CHECK(matmul(v, v).shape() == Shape{});
  CHECK(matmul(v, v).item() == 14);
  CHECK(dot(v, v).item() == 14);
  CHECK(matmul(a, v).shape() == Shape{2});
  CHECK(values(matmul(a, v)) == V{14, 32});
  CHECK(matmul(v, b).shape() == Shape{2});
  CHECK(values(matmul(v, b)) == V{22, 28});

  const Tensor stack = counting({2, 2, 3});
  CHECK(matmul(stack, b).shape() == Shape{2, 2, 2});
  CHECK(values(matmul(stack, b)) == V{22, 28, 49, 64, 76, 100, 103, 136});
  CHECK(matmul(stack, v).shape() == Shape{2, 2});
  CHECK(values(matmul(stack, v)) == V{14, 32, 50, 68});
  CHECK(matmul(a, counting({2, 3, 2})).shape() == Shape{2, 2, 2});
  CHECK(values(matmul(a, counting({2, 3, 2}))) == V{22, 28, 49, 64, 58, 64, 139, 154});
  CHECK(bmm(stack, counting({2, 3, 1})).shape() == Shape{2, 2, 1});
  CHECK(values(bmm(stack, counting({2, 3, 1}))) == V{14, 32, 122, 167});

  // [2, 1, 2, 3] x [3, 3, 2] -> [2, 3, 2, 2]
  const Tensor wide = matmul(stack.unsqueeze(1), counting({3, 3, 2}));
  CHECK(wide.shape() == Shape{2, 3, 2, 2});
  CHECK(values(wide.select(0, 1).select(0, 2)) == values(matmul(stack[1], counting({3, 3, 2})[2])));
}

TEST_CASE("matmul of no elements", "[matmul]") {
  CHECK(values(matmul(zeros({2, 0}), zeros({0, 3}))) == V(6, 0));
  CHECK(matmul(zeros({0}), zeros({0})).item() == 0);
  CHECK(matmul(zeros({0, 3}), zeros({3, 2})).shape() == Shape{0, 2});
  CHECK(matmul(zeros({2, 3}), zeros({3, 0})).shape() == Shape{2, 0});
  CHECK(matmul(zeros({0, 2, 3}), zeros({1, 3, 4})).shape() == Shape{0, 2, 4});
}

TEST_CASE("matmul reads views where they are", "[matmul]") {
  const Tensor a = counting({4, 3, 5}), b = counting({4, 5, 6});
  const V want = values(matmul(a, b));
  const auto same = [&](const Tensor& x, const Tensor& y) {
    const Tensor c = matmul(x, y);
    CHECK(c.is_contiguous());
    return values(c) == want;
  };
  const auto moved = [](const Tensor& t, const Dims& axes, const Dims& back) {
    return t.permute(axes).contiguous().permute(back);
  };
  for (const Tensor& x : {moved(a, {0, 2, 1}, {0, 2, 1}), moved(a, {1, 0, 2}, {1, 0, 2}),
                          moved(a, {2, 1, 0}, {2, 1, 0}), moved(a, {1, 2, 0}, {2, 0, 1})})
    for (const Tensor& y : {b, moved(b, {0, 2, 1}, {0, 2, 1}), moved(b, {2, 0, 1}, {1, 2, 0})})
      CHECK(same(x, y));

  const Tensor padded = zeros({4, 3, 11});
  Tensor every_second = padded.slice(2, 1, 11, 2);
  every_second.copy_(a);
  CHECK(same(every_second, b));

  // An expanded operand: every row the same.
  const Tensor row = counting({1, 5}).expand({3, 5});
  CHECK(values(matmul(row, counting({5, 2}))) == values(matmul(row.contiguous(), counting({5, 2}))));
  // Heads of attention, [batch, heads, time, size] as a view of [batch, time, heads * size].
  const Tensor q = counting({2, 3, 8}).reshape({2, 3, 2, 4}).transpose(1, 2);
  CHECK(values(matmul(q, q.transpose(-1, -2))) ==
        values(matmul(q.contiguous(), q.contiguous().transpose(-1, -2).contiguous())));
}

TEST_CASE("matmul in every dtype", "[matmul]") {
  for (const DType t : {f32, f64, f16, bf16, i64, i32, u8}) {
    const Tensor c = matmul(counting({2, 3}, t), counting({3, 2}, t));
    CHECK(c.dtype() == t);
    CHECK(values(c) == V{22, 28, 49, 64});
  }
  CHECK(values(matmul(full({1, 2}, 200, {.dtype = u8}), ones({2, 1}, {.dtype = u8}))) ==
        V{144});  // 400 - 256
  // Sums of 16-bit numbers are not rounded on the way: 4096 + 1 needs 13 bits.
  CHECK(matmul(ones({4097}, {.dtype = f16}), ones({4097}, {.dtype = f16})).item() == 4096);
  Tensor big = ones({4097}, {.dtype = bf16});
  CHECK(matmul(big, big).item() == 4096);
}

TEST_CASE("gradients of matmul", "[matmul]") {
  Tensor a = counting({2, 3}).set_requires_grad(), b = counting({3, 2}).set_requires_grad();
  const Tensor g = tensor({{1.f, -1.f}, {2.f, 0.5f}});
  matmul(a, b).backward(g);
  CHECK(values(a.grad()) == V{-1, -1, -1, 3, 8, 13});  // g b^T
  CHECK(values(b.grad()) == V{9, 1, 12, 0.5, 15, 0});  // a^T g
  matmul(a, b).backward(g);                            // added to
  CHECK(values(a.grad()) == V{-2, -2, -2, 6, 16, 26});
  CHECK(values(b.grad()) == V{18, 2, 24, 1, 30, 0});

  Tensor x = counting({3}).set_requires_grad(), y = tensor({5.f, 7.f, 11.f}).set_requires_grad();
  dot(x, y).backward();
  CHECK(values(x.grad()) == V{5, 7, 11});
  CHECK(values(y.grad()) == V{1, 2, 3});
}

TEST_CASE("gradients of broadcast operands are sums", "[matmul]") {
  // The same matrix on either side of a stack of two.
  const Tensor stack = counting({2, 2, 2});
  Tensor right = ones({2, 2}).set_requires_grad(), left = ones({2, 2}).set_requires_grad();
  matmul(stack, right).backward(ones({2, 2, 2}));
  CHECK(values(right.grad()) == V{16, 16, 20, 20});
  matmul(left, stack).backward(ones({2, 2, 2}));
  CHECK(values(left.grad()) == V{14, 22, 14, 22});
  matmul(left, stack).backward(ones({2, 2, 2}));
  CHECK(values(left.grad()) == V{28, 44, 28, 44});
  // The cotangent may itself be broadcast.
  right.set_grad({});
  matmul(stack, right).backward(ones({}).expand({2, 2, 2}));
  CHECK(values(right.grad()) == V{16, 16, 20, 20});
}

TEST_CASE("a matrix times itself gets both gradients", "[matmul]") {
  Tensor a = counting({2, 2}).set_requires_grad();
  matmul(a, a).backward(ones({2, 2}));
  CHECK(values(a.grad()) == V{7, 11, 9, 13});  // g a^T + a^T g
  matmul(a, a).backward(ones({2, 2}));
  CHECK(values(a.grad()) == V{14, 22, 18, 26});
}

TEST_CASE("matmul refuses what does not fit", "[matmul]") {
  CHECK_THROWS_WITH(matmul(zeros({64, 784}), zeros({783, 10})),
                    "[matmul] inner dimensions differ: a is f32[64, 784], b is f32[783, 10]; a.size(-1) must "
                    "equal b.size(-2)");
  CHECK_THROWS_AS(matmul(zeros({2, 3}), zeros({2})), ShapeError);
  CHECK_THROWS_AS(matmul(zeros({}), zeros({2})), ShapeError);
  CHECK_THROWS_AS(matmul(zeros({2, 2, 3}), zeros({3, 3, 2})), ShapeError);
  CHECK_THROWS_AS(matmul(zeros({2, 3}), zeros({3, 2}, {.dtype = f64})), DTypeError);
  CHECK_THROWS_AS(matmul(zeros({2, 3}, {.dtype = boolean}), zeros({3, 2}, {.dtype = boolean})), DTypeError);
  CHECK_THROWS_AS(mm(zeros({2, 2, 3}), zeros({3, 2})), ShapeError);
  CHECK_THROWS_AS(bmm(zeros({2, 2, 3}), zeros({1, 3, 2})), ShapeError);
  CHECK_THROWS_AS(dot(zeros({2, 2}), zeros({2})), ShapeError);
}

TEST_CASE("products on the GPU equal those on the CPU", "[matmul][cuda]") {
  const auto check = [](const Tensor& a, const Tensor& b, double tolerance) {
    const V want = values(matmul(a, b)), got = values(matmul(a.to(cuda(0)), b.to(cuda(0))));
    REQUIRE(got.size() == want.size());
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      worst = std::max(worst, std::abs(got[i] - want[i]) / (1 + std::abs(want[i])));
    CHECK(worst <= tolerance);
  };
  for (const DType t : {f32, f64, f16, bf16}) {
    const double tolerance = t == f64 ? 1e-12 : t == f32 ? 1e-5 : t == f16 ? 2e-3 : 1.6e-2;
    const TensorOptions options{.dtype = t};
    for (const auto& [m, n, k] : {std::array{64, 128, 784},
                                  {1, 1, 100000},
                                  {1, 300, 200},
                                  {300, 1, 200},
                                  {33, 17, 1},
                                  {129, 65, 257},
                                  {7, 5, 3}}) {
      const Tensor a = randn({m, k}, options), b = randn({k, n}, options);
      check(a, b, tolerance * std::sqrt(k));
      check(randn({k, m}, options).t(), randn({n, k}, options).t(), tolerance * std::sqrt(k));
      // Addresses and rows at odd distances.
      check(randn({m, k + 1}, options).narrow(1, 1, k), randn({k + 1, n}, options).narrow(0, 1, k),
            tolerance * std::sqrt(k));
    }
    check(randn({3, 5, 7, 6}, options), randn({5, 6, 4}, options), 10 * tolerance);
    check(randn({2, 5, 3, 8}, options).transpose(1, 2), randn({2, 8, 3, 4}, options).permute({0, 2, 1, 3}),
          10 * tolerance);
  }
  for (const DType t : {i64, i32, u8})
    check(randint(0, 9, {37, 41}, {.dtype = t}), randint(0, 9, {41, 23}, {.dtype = t}), 0);
}

TEST_CASE("the same product has the same bits in every run on the GPU", "[matmul][cuda]") {
  const Tensor a = randn({64, 4096}).to(cuda(0)), b = randn({4096, 10}).to(cuda(0));
  const V first = values(matmul(a, b));
  for (int i = 0; i < 5; ++i) CHECK(values(matmul(a, b)) == first);
}

TEST_CASE("TF32 is off unless it is asked for", "[matmul][cuda]") {
  CHECK_FALSE(allow_tf32());
  const Tensor a = full({256, 256}, 1.0 + 1.0 / 4096, {.device = cuda(0)});  // 1 + 2^-12 has no place in TF32
  const double want = 256 * (1.0 + 1.0 / 4096) * (1.0 + 1.0 / 4096);
  CHECK(values(matmul(a, a))[0] == Approx(want).epsilon(1e-6));
  set_allow_tf32(true);
  const double rounded = values(matmul(a, a))[0];
  set_allow_tf32(false);
  CHECK(rounded == Approx(want).epsilon(2e-3));
  CHECK(values(matmul(a, a))[0] == Approx(want).epsilon(1e-6));
}
