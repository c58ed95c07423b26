#include <string>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>

#include "tests/fusion_testing.h"

// Groups around losses, whose results are of all rows: which there are, and that no bit tells.

using namespace ct;
using namespace ct::testing;
using Catch::Matchers::Contains;

namespace {

using Loss = std::function<Tensor(const Tensor& h)>;

Tensor labels_of(const Shape& shape, Device device) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < numel(shape) / shape.back(); ++i)
    labels.push_back(i % 5 == 3 ? -100 : (i * 7) % shape.back());
  return tensor(labels).to(device);
}

// The groups of a loss of formulas, without gradients.
Names evaluated(Device device, const Shape& shape, DType dtype, const Loss& loss,
                std::string* account = nullptr) {
  const Make make = [=] {
    Program p{{waves(shape, 1).to(dtype).to(device)}, {}};
    p.step = [=, w = p.state[0]](const Tensor& x) -> std::vector<Tensor> {
      const NoGrad off;
      return {loss((x + w) * 2)};
    };
    return p;
  };
  return groups(make, inputs_of(device, dtype, shape), account);
}

// The groups of a step that trains w and looks at the loss. `keeps`: the logits are looked at, too.
Names trained(Device device, const Shape& shape, DType dtype, const Loss& loss,
              std::string* account = nullptr, bool keeps = false) {
  const Make make = [=] {
    Program p{{parameter(device, dtype, 1, shape)}, {}};
    p.step = [=, w = p.state[0]](const Tensor& x) -> std::vector<Tensor> {
      Tensor h = x * w * 2, kept;
      if (keeps) kept = h;
      Tensor y = loss(std::move(h));
      const Tensor g = grad({y}, {w})[0];
      const NoGrad off;
      Tensor(w).sub_(g * 0.1);
      return {y, kept};
    };
    return p;
  };
  return groups(make, inputs_of(device, dtype, shape), account);
}

// Each loss of formulas is one group with them, and so is the sum or mean of all elements.
void check_loads(Device device, const Shape& shape, DType dtype, Reduction reduction) {
  INFO(dtype << ' ' << shape << ' ' << name(reduction));
  const Tensor labels = labels_of(shape, device), soft = softmax(waves(shape, 3), -1).to(dtype).to(device);
  const auto is_one = [&](const char* op, const Loss& loss) {
    CHECK(evaluated(device, shape, dtype, loss) == Names{std::string("fused(add, mul_scalar, ") + op + ')'});
  };
  is_one("cross_entropy",
         [=](const Tensor& h) { return cross_entropy(h, labels, {.reduction = reduction}); });
  is_one("cross_entropy", [=](const Tensor& h) {
    return cross_entropy(h, labels, {.reduction = reduction, .label_smoothing = 0.1});
  });
  is_one("cross_entropy_soft",
         [=](const Tensor& h) { return cross_entropy(h, soft, {.reduction = reduction}); });
  is_one("mse_loss", [=](const Tensor& h) { return mse_loss(h, soft, {.reduction = reduction}); });
  is_one("bce_with_logits",
         [=](const Tensor& h) { return bce_with_logits(h, soft, {.reduction = reduction}); });
  if (reduction == Reduction::mean)
    is_one("mean", [](const Tensor& h) { return mean(h); });
  else
    is_one("sum", [](const Tensor& h) { return sum(h); });
}

const Shape kShapes[] = {{45, 47}, {700, 33}, {3, 9000}, {40, 9000}, {5, 1}, {1, 3}};

}  // namespace

TEST_CASE("Losses take formulas as their load", "[capture][fuse]") {
  const DType dtype = GENERATE(f32, bf16, f16);
  const Reduction reduction = GENERATE(Reduction::mean, Reduction::sum);
  for (const Shape& shape : kShapes) {
    check_loads(cpu, shape, dtype, reduction);
    const Tensor target = waves(shape, 3).to(dtype);
    const auto l1 = [=](const Tensor& h) { return l1_loss(h, target, {.reduction = reduction}); };
    const char* const sum = reduction == Reduction::mean ? "mean" : "sum";
    CHECK(evaluated(cpu, shape, dtype, l1) ==
          Names{std::string("fused(add, mul_scalar, sub, abs, ") + sum + ')'});
  }
}

