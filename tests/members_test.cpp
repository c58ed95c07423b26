#include <cmath>
#include <vector>

#include <cotangent/cotangent.h>

#include "tests/catch.h"

// Members of Tensor are the functions of their names.

using namespace ct;

namespace {

// Also where both are NaN.
bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && allclose(a, b, 0, 0, true);
}
bool same(const ValuesIndices& a, const ValuesIndices& b) {
  return same(a.values, b.values) && same(a.indices, b.indices);
}

}  // namespace

#define CHECK_MEMBER(member, function) CHECK(same(member, function))
#define CHECK_PLAIN(name) CHECK_MEMBER(x.name(), ct::name(x))
#define CHECK_IN_PLACE(name)       \
  {                                \
    Tensor y = x.clone();          \
    CHECK(y.name##_().is_same(y)); \
    CHECK_MEMBER(y, ct::name(x));  \
  }
#define CHECK_WITH_EITHER(name)            \
  CHECK_MEMBER(x.name(b), ct::name(x, b)); \
  CHECK_MEMBER(x.name(3), ct::name(x, 3));

TEST_CASE("members of one tensor are its functions", "[members]") {
  const Tensor x = tensor({{0.5, -1.25, 2.5}, {1.5, 0.25, -0.75}});
  CHECK_PLAIN(neg);
  CHECK_PLAIN(abs);
  CHECK_PLAIN(sign);
  CHECK_PLAIN(square);
  CHECK_PLAIN(sqrt);
  CHECK_PLAIN(rsqrt);
  CHECK_PLAIN(reciprocal);
  CHECK_PLAIN(exp);
  CHECK_PLAIN(exp2);
  CHECK_PLAIN(expm1);
  CHECK_PLAIN(log);
  CHECK_PLAIN(log2);
  CHECK_PLAIN(log10);
  CHECK_PLAIN(log1p);
  CHECK_PLAIN(sin);
  CHECK_PLAIN(cos);
  CHECK_PLAIN(tan);
  CHECK_PLAIN(asin);
  CHECK_PLAIN(acos);
  CHECK_PLAIN(atan);
  CHECK_PLAIN(sinh);
  CHECK_PLAIN(cosh);
  CHECK_PLAIN(asinh);
  CHECK_PLAIN(acosh);
  CHECK_PLAIN(atanh);
  CHECK_PLAIN(erf);
  CHECK_PLAIN(erfc);
  CHECK_PLAIN(floor);
  CHECK_PLAIN(ceil);
  CHECK_PLAIN(round);
  CHECK_PLAIN(trunc);
  CHECK_PLAIN(relu);
  CHECK_PLAIN(sigmoid);
  CHECK_PLAIN(tanh);
  CHECK_PLAIN(silu);
  CHECK_PLAIN(selu);
  CHECK_PLAIN(mish);
  CHECK_PLAIN(softsign);
  CHECK_PLAIN(logsigmoid);
  CHECK_PLAIN(hardsigmoid);
  CHECK_PLAIN(hardswish);
  CHECK_PLAIN(isnan);
  CHECK_PLAIN(isinf);
  CHECK_PLAIN(isfinite);
  CHECK_PLAIN(logical_not);
  CHECK_PLAIN(sum);
  CHECK_PLAIN(mean);
  CHECK_PLAIN(max);
  CHECK_PLAIN(min);
  CHECK_PLAIN(argmax);
  CHECK_PLAIN(argmin);
  CHECK_PLAIN(prod);
  CHECK_PLAIN(amax);
  CHECK_PLAIN(amin);
  CHECK_PLAIN(any);
  CHECK_PLAIN(all);
  CHECK_PLAIN(logsumexp);
  CHECK_PLAIN(var);
  CHECK_PLAIN(norm);
  CHECK_PLAIN(nonzero);
  CHECK_PLAIN(tril);
  CHECK_PLAIN(triu);
  CHECK_MEMBER(x.std(), stddev(x));
  CHECK_MEMBER(x.std(1, 0, true), stddev(x, 1, 0, true));
  CHECK_MEMBER(x.to(i64).bitwise_not(), bitwise_not(x.to(i64)));
  CHECK_IN_PLACE(neg);
  CHECK_IN_PLACE(abs);
  CHECK_IN_PLACE(exp);
  CHECK_IN_PLACE(log);
  CHECK_IN_PLACE(sqrt);
  CHECK_IN_PLACE(rsqrt);
  CHECK_IN_PLACE(square);
  CHECK_IN_PLACE(reciprocal);
  CHECK_IN_PLACE(tanh);
  CHECK_IN_PLACE(sigmoid);
  CHECK_IN_PLACE(relu);
}

TEST_CASE("members with arguments are their functions", "[members]") {
  const Tensor x = tensor({{0.5, -1.25, 2.5}, {1.5, 0.25, -0.75}}), b = tensor({0.75, 1.25, -2.0});
  CHECK_WITH_EITHER(add);
  CHECK_WITH_EITHER(sub);
  CHECK_WITH_EITHER(mul);
  CHECK_WITH_EITHER(div);
  CHECK_WITH_EITHER(pow);
  CHECK_WITH_EITHER(maximum);
  CHECK_WITH_EITHER(minimum);
  CHECK_WITH_EITHER(fmod);
  CHECK_WITH_EITHER(remainder);
  CHECK_WITH_EITHER(atan2);
  CHECK_WITH_EITHER(eq);
  CHECK_WITH_EITHER(ne);
  CHECK_WITH_EITHER(lt);
  CHECK_WITH_EITHER(le);
  CHECK_WITH_EITHER(gt);
  CHECK_WITH_EITHER(ge);
  const Tensor mask = x > 0;
  CHECK_MEMBER(mask.logical_and(b > 0), logical_and(mask, b > 0));
  CHECK_MEMBER(mask.logical_or(b > 0), logical_or(mask, b > 0));
  CHECK_MEMBER(mask.logical_xor(b > 0), logical_xor(mask, b > 0));
  CHECK_MEMBER(x.clamp(-1, 1), clamp(x, -1, 1));
  CHECK_MEMBER(x.lerp(b, 0.25), lerp(x, b, 0.25));
  CHECK_MEMBER(x.lerp(b, b), lerp(x, b, b));
  CHECK_MEMBER(x.where(mask, b), where(mask, x, b));
  CHECK_MEMBER(x.where(mask, 7), where(mask, x, 7));
  CHECK(x.allclose(x + 1e-7));
  CHECK(!x.allclose(x + 1e-3, 0, 1e-4));
  CHECK(x.equal(x.clone()));
  CHECK(!x.equal(b));
  for (const bool keepdim : {false, true}) {
    CHECK_MEMBER(x.sum(1, keepdim), sum(x, 1, keepdim));
    CHECK_MEMBER(x.mean({0, 1}, keepdim), mean(x, {0, 1}, keepdim));
    CHECK_MEMBER(x.prod(0, keepdim), prod(x, 0, keepdim));
    CHECK_MEMBER(x.amax(-1, keepdim), amax(x, -1, keepdim));
    CHECK_MEMBER(x.amin(-1, keepdim), amin(x, -1, keepdim));
    CHECK_MEMBER(mask.any(0, keepdim), any(mask, 0, keepdim));
    CHECK_MEMBER(mask.all(0, keepdim), all(mask, 0, keepdim));
    CHECK_MEMBER(x.logsumexp(1, keepdim), logsumexp(x, 1, keepdim));
    CHECK_MEMBER(x.argmax(1, keepdim), argmax(x, 1, keepdim));
    CHECK_MEMBER(x.argmin(0, keepdim), argmin(x, 0, keepdim));
    CHECK_MEMBER(x.max(1, keepdim), max(x, 1, keepdim));
    CHECK_MEMBER(x.min(0, keepdim), min(x, 0, keepdim));
    CHECK_MEMBER(x.var(1, 0, keepdim), var(x, 1, 0, keepdim));
    CHECK_MEMBER(x.norm(1, 0, keepdim), norm(x, 1, 0, keepdim));
  }
  CHECK_MEMBER(x.softmax(0), softmax(x, 0));
  CHECK_MEMBER(x.log_softmax(-1), log_softmax(x, -1));
  CHECK_MEMBER(x.matmul(x.t()), matmul(x, x.t()));
  CHECK_MEMBER(x.mm(x.t()), mm(x, x.t()));
  CHECK_MEMBER(x.unsqueeze(0).bmm(x.t().unsqueeze(0)), bmm(x.unsqueeze(0), x.t().unsqueeze(0)));
  CHECK_MEMBER(b.dot(b + 1), dot(b, b + 1));
  CHECK_MEMBER(b.outer(b + 1), outer(b, b + 1));
  const Tensor index = tensor({{1, 0, 1}}), source = tensor({{5., 6., 7.}});
  CHECK_MEMBER(x.gather(0, index), gather(x, 0, index));
  CHECK_MEMBER(x.index_select(1, tensor({2, 0})), index_select(x, 1, tensor({2, 0})));
  CHECK_MEMBER(x.scatter(0, index, source), scatter(x, 0, index, source));
  CHECK_MEMBER(x.scatter_add(0, index, source), scatter_add(x, 0, index, source));
  CHECK_MEMBER(x.index_add(0, tensor({1}), source), index_add(x, 0, tensor({1}), source));
  CHECK_MEMBER(x.clone().scatter_(0, index, source), scatter(x, 0, index, source));
  CHECK_MEMBER(x.clone().scatter_add_(0, index, source), scatter_add(x, 0, index, source));
  CHECK_MEMBER(x.clone().index_add_(0, tensor({1}), source), index_add(x, 0, tensor({1}), source));
  const Tensor one = tensor({1});
  constexpr ScatterReduce amax = ScatterReduce::amax, mean = ScatterReduce::mean;
  CHECK_MEMBER(x.scatter_reduce(0, index, source, amax), scatter_reduce(x, 0, index, source, amax));
  CHECK_MEMBER(x.index_reduce(0, one, source, mean, false), index_reduce(x, 0, one, source, mean, false));
  CHECK_MEMBER(x.clone().scatter_reduce_(0, index, source, amax), scatter_reduce(x, 0, index, source, amax));
  CHECK_MEMBER(x.clone().index_reduce_(0, one, source, mean, false),
               index_reduce(x, 0, one, source, mean, false));
  CHECK_MEMBER(x.masked_fill(mask, 9), masked_fill(x, mask, 9));
  CHECK_MEMBER(x.clone().masked_fill_(mask, 9), masked_fill(x, mask, 9));
  CHECK_MEMBER(x.clone().clamp_(0, 1), clamp(x, 0, 1));
  CHECK_MEMBER(x.masked_select(mask), masked_select(x, mask));
  CHECK_MEMBER(x.flip(1), flip(x, 1));
  CHECK_MEMBER(x.roll(2), roll(x, 2));
  CHECK_MEMBER(x.roll({1, 2}, {0, 1}), roll(x, {1, 2}, {0, 1}));
  CHECK_MEMBER(x.repeat({2, 1}), repeat(x, {2, 1}));
  CHECK_MEMBER(x.repeat_interleave(2, 1), repeat_interleave(x, 2, 1));
  CHECK_MEMBER(x.tril(-1), tril(x, -1));
  CHECK_MEMBER(x.triu(1), triu(x, 1));
  CHECK_MEMBER(b.diag(1), diag(b, 1));
  CHECK_MEMBER(x.view_as(zeros({3, 2})), x.view({3, 2}));
  CHECK_MEMBER(x.t().reshape_as(zeros({6})), x.t().reshape({6}));
  CHECK_MEMBER(x.topk(2, 1, false), topk(x, 2, 1, false));
  CHECK_MEMBER(x.sort(0, true), sort(x, 0, true));
  CHECK_MEMBER(x.argsort(), argsort(x));
  CHECK_MEMBER(x.median(), median(x));
  CHECK_MEMBER(x.median(1, true), median(x, 1, true));
  CHECK_MEMBER(x.cumsum(1), cumsum(x, 1));
  CHECK_MEMBER(x.cumprod(0), cumprod(x, 0));
  CHECK_MEMBER(x.logcumsumexp(1), logcumsumexp(x, 1));
  CHECK_MEMBER(x.cummax(1), cummax(x, 1));
  CHECK_MEMBER(x.cummin(0), cummin(x, 0));
  CHECK(x.unflatten(1, {3, -1}).sizes() == Shape{2, 3, 1});
  CHECK(x.unflatten(-2, {1, 2}).sizes() == Shape{1, 2, 3});
  CHECK_THROWS_AS(x.unflatten(1, {2, 2}), ShapeError);
  CHECK_THROWS_AS(x.unflatten(1, {}), ShapeError);
  CHECK_MEMBER(x.type_as(b.to(f32)), x.to(f32));
  CHECK_MEMBER(x.to(b.to(f16)), x.to(f16));
  CHECK(x.clone().requires_grad_().requires_grad());
}

TEST_CASE("members are recorded", "[members]") {
  Tensor x = tensor({0.5, -1.25, 2.5}).requires_grad_();
  x.exp().mul(x).sum().backward();
  CHECK(allclose(x.grad(), exp(x) * (1 + x)));
}

TEST_CASE("an accessor reads and writes elements in any layout", "[members]") {
  Tensor x = arange(24).to(f32).view({2, 3, 4});
  const Tensor turned = x.permute({2, 0, 1});
  auto a = turned.accessor<float, 3>();
  CHECK(a.size(0) == 4);
  CHECK(a[1].size(1) == 3);
  CHECK(a[3][1][2] == 23);
  CHECK(a[1][0][2] == 9);
  a[1][0][2] = -1;
  CHECK(x[0][2][1].item<float>() == -1);
  const auto message = [](auto&& call) {
    try {
      call();
    } catch (const Error& e) { return std::string(e.what()); }
    return std::string();
  };
  CHECK(message([&] { (void)x.accessor<float, 2>(); }) ==
        "[accessor] asked for 2 axes of f32[2, 3, 4]; the number in accessor<T, N>() is that of the tensor's "
        "axes");
  CHECK_THROWS_AS((x.accessor<double, 3>()), DTypeError);
}

TEST_CASE("a loop over a tensor goes along its first axis", "[members]") {
  Tensor x = arange(6).view({3, 2});
  std::vector<std::int64_t> sums;
  for (const Tensor& row : x) sums.push_back(row.sum().item<std::int64_t>());
  CHECK(sums == std::vector<std::int64_t>{1, 5, 9});
  for (Tensor row : x) row.fill_(4);  // rows are views
  CHECK(x.eq(4).all().item<bool>());
  int rows = 0;
  for (const Tensor& row : zeros({0, 2})) rows += row.defined();
  CHECK(rows == 0);
  CHECK_THROWS_AS(scalar(1).end(), ShapeError);
}

TEST_CASE("views are functions too, and concat is called cat", "[members]") {
  const Tensor x = arange(6).view({1, 2, 3});
  CHECK_MEMBER(reshape(x, {3, 2}), x.reshape({3, 2}));
  CHECK_MEMBER(flatten(x, 1), x.flatten(1));
  CHECK_MEMBER(transpose(x, 1, 2), x.transpose(1, 2));
  CHECK_MEMBER(permute(x, {2, 0, 1}), x.permute({2, 0, 1}));
  CHECK_MEMBER(squeeze(x), x.squeeze());
  CHECK_MEMBER(squeeze(x, 0), x.squeeze(0));
  CHECK_MEMBER(unsqueeze(x, 0), x.unsqueeze(0));
  CHECK_MEMBER(movedim(x, 2, 0), x.movedim(2, 0));
  CHECK_MEMBER(unbind(x, 1).at(1), x.select(1, 1));
  CHECK_MEMBER(split(x, 2, 2).at(1), x.narrow(2, 2, 1));
  CHECK_MEMBER(chunk(x, 3, 2).at(1), x.narrow(2, 1, 1));
  CHECK_MEMBER(cat({x, x}, 1), concat({x, x}, 1));
}
