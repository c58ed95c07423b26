#include <cmath>
#include <string>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/executor.h>

#include "tests/fusion_testing.h"

// Groups around a call that goes over rows, on a CPU: which there are, and that no bit tells.

using namespace ct;
using namespace ct::testing;
using Catch::Matchers::Contains;

namespace {

using Function = std::function<std::vector<Tensor>(const Tensor& x, const Tensor& w)>;

// A function of the input and a tensor of the same shape.
Make forward(const Shape& shape, Function f, DType dtype = f32) {
  return [=] {
    Program p{{waves(shape, 1).to(dtype)}, {}};
    p.step = [=, w = p.state[0]](const Tensor& x) {
      const NoGrad off;
      return f(x, w);
    };
    return p;
  };
}
Names made(const Shape& shape, const Function& f, DType dtype = f32, std::string* account = nullptr) {
  std::vector<Tensor> in = inputs_of(cpu, dtype, shape);
  std::vector<double> special = values(in[3]);
  special[0] = NAN, special[1] = INFINITY, special[2] = -0.0;
  in[3] = values(shape, special, dtype);
  return groups(forward(shape, f, dtype), in, account);
}
const Shape kShape{45, 47};

}  // namespace

TEST_CASE("Rows take formulas as their load and their store", "[capture][fuse]") {
  const DType dtype = GENERATE(f32, f64, bf16, f16);
  const Shape shape = GENERATE(Shape{45, 47}, Shape{3, 5, 47}, Shape{700, 33}, Shape{2, 9, 4100}, Shape{5, 1},
                               Shape{1, 3}, Shape{4, 1, 7});
  INFO(dtype << ' ' << shape);
  const auto both = [&](auto rows) {
    return made(
        shape,
        [=](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
          return {tanh(rows((x + w) * 2)) - w};
        },
        dtype);
  };
  CHECK(both([](const Tensor& h) { return softmax(h, -1); }) ==
        Names{"fused(add, mul_scalar, softmax, tanh, sub)"});
  CHECK(both([](const Tensor& h) { return log_softmax(h, h.dim() - 1); }) ==
        Names{"fused(add, mul_scalar, log_softmax, tanh, sub)"});
  CHECK(both([](const Tensor& h) { return layer_norm(h); }) ==
        Names{"fused(add, mul_scalar, layer_norm, tanh, sub)"});
  CHECK(both([](const Tensor& h) { return rms_norm(h); }) ==
        Names{"fused(add, mul_scalar, rms_norm, tanh, sub)"});
  using Reduction = std::function<Tensor(const Tensor&)>;
  for (const Reduction& reduction : {
           Reduction([](const Tensor& h) { return sum(h, -1, true); }),
           Reduction([](const Tensor& h) { return mean(h, -1, true); }),
           Reduction([](const Tensor& h) { return amax(h, -1, true); }),
           Reduction([](const Tensor& h) { return amin(h, -1, true); }),
           Reduction([](const Tensor& h) { return norm(h, 2, -1, true); }),
           Reduction([](const Tensor& h) { return var(h, -1, 0, true); }),
       }) {
    const Names list = both([&](const Tensor& h) { return h - reduction(h); });
    REQUIRE(list.size() == 1);
    CHECK_THAT(list[0], Contains("fused(add, mul_scalar,") && Contains(", sub, tanh, sub)"));
  }
}