TEST_CASE("Losses take formulas while they train", "[capture][fuse]") {
  const DType dtype = GENERATE(f32, f64, bf16);
  const bool keeps = GENERATE(false, true);
  for (const Shape& shape : kShapes) {
    INFO(dtype << ' ' << shape << ' ' << keeps);
    const Tensor labels = labels_of(shape, cpu), soft = softmax(waves(shape, 3), -1).to(dtype);
    std::string account;
    const auto of = [&](const Loss& loss) { return trained(cpu, shape, dtype, loss, &account, keeps); };
    const Names list = of([=](const Tensor& h) { return cross_entropy(tanh(h), labels); });
    if (dtype != f64) {
      CHECK(list.size() == 1);
      CHECK_THAT(account, !Contains("cross_entropy_with_gradient: "));
    } else {
      CHECK_THAT(account, Contains("by a plain kernel"));
    }
    of([=](const Tensor& h) { return cross_entropy(h * 0.5, soft); });
    of([=](const Tensor& h) { return cross_entropy(h * 0.5, soft, {.label_smoothing = 0.1}) * 3; });
    of([=](const Tensor& h) { return sum(cross_entropy(h, labels, {.reduction = Reduction::none})); });
    CHECK(of([=](const Tensor& h) { return mse_loss(tanh(h), soft); }).size() == 2);
    CHECK_THAT(account, !Contains("mse_loss: ") && !Contains("mse_loss': "));
    of([=](const Tensor& h) { return mse_loss(soft, h, {.reduction = Reduction::sum}) * 2; });
    of([=](const Tensor& h) { return mean(mse_loss(h, soft, {.reduction = Reduction::none})); });
    of([=](const Tensor& h) { return bce_with_logits(h, soft, {.weight = soft}); });
  }
}

TEST_CASE("Losses on a GPU take formulas as their load", "[capture][fuse][cuda]") {
  const DType dtype = GENERATE(f32, bf16, f16);
  const Reduction reduction = GENERATE(Reduction::mean, Reduction::sum);
  const Shape shape = GENERATE(Shape{48, 48}, Shape{45, 47}, Shape{700, 64}, Shape{5, 1024}, Shape{700, 2048},
                               Shape{3, 33000}, Shape{5, 1}, Shape{1, 3});
  check_loads(cuda(0), shape, dtype, reduction);
}

TEST_CASE("Losses on a GPU take formulas while they train", "[capture][fuse][cuda]") {
  const DType dtype = GENERATE(f32, f64, bf16, f16);
  const bool keeps = GENERATE(false, true);
  const Shape shape = GENERATE(Shape{48, 48}, Shape{45, 47}, Shape{700, 64}, Shape{8, 1024}, Shape{700, 2048},
                               Shape{3, 33000}, Shape{5, 1});
  INFO(dtype << ' ' << shape << ' ' << keeps);
  const Device gpu = cuda(0);
  const Tensor labels = labels_of(shape, gpu), soft = softmax(waves(shape, 3), -1).to(dtype).to(gpu);
  std::string account;
  const auto of = [&](const Loss& loss) { return trained(gpu, shape, dtype, loss, &account, keeps); };
  of([=](const Tensor& h) { return cross_entropy(h * 3, labels); });
  if (dtype != f64) CHECK_THAT(account, !Contains("cross_entropy_with_gradient: "));
  of([=](const Tensor& h) { return cross_entropy(tanh(h), labels); });
  if (dtype != f64 && shape.back() % 1024 == 0)
    CHECK_THAT(account, !Contains("cross_entropy_with_gradient: "));
  of([=](const Tensor& h) { return cross_entropy(h * 0.5, soft); });
  of([=](const Tensor& h) { return cross_entropy(h * 0.5, soft, {.label_smoothing = 0.1}) * 3; });
  of([=](const Tensor& h) { return sum(cross_entropy(h, labels, {.reduction = Reduction::none})); });
  of([=](const Tensor& h) { return mse_loss(tanh(h), soft); });
  if (dtype != f64 && numel(shape) % 8 == 0)
    CHECK_THAT(account, !Contains("mse_loss: ") && !Contains("mse_loss': "));
  of([=](const Tensor& h) { return mse_loss(soft, h, {.reduction = Reduction::sum}) * 2; });
  of([=](const Tensor& h) { return mean(mse_loss(h, soft, {.reduction = Reduction::none})); });
  of([=](const Tensor& h) { return bce_with_logits(h, soft, {.weight = soft}); });
}
