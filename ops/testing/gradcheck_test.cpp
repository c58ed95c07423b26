#include <any>

#include <cotangent/cotangent.h>
#include <cotangent/ops/testing/gradcheck.h>

#include "tests/catch.h"

using namespace ct;
using Catch::Matchers::Contains;

TEST_CASE("gradcheck finds a wrong derivative", "[autograd]") {
  struct Wrong : Function<Wrong> {
    static std::vector<Tensor> forward(FunctionContext& ctx, const std::vector<Tensor>& in) {
      ctx.save_for_backward({in[0]});
      return {in[0] * in[0]};
    }
    static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
      return {ctx.saved()[0] * grads[0] * 2.001};
    }
  };
  const Tensor x = from_vector<double>({1, 2, 3}, {3});
  const GradcheckResult r = gradcheck([](const Tensor& t) { return Wrong::apply({t})[0]; }, {x});
  CHECK_FALSE(r.ok);
  CHECK_THAT(r.message, Contains("gradient of input 0"));
  CHECK_THROWS_AS(gradcheck([](const Tensor& t) { return t * 1.0; }, {x.to(f32)}), DTypeError);
}

TEST_CASE("gradgradcheck finds a wrong second derivative", "[autograd][second_order]") {
  // The gradient is right, but its own is not: x is kept without its history.
  struct Wrong : Function<Wrong> {
    static std::vector<Tensor> forward(FunctionContext& ctx, const std::vector<Tensor>& in) {
      ctx.data = in[0].detach();
      return {in[0] * in[0]};
    }
    static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& g) {
      return {g[0] * 2 * std::any_cast<const Tensor&>(ctx.data)};
    }
  };
  const auto wrong = [](const Tensor& x) { return Wrong::apply({x})[0]; };
  const Tensor x = from_vector<double>({0.5, -1}, {2});
  CHECK(gradcheck(wrong, {x}).ok);
  const GradcheckResult second = gradgradcheck(wrong, {x});
  CHECK_FALSE(second.ok);
  CHECK_THAT(second.message, Contains("central differences give"));
  CHECK(gradgradcheck([](const Tensor& t) { return t * t; }, {x}).ok);
}