TEST_CASE("Rows of a group follow its reads and writes", "[capture][fuse]") {
  std::string account;
  const auto of = [&](const Function& f, const Shape& shape = kShape) {
    return made(shape, f, f32, &account);
  };
  SECTION("a load alone, a store alone, neither") {
    CHECK(of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> { return {softmax(x * w, -1)}; }) ==
          Names{"fused(mul, softmax)"});
    CHECK_THAT(account, Contains("one pass over rows of f32 [45, 47], 2 steps, 25380 bytes"));
    CHECK(of([](const Tensor& x, const Tensor&) -> std::vector<Tensor> {
            return {exp(log_softmax(x, -1))};
          }) == Names{"fused(log_softmax, exp)"});
    CHECK(of([](const Tensor& x, const Tensor&) -> std::vector<Tensor> { return {softmax(x, -1)}; }).empty());
    CHECK_THAT(account, Contains("softmax: has no neighbour"));
  }
  SECTION("values that somebody else reads are written") {
    of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
      const Tensor h = x * w, y = softmax(h, -1);
      return {h, y, y * 2 + h};
    });
    CHECK_THAT(account, Contains("2 run as 1 pass") || Contains("4 run as 1 pass") || Contains("one pass"));
  }
  SECTION("statistics of a norm are read by its formulas") {
    CHECK(of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
            const Tensor h = x * w;
            return {h - mean(h, -1, true)};
          }) == Names{"fused(mul, mean, sub)"});
  }
  SECTION("a result whose axis is another one of the same size") {
    of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> { return {w + sum(x * w, -1) * 2}; },
       {45, 45});
    of([](const Tensor& x,
          const Tensor& w) -> std::vector<Tensor> { return {x + sum(x * w, -1).unsqueeze(0)}; },
       {45, 45});
  }
  SECTION("operands that are broadcast, views, transposed") {
    const Tensor row = waves({47}, 2).to(f32), column = waves({45, 1}, 3).to(f32),
                 wide = waves({45, 94}, 4).to(f32), turned = waves({47, 45}, 5).to(f32);
    CHECK(of([=](const Tensor& x, const Tensor&) -> std::vector<Tensor> {
            return {softmax(x * row + column, -1) * column + row};
          }).size() == 1);
    CHECK(of([=](const Tensor& x, const Tensor&) -> std::vector<Tensor> {
            return {softmax(x * wide.slice(1, 0, 94, 2), -1) - wide.slice(1, 47, 94)};
          }).size() == 1);
    CHECK(of([=](const Tensor& x, const Tensor&) -> std::vector<Tensor> {
            return {softmax(x * turned.t(), -1) - turned.t()};
          }).size() == 1);
    const Tensor mask = waves({5, 47}, 2).to(f32), first = waves({3, 1, 1}, 2).to(f32);
    CHECK(of([=](const Tensor& x,
                 const Tensor&) -> std::vector<Tensor> { return {softmax(x + mask, -1) * first - mask}; },
             {3, 5, 47})
              .size() == 1);
  }
  SECTION("changes in place") {
    of([](const Tensor& x, const Tensor&) -> std::vector<Tensor> {
      Tensor h = matmul(x, x.t());  // what the load changes is gone behind it
      return {softmax(h.mul_(0.1).add_(1), -1)};
    });
    of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
      Tensor h = x + w, y = softmax(h.mul_(2), -1);
      y.mul_(3).add_(h);
      h.sub_(1);
      return {y, h};
    });
    of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
      Tensor u = w;
      const Tensor y = softmax(x * u, -1);
      u.mul_(0.5).add_(y);
      return {y};
    });
  }
  SECTION("two calls over rows") {
    const Names list = of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
      return {softmax(layer_norm(x * w) * 2, -1) + x};
    });
    CHECK((list == Names{"fused(mul, layer_norm, mul_scalar)", "fused(softmax, add)"}));
    CHECK_THAT(account, !Contains("not fused"));
  }
  SECTION("what does not go by rows") {
    of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
      return {softmax(x * w, 0), sum(x + w), sum(x - w, 0)};
    });
    CHECK_THAT(account, Contains("softmax: is no formula of each element, and does not go by rows"));
    of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> { return {sum(x * w, -1)}; }, {2, 70000});
    CHECK_THAT(account, Contains("sum: is no formula of each element, and does not go by rows"));
    of([](const Tensor& x, const Tensor&) -> std::vector<Tensor> { return {softmax(dropout(x, 0.5), -1)}; });
    CHECK_THAT(account,
               Contains("softmax: stays apart from its neighbours, as one stays apart from what draws"));
  }
  SECTION("runs that are too short to gain") {
    const Function f = [](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
      return {softmax(x * w, -1)};
    };
    const Shape shape{512, 2, 64};
    CHECK_THAT(run(forward(shape, f), inputs_of(cpu, f32, shape), {}).account,
               Contains("has too few elements along the axis that is cut"));
  }
}

TEST_CASE("Gradients by rows train to the bit", "[capture][fuse]") {
  const DType dtype = GENERATE(f32, f64, bf16);
  std::string account;
  const auto trained = [&](auto f) { account = account_of_training(cpu, dtype, f); };
  trained([](const Tensor& h, const Tensor&) { return gelu(softmax(h, -1) * 3); });
  CHECK_THAT(account, Contains("softmax'"));
  CHECK_THAT(account, !Contains("softmax': "));
  trained([](const Tensor& h, const Tensor&) { return gelu(log_softmax(h, -1) * 3); });
  CHECK_THAT(account, !Contains("log_softmax': "));
  trained([](const Tensor& h, const Tensor&) { return gelu(layer_norm(h) * 3); });
  CHECK_THAT(account, !Contains("layer_norm': "));
  trained([](const Tensor& h, const Tensor& b) { return gelu(layer_norm(h, b, b) * 3); });
  CHECK_THAT(account, Contains("layer_norm': sums a gradient over rows"));
  trained([](const Tensor& h, const Tensor& b) { return gelu(rms_norm(tanh(h), b.detach()) * 3) + b; });
  CHECK_THAT(account, !Contains("rms_norm': "));
  trained(
      [](const Tensor& h, const Tensor& b) { return h - amax(h * b, -1, true) + logsumexp(h, -1, true); });
}

TEST_CASE("Rows of a group have the same bits for any number of threads", "[capture][fuse]") {
  const Shape shape{3, 301, 257};
  const Make make = forward(shape, [](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
    return {tanh(layer_norm(x * w + 1)) - w, mean(x - w, -1)};
  });
  const std::vector<Tensor> in = inputs_of(cpu, f32, shape);
  const StepRun many = run(make, in, {});
  CHECK_THAT(many.account, Contains("one pass over rows"));
  const NoThreads alone;
  CHECK((run(make, in, {}).steps == many.steps));
  CHECK((run(make, in, {.enabled = false}).steps == many.steps));
}
