#include <cmath>
#include <string>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>

#include "tests/fusion_testing.h"

// Groups around a call that goes over rows, on a GPU: which there are, and that no bit tells.

using namespace ct;
using namespace ct::testing;
using Catch::Matchers::Contains;

namespace {

using Function = std::function<std::vector<Tensor>(const Tensor& x, const Tensor& w)>;

Names made(const Shape& shape, const Function& f, DType dtype = f32, std::string* account = nullptr) {
  std::vector<Tensor> in = inputs_of(cuda(0), dtype, shape);
  std::vector<double> special = values(in[3].to(cpu));
  special[0] = NAN, special[1] = INFINITY, special[2] = -0.0;
  in[3] = values(shape, special, dtype).to(cuda(0));
  const Make make = [=] {
    Program p{{waves(shape, 1).to(dtype).to(cuda(0))}, {}};
    p.step = [=, w = p.state[0]](const Tensor& x) {
      const NoGrad off;
      return f(x, w);
    };
    return p;
  };
  return groups(make, in, account);
}

}  // namespace

TEST_CASE("Rows on a GPU take formulas as their load and their store", "[capture][fuse][cuda]") {
  const DType dtype = GENERATE(f32, bf16, f16);
  const Shape shape =
      GENERATE(Shape{48, 48}, Shape{3, 16, 64}, Shape{5, 1024}, Shape{700, 512}, Shape{1, 40});
  INFO(dtype << ' ' << shape);
  const auto both = [&](auto rows) {
    return made(
        shape,
        [=](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
          return {relu(rows(tanh((x + w) * 2))) - w};
        },
        dtype);
  };
  CHECK(both([](const Tensor& h) { return softmax(h, -1); }) ==
        Names{"fused(add, mul_scalar, tanh, softmax, relu, sub)"});
  CHECK(both([](const Tensor& h) { return log_softmax(h, -1); }) ==
        Names{"fused(add, mul_scalar, tanh, log_softmax, relu, sub)"});
  CHECK(both([](const Tensor& h) { return layer_norm(h); }) ==
        Names{"fused(add, mul_scalar, tanh, layer_norm, relu, sub)"});
  CHECK(both([](const Tensor& h) { return rms_norm(h); }) ==
        Names{"fused(add, mul_scalar, tanh, rms_norm, relu, sub)"});
  const auto load = [&](auto f) {
    return made(
        shape, [=](const Tensor& x, const Tensor& w) -> std::vector<Tensor> { return {f(square(x - w))}; },
        dtype);
  };
  CHECK(load([](const Tensor& h) { return mean(h, -1); }) == Names{"fused(sub, square, mean)"});
  CHECK(load([](const Tensor& h) { return sum(h, -1, true) * 3; }) == Names{"fused(sub, square, sum)"});
}

TEST_CASE("Rows on a GPU of any size and layout have the bits of their calls", "[capture][fuse][cuda]") {
  const DType dtype = GENERATE(f32, f64, bf16, f16);
  const Shape shape = GENERATE(Shape{45, 47}, Shape{3, 5, 33}, Shape{9, 44}, Shape{2, 4100}, Shape{3, 40000},
                               Shape{2, 70000}, Shape{5, 1}, Shape{4, 1, 7}, Shape{12, 2048});
  const Tensor row = waves({shape[shape.size() - 1]}, 2).to(dtype).to(cuda(0));
  INFO(dtype << ' ' << shape);
  made(
      shape,
      [=](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
        return {relu(softmax(x + w, -1)) - w, relu(layer_norm(x - w, row, row)),
                neg(rms_norm(x * row)) * row, mean(relu(x - w), -1),
                sum(abs(x), -1, true),        log_softmax(maximum(x, row), -1) * 2};
      },
      dtype);
}

