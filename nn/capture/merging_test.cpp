#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/nn/optim/grad_scaler.h>

#include "tests/fusion_testing.h"

// Calls that run as parts of others: which do, which do not, and that no bit tells.

using namespace ct;
using namespace ct::testing;

namespace {

using Names = std::vector<std::string>;
using Loss = std::function<Tensor(const Tensor& logits, const Tensor& labels)>;

bool has(const Names& names, const char* name) { return std::ranges::count(names, std::string(name)) > 0; }

// The calls of a step, whose bits are those of the plain step after each.
Names calls_of(const Make& make, const std::vector<Tensor>& inputs) {
  const StepRun plain = run(make, inputs, {.enabled = false}), merged = run(make, inputs, {}),
                apart = run(make, inputs, {.fuse = false});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    INFO("step " << i);
    CHECK((merged.steps[i] == plain.steps[i]));
    CHECK((apart.steps[i] == plain.steps[i]));
  }
  CHECK_FALSE(has(apart.calls, "cross_entropy_with_gradient"));
  return merged.calls;
}

std::vector<Tensor> data(Device device, DType dtype = f32, std::int64_t rows = 9) {
  return inputs_of(device, dtype, {rows, 6});
}

// Steps by a loss of logits x w, whose result and gradients are looked at.
Make with_loss(Device device, DType dtype, const Loss& loss, std::int64_t classes = 7) {
  return [=] {
    Program p{{waves({6, classes}, 1).to(dtype).to(device).set_requires_grad()}, {}};
    p.step = [=, w = p.state[0]](const Tensor& x) mutable -> std::vector<Tensor> {
      const Tensor labels = remainder(arange(x.size(0), {.device = device}), classes).to(i64);
      Tensor y = loss(matmul(x, w), labels);
      w.set_grad({});
      y.backward();
      const Tensor g = w.grad();
      {
        const NoGrad off;
        w.sub_(g * 0.1);
      }
      return {y, g};
    };
    return p;
  };
}

void check_losses(Device device) {
  const auto plain = [](const Tensor& x, const Tensor& t) { return cross_entropy(x, t); };
  for (const DType dtype : {f32, f64, f16, bf16}) {
    const Names calls = calls_of(with_loss(device, dtype, plain), data(device, dtype));
    INFO(dtype);
    CHECK(std::ranges::count(calls, "cross_entropy_with_gradient") == 1);
    CHECK_FALSE(has(calls, "cross_entropy"));
    CHECK_FALSE(has(calls, "cross_entropy'"));
  }
  for (const std::int64_t rows : {1, 600, 5000})
    for (const std::int64_t classes : {1, 7, 33, 64, 3000}) {
      if (rows * classes > 200000) continue;
      INFO(rows << " rows, " << classes << " classes");
      CHECK(has(calls_of(with_loss(device, f32, plain, classes), data(device, f32, rows)),
                "cross_entropy_with_gradient"));
    }
  for (const Reduction reduction : {Reduction::sum, Reduction::mean})
    for (const double smoothing : {0.0, 0.1}) {
      const auto f = [=](const Tensor& x, const Tensor& t) {
        const Tensor weight = full({x.size(1)}, 0.5, {.device = x.device()});
        return cross_entropy(
            x, t,
            {.weight = weight, .ignore_index = 2, .reduction = reduction, .label_smoothing = smoothing});
      };
      CHECK(has(calls_of(with_loss(device, f32, f), data(device)), "cross_entropy_with_gradient"));
    }
  // All rows ignored: NaN.
  const auto none = [](const Tensor& x, const Tensor& t) {
    return cross_entropy(x, zeros_like(t), {.ignore_index = 0});
  };
  CHECK(has(calls_of(with_loss(device, f32, none), data(device)), "cross_entropy_with_gradient"));

  // Who reads the loss, or the logits whose memory the gradient takes, in between keeps the two apart.
  const auto scaled = [](const Tensor& x, const Tensor& t) { return cross_entropy(x, t) * 2; };
  CHECK_FALSE(has(calls_of(with_loss(device, f32, scaled), data(device)), "cross_entropy_with_gradient"));
  const auto twice = [](const Tensor& x, const Tensor& t) {
    return cross_entropy(x, t) + cross_entropy(-x, t);
  };
  CHECK_FALSE(has(calls_of(with_loss(device, f32, twice), data(device)), "cross_entropy_with_gradient"));
}

