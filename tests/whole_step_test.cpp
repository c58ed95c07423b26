#include <cotangent/core/device/in_call.h>
#include <cotangent/core/op/op_observer.h>

#include <cmath>
#include <functional>

#include "tests/catch.h"
#include "tests/training_testing.h"

// Whole steps of the kinds that the examples train, small: a tracer sees all of their work. Debug builds count it.

using namespace ct;
using namespace ct::testing;

extern Tensor bump(const Tensor& x, double a);  // examples/custom_op/bump/op.cpp

namespace {

std::uint64_t work_so_far() {
#ifdef COTANGENT_CHECK_CALLS
  return detail::work_count();
#else
  return 0;
#endif
}

struct Watch final : Tracer {
  bool begin(const KernelCall& call) override {
    if (depth++ == 0) mark = work_so_far();
    (call.forward ? forward : backward) += 1;
    return false;
  }
  void end(const KernelCall&) override {
    ++ends;
    if (--depth == 0) seen += work_so_far() - mark;
  }
  int depth = 0, forward = 0, backward = 0, ends = 0;
  std::uint64_t mark = 0, seen = 0;
};

// Two steps: the second finds what the first one made.
void check_seen(const std::function<void()>& step) {
  Watch watch;
#ifdef COTANGENT_CHECK_CALLS
  detail::set_call_checks(false);  // counts, where else it would throw
#endif
  const std::uint64_t before = work_so_far();
  {
    const TracerScope scope(watch);
    step();
    step();
  }
  const std::uint64_t done = work_so_far() - before;
#ifdef COTANGENT_CHECK_CALLS
  detail::set_call_checks(true);
  CHECK(done > 10);
#endif
  CHECK(watch.seen == done);
  CHECK(watch.forward > 10);
  CHECK(watch.backward > 4);
  CHECK(watch.ends == watch.forward + watch.backward);
  CHECK(watch.depth == 0);
}

// A step of mnist or cifar, with the figures that they collect.
template <class Model, class Optimizer>
void check_classifier(Model& model, Optimizer& optimizer, const Shape& images) {
  optim::OneCycleLR schedule(optimizer, {.max_lr = 0.1, .total_steps = 10});
  Tensor sum = zeros({});
  double right = 0;
  check_seen([&] {
    const Tensor x = rand(images), y = randint(0, 10, {images[0]});
    optimizer.zero_grad();
    const Tensor logits = model.forward(x), loss = cross_entropy(logits, y);
    loss.backward();
    if (!std::isfinite(loss.item())) throw Error("no number");
    optimizer.step();
    schedule.step();
    sum.add_(loss.detach());
    right += ct::sum(eq(argmax(logits, 1), y)).item();
  });
  CHECK(right >= 0);
}

nn::Sequential convolution(std::int64_t in, std::int64_t out) {
  return nn::Sequential(nn::Conv2d(in, out, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(out),
                        nn::ReLU());
}

}  // namespace

TEST_CASE("a tracer sees all work of a classifier's step", "[recording]") {
  manual_seed(1);
  SECTION("mnist, a perceptron") {
    nn::Sequential model(nn::Flatten(), nn::Linear(784, 64), nn::ReLU(), nn::Dropout(0.1),
                         nn::Linear(64, 10));
    optim::Adam adam(model.parameters(), {.lr = 1e-3});
    check_classifier(model, adam, {16, 1, 28, 28});
  }
  SECTION("mnist, convolutions") {
    nn::Sequential model(convolution(1, 4), nn::Conv2d(4, 8, 3, {.stride = 2}), nn::Flatten(),
                         nn::Linear(8 * 13 * 13, 10));
    optim::AdamW adam(model.parameters(), {.lr = 1e-3});
    check_classifier(model, adam, {8, 1, 28, 28});
  }
  SECTION("cifar, a residual block") {
    struct Block : nn::Module {
      Block() : found(add("found", nn::Sequential(convolution(4, 4), convolution(4, 4)))) {}
      Tensor forward(const Tensor& x) const { return relu(found(x) + x); }
      nn::Sequential found;
    };
    nn::Sequential model(convolution(3, 4), Block(), nn::AdaptiveAvgPool2d(1), nn::Flatten(),
                         nn::Linear(4, 10));
    optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
    check_classifier(model, sgd, {8, 3, 32, 32});
  }
}

TEST_CASE("a tracer sees all work of a language model's step", "[recording]") {
  const auto check = [](const Techniques& how) {
    manual_seed(2);
    TinyTraining training(how);
    const Tensor x = randint(0, TinyTraining::kVocabulary, {4, TinyTraining::kBlock});
    check_seen([&] { training.one_batch(x, x); });
  };
  SECTION("f32") { check({.accumulate = 1}); }
  SECTION("bf16 by Autocast, recomputed") { check({.autocast = bf16, .recompute = true, .accumulate = 1}); }
  SECTION("f16 weights with masters and a scaler") { check({.weights = f16, .accumulate = 2}); }
}

TEST_CASE("a tracer sees all work of other examples' steps", "[recording]") {
  manual_seed(3);
  SECTION("rnn") {
    nn::LSTM lstm(5, 8);
    nn::Linear head(8, 10);
    std::vector<Tensor> parameters = lstm.parameters();
    for (const Tensor& p : head.parameters()) parameters.push_back(p);
    optim::AdamW adam(parameters, {.lr = 1e-3});
    check_seen([&] {
      adam.zero_grad();
      const Tensor y = head.forward(lstm.forward(randn({6, 3, 5})).output);
      cross_entropy(y.reshape({18, 10}), randint(0, 10, {18})).backward();
      optim::clip_grad_norm_(parameters, 1.0);
      adam.step();
    });
  }
  SECTION("vae and dcgan") {
    nn::Sequential encode(nn::Linear(64, 8)),
        decode(nn::Linear(4, 16), nn::Unflatten(1, {4, 2, 2}),
               nn::ConvTranspose2d(4, 1, 4, {.stride = 2, .padding = 1}));
    std::vector<Tensor> parameters = encode.parameters();
    for (const Tensor& p : decode.parameters()) parameters.push_back(p);
    optim::Adam adam(parameters, {.lr = 1e-3});
    check_seen([&] {
      adam.zero_grad();
      const Tensor code = encode.forward(rand({5, 64})), mean = code.narrow(1, 0, 4),
                   spread = code.narrow(1, 4, 4);
      const Tensor y = decode.forward(mean + exp(spread / 2) * randn({5, 4}));
      (bce_with_logits(y, rand(y.shape())) + sum(square(mean) + exp(spread) - spread)).backward();
      adam.step();
    });
  }
  SECTION("pinn: gradients of gradients") {
    nn::Sequential model(nn::Linear(1, 8), nn::Tanh(), nn::Linear(8, 1));
    optim::Adam adam(model.parameters(), {.lr = 1e-3});
    check_seen([&] {
      adam.zero_grad();
      Tensor t = rand({9, 1});
      t.set_requires_grad();
      const Tensor u = model.forward(t);
      const Tensor slope = grad({sum(u)}, {t}, {}, {.create_graph = true})[0];
      mean(square(slope + u)).backward();
      adam.step();
    });
  }
  SECTION("dqn: a memory, an averaged network") {
    nn::Sequential q(nn::Linear(4, 16), nn::ReLU(), nn::Linear(16, 2));
    optim::Adam adam(q.parameters(), {.lr = 1e-3});
    optim::Ema average(q, {.decay = 0.9});
    const Tensor states = zeros({20, 4}), next = zeros({20, 4}), actions = zeros({20, 1}, {.dtype = i64}),
                 goes_on = zeros({20, 1});
    std::int64_t row = 0;
    check_seen([&] {
      const std::vector<float> state = rand({4}).to_vector<float>();
      {
        const NoGrad guard;
        actions[row] = argmax(q.forward(from_vector(state))).item<std::int64_t>();
      }
      states[row] = from_vector(state), next[row] = from_vector(state), goes_on[row] = 1;
      ++row;
      const Tensor rows = randint(0, row, {8});
      const auto of = [&](const Tensor& all) { return index_select(all, 0, rows); };
      Tensor target;
      {
        const NoGrad guard;
        const Tensor best = argmax(q.forward(of(next)), 1, true);
        const optim::EmaScope averaged(average);
        target = 1 + 0.99 * of(goes_on) * gather(q.forward(of(next)), 1, best);
      }
      adam.zero_grad();
      smooth_l1_loss(gather(q.forward(of(states)), 1, of(actions)), target).backward();
      optim::clip_grad_norm_(q.parameters(), 10);
      adam.step();
      average.update();
    });
  }
  SECTION("custom_op: an op of one's own") {
    nn::Linear in(1, 8), out(8, 1);
    std::vector<Tensor> parameters = in.parameters();
    for (const Tensor& p : out.parameters()) parameters.push_back(p);
    optim::Adam adam(parameters, {.lr = 1e-2});
    const Tensor x = linspace(-1, 1, 32).view(-1, 1), y = sin(12 * x);
    check_seen([&] {
      adam.zero_grad();
      mse_loss(out.forward(bump(in.forward(x), 20)), y).backward();
      adam.step();
    });
  }
}