TEST_CASE("Rows on a GPU follow their reads and writes", "[capture][fuse][cuda]") {
  std::string account;
  const auto of = [&](const Function& f, const Shape& shape = {48, 48}) {
    return made(shape, f, f32, &account);
  };
  SECTION("values that somebody else reads are written") {
    CHECK(of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
            const Tensor h = x * w, y = softmax(h, -1);
            return {h, y, y * 2 + h};
          }).size() == 1);
    CHECK(of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
            const Tensor h = x * w;
            return {h - mean(h, -1, true)};
          }) == Names{"fused(mul, mean)"});
  }
  SECTION("operands that are broadcast, views, transposed") {
    const Tensor row = waves({48}, 2).to(cuda(0)).to(f32), column = waves({48, 1}, 3).to(cuda(0)).to(f32),
                 wide = waves({48, 97}, 4).to(cuda(0)).to(f32),
                 turned = waves({48, 48}, 5).to(cuda(0)).to(f32);
    CHECK(of([=](const Tensor& x, const Tensor&) -> std::vector<Tensor> {
            return {layer_norm(x * row + column) * column + row};
          }).size() == 1);
    CHECK(of([=](const Tensor& x, const Tensor&) -> std::vector<Tensor> {
            return {layer_norm(x * wide.slice(1, 0, 96, 2)) - wide.slice(1, 49, 97)};
          }).size() == 1);
    CHECK(of([=](const Tensor& x, const Tensor&) -> std::vector<Tensor> {
            return {softmax(x * turned.t(), -1) - turned.t()};
          }).size() == 1);
    of([=](const Tensor& x, const Tensor&) -> std::vector<Tensor> {
      return {mean(turned.t() * x.t(), -1), layer_norm(x.t() * turned)};
    });
  }
  SECTION("changes in place") {
    of([](const Tensor& x, const Tensor&) -> std::vector<Tensor> {
      Tensor h = matmul(x, x.t());
      return {layer_norm(h.mul_(0.1).add_(1))};
    });
    of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
      Tensor h = x + w, y = softmax(h.mul_(2), -1);
      y.mul_(3).add_(h);
      h.sub_(1);
      return {y, h};
    });
    of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
      Tensor u = w;
      const Tensor y = layer_norm(x * u);
      u.mul_(0.5).add_(y);
      return {y};
    });
  }
  SECTION("draws are those of the whole tensor") {
    CHECK(of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
            return {dropout(layer_norm(dropout(x, 0.5) + w), 0.25)};
          }).size() == 1);
  }
  SECTION("two calls over rows") {
    CHECK((of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
             return {softmax(layer_norm(x * w) * 2, -1) + x};
           }) == Names{"fused(mul, layer_norm, mul_scalar)", "fused(softmax, add)"}));
  }
  SECTION("kernels that take no formulas") {
    of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> { return {softmax(x + w, -1)}; },
       {4, 8192});
    CHECK_THAT(account, Contains("softmax: goes over rows, by a kernel that takes no formulas on a GPU"));
    of([](const Tensor& x, const Tensor& w) -> std::vector<Tensor> { return {amax(x + w, -1)}; });
    CHECK_THAT(account, Contains("amax: goes over rows, by a kernel that takes no formulas on a GPU"));
  }
}

TEST_CASE("Gradients by rows on a GPU train to the bit", "[capture][fuse][cuda]") {
  const DType dtype = GENERATE(f32, bf16, f16);
  std::string account;
  const auto trained = [&](auto f) { account = account_of_training(cuda(0), dtype, f); };
  trained([](const Tensor& h, const Tensor&) { return relu(softmax(h, -1) * 3); });
  CHECK_THAT(account, !Contains("softmax': "));
  trained([](const Tensor& h, const Tensor&) { return relu(log_softmax(h, -1) * 3); });
  CHECK_THAT(account, !Contains("log_softmax': "));
  trained([](const Tensor& h, const Tensor& b) { return relu(layer_norm(h, b, b) * 3); });
  CHECK_THAT(account, !Contains("layer_norm': "));
  trained([](const Tensor& h, const Tensor& b) { return gelu(rms_norm(tanh(h), b) * 3); });
  CHECK_THAT(account, !Contains("rms_norm': "));
}

TEST_CASE("Rows on a GPU without a compiler have the bits of their calls", "[capture][fuse][cuda]") {
  const NoCompiler none;
  const DType dtype = GENERATE(f32, bf16, f16);
  std::string account;
  const Names fused = made(
      {48, 48},
      [](const Tensor& x, const Tensor& w) -> std::vector<Tensor> {
        return {relu(softmax(x + w, -1)) - w, relu(log_softmax(x * w, -1)), relu(layer_norm(x - w)) * w,
                neg(rms_norm(x * w)), mean(square(x - w), -1)};
      },
      dtype, &account);
  CHECK(fused.empty());
  CHECK_THAT(account, Contains("there is no compiler"));
  account = account_of_training(cuda(0), dtype, [](const Tensor& h, const Tensor& b) {
    return relu(layer_norm(softmax(h, -1), b, b) * 3);
  });
  CHECK_THAT(account, Contains("there is no compiler") && !Contains("one pass over"));
}