enum class Clipped { all, some, by_steps, read, scaled };

// Steps with clipping; the gradients are looked at behind them.
Make with_clipping(Device device, DType dtype, Clipped how, double max_norm, double p) {
  return [=] {
    struct State {
      std::vector<Tensor> params;
      std::vector<std::unique_ptr<optim::Optimizer>> optimizers;
      std::optional<optim::GradScaler> scaler;
    };
    auto s = std::make_shared<State>();
    for (int k = 0; k < 3; ++k)
      s->params.push_back(waves({6, 5}, k).to(dtype).to(device).set_requires_grad());
    const bool apart = how == Clipped::by_steps;
    if (apart) {
      s->optimizers.push_back(std::make_unique<optim::SGD>(std::vector{s->params[0]},
                                                           optim::SGDOptions{.lr = 0.1, .momentum = 0.9}));
      s->optimizers.push_back(std::make_unique<optim::AdamW>(std::vector{s->params[1], s->params[2]}));
    } else {
      s->optimizers.push_back(std::make_unique<optim::AdamW>(
          how == Clipped::some ? std::vector{s->params[0], s->params[1]} : s->params));
    }
    if (how == Clipped::scaled) s->scaler.emplace();
    Program program{s->params, {}};
    program.step = [=](const Tensor& x) -> std::vector<Tensor> {
      for (const auto& o : s->optimizers) o->zero_grad();
      s->params[2].set_grad({});
      Tensor y = sum(matmul(x, s->params[0]) * matmul(x, s->params[1]) + square(matmul(x, s->params[2])));
      (s->scaler ? s->scaler->scale(y) : y).backward();
      if (s->scaler) s->scaler->unscale_(*s->optimizers[0]);
      const Tensor norm = optim::clip_grad_norm_(s->params, max_norm, {.norm_type = p});
      Tensor seen = how == Clipped::read ? sum(s->params[1].grad()) : norm;
      for (const auto& o : s->optimizers) s->scaler ? s->scaler->step(*o) : o->step();
      if (s->scaler) s->scaler->update();
      std::vector<Tensor> results{norm, seen};
      for (const Tensor& t : s->params) results.push_back(t.grad());
      return results;
    };
    return program;
  };
}

void check_clipping(Device device) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const double max_norm : {0.5, 1e9})
      for (const double p : {2.0, kInf}) {
        INFO(dtype << ", at most " << max_norm << ", p = " << p);
        const Names calls =
            calls_of(with_clipping(device, dtype, Clipped::all, max_norm, p), data(device, dtype));
        CHECK(has(calls, "total_norm"));
        CHECK_FALSE(has(calls, "clip_to_norm"));
      }
  const auto clips = [&](Clipped how) {
    return has(calls_of(with_clipping(device, f32, how, 0.5, 2), data(device)), "clip_to_norm");
  };
  CHECK_FALSE(clips(Clipped::by_steps));
  CHECK(clips(Clipped::some));    // a gradient that no step reads
  CHECK(clips(Clipped::read));    // somebody else reads one in between
  CHECK(clips(Clipped::scaled));  // a step that may be left out, whose gradients are clipped all the same
}

// A number that is filled in and only read is written once; one that is added to, or that outlives the step, in each replay.
void check_constants(Device device) {
  const auto names = [&](auto f) {
    return calls_of([=] { return Program{{zeros({4}, {.device = device})}, f}; }, data(device));
  };
  CHECK_FALSE(has(
      names([](const Tensor& x) { return std::vector<Tensor>{x * full({}, 3.f, {.device = x.device()})}; }),
      "fill"));
  CHECK(has(names([](const Tensor& x) {
              Tensor t = full({6}, 3.f, {.device = x.device()});
              t.add_(x.select(0, 0));
              return std::vector<Tensor>{x * t};
            }),
            "fill"));
  CHECK(has(names([](const Tensor& x) { return std::vector<Tensor>{full({}, 3.f, {.device = x.device()})}; }),
            "fill"));
}

// Weights are rounded in one call, special values included; what the step makes, or changes before, is rounded by itself.
void check_rounding(Device device) {
  const auto make = [=](DType low, bool changes) {
    return Make([=] {
      Program p;
      for (int k = 0; k < 4; ++k) {
        Tensor w = waves({6, k == 2 ? 3 : 40 * k + 7}, k).to(f32);
        w.view({-1}).narrow(0, 0, 3).copy_(tensor({std::nan(""), -1e39, 1e-42}));
        p.state.push_back(w.to(device));
      }
      p.step = [=, w = p.state](const Tensor& x) mutable -> std::vector<Tensor> {
        const Tensor low_x = x.to(low);
        std::vector<Tensor> weights, results;
        for (std::size_t k = 0; k < w.size(); ++k) {
          if (changes && k == 2) w[k].mul_(0.5);
          weights.push_back(w[k].to(low));
          results.push_back(matmul(low_x, weights[k]));
        }
        results.push_back(w[3].select(1, 2).to(low) * 2);
        return results;
      };
      return p;
    });
  };
  for (const DType low : {f16, bf16}) {
    const Names names = calls_of(make(low, false), data(device));
    CHECK(std::ranges::count(names, "round_all") == 1);
    CHECK(std::ranges::count(names, "copy") <= 1);  // a column
    CHECK(std::ranges::count(calls_of(make(low, true), data(device)), "copy") <= 2);
  }
}

}  // namespace

TEST_CASE("a loss makes its gradient in the same call", "[capture]") { check_losses(cpu); }
TEST_CASE("a loss makes its gradient in the same call on a GPU", "[capture][cuda]") { check_losses(cuda(0)); }
TEST_CASE("a step of an optimizer clips its gradients", "[capture]") { check_clipping(cpu); }
TEST_CASE("a step of an optimizer clips its gradients on a GPU", "[capture][cuda]") {
  check_clipping(cuda(0));
}
TEST_CASE("weights are rounded in one call", "[capture]") { check_rounding(cpu); }
TEST_CASE("weights are rounded in one call on a GPU", "[capture][cuda]") { check_rounding(cuda(0)); }
TEST_CASE("a number is written once", "[capture]") { check_constants(cpu); }
TEST_CASE("a number is written once on a GPU", "[capture][cuda]") { check_constants(cuda(0)); }

TEST_CASE("gradients of a packed projection are not copied in a replay", "[capture][cuda]") {
  const auto launches = [](bool packed) {
    Tensor qkv = randn({2, 64, 3, 2, 64}).to(bf16).to(cuda(0)).set_requires_grad();
    std::vector<Tensor> apart;
    for (const Tensor& t : qkv.detach().unbind(2)) apart.push_back(t.contiguous().set_requires_grad());
    auto step = capture([&] {
      const std::vector<Tensor> parts = packed ? qkv.unbind(2) : apart;
      for (Tensor& t : apart) t.set_grad({});
      qkv.set_grad({});
      const auto heads = [&](std::size_t k) { return parts[k].transpose(1, 2); };
      sum(scaled_dot_product_attention(heads(0), heads(1), heads(2))).backward();
    });
    while (step.replays() < 2) step();
    return step.launches();
  };
  CHECK(launches(true) <= launches(false));
}

TEST_CASE("a step of a perceptron is eight kernels", "[capture][cuda]") {
  nn::Sequential model(nn::Linear(36, 32), nn::ReLU(), nn::Linear(32, 32), nn::ReLU(), nn::Linear(32, 5));
  model.to(cuda(0));
  optim::Adam adam(model.parameters());
  const auto kernels_of = [&](bool clips) {
    auto step = capture([&](const Tensor& x, const Tensor& y) {
      adam.zero_grad();
      Tensor loss = cross_entropy(model.forward(x), y);
      loss.backward();
      if (clips) optim::clip_grad_norm_(model.parameters(), 1.0);
      adam.step();
      return loss;
    });
    const Tensor x = randn({16, 36}, {.device = cuda(0)}), y = randint(0, 5, {16}).to(cuda(0));
    CHECK(step.launches() == 0);
    while (step.replays() < 2) step(x, y);
    const std::size_t kernels = step.kernels().size();
    // One more copies the arguments. An allocator that poisons has a node for each temporary of a kernel, too.
    if (!std::getenv("COTANGENT_TEST_POISON")) CHECK(step.launches() == kernels + 1);
    return kernels;
  };
  CHECK(kernels_of(false) == 8);
  CHECK(kernels_of(true) == 9);
}
