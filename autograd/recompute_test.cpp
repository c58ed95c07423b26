#include <cotangent/autograd/recompute.h>

#include <cotangent/cotangent.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <thread>

#include "tests/catch.h"

using ct::Tensor;
using Tensors = std::vector<Tensor>;

namespace {

template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) { return e.what(); } catch (const std::exception& e) {
    return std::string("another type: ") + e.what();
  }
  return "nothing was thrown";
}

// y = x + dropout(gelu(x w)) v
struct Block {
  Tensor w, v;
  explicit Block(std::int64_t n, ct::Device device = ct::cpu) : w(weight(n, device)), v(weight(n, device)) {}
  static Tensor weight(std::int64_t n, ct::Device device) {
    return (ct::randn({n, n}, {.device = device}) * 0.2).detach().set_requires_grad();
  }
  Tensor operator()(const Tensor& x) const {
    return x + ct::linear(ct::dropout(ct::gelu(ct::linear(x, w)), 0.3), v);
  }
};

struct Result {
  std::vector<float> loss;
  std::vector<std::vector<float>> grads;
  ct::GeneratorState draws;
  bool operator==(const Result& o) const {
    return loss == o.loss && grads == o.grads && draws.seed == o.draws.seed && draws.offset == o.draws.offset;
  }
};

enum class How { plain, blocks };

// Two passes over three blocks, the first of which is used again at the end.
Result run(How how, std::optional<ct::DType> autocast = {}, ct::Device device = ct::cpu) {
  ct::manual_seed(7);
  const std::vector<Block> blocks{Block(24, device), Block(24, device), Block(24, device)};
  Tensor x = ct::randn({5, 24}, {.device = device}).set_requires_grad();
  const auto call = [how](const Block& block, const Tensor& h) -> Tensor {
    return how == How::plain ? block(h) : ct::recompute(block, h);
  };
  Result result;
  for (int pass = 0; pass < 2; ++pass) {
    Tensor loss;
    {
      std::optional<ct::Autocast> guard;
      if (autocast) guard.emplace(*autocast);
      Tensor h = x * 1.5;
      for (const Block& block : blocks) h = call(block, h);
      h = call(blocks[0], h);
      loss = (h * h * x).mean();
    }
    loss.backward();
    result.loss.push_back(loss.item<float>());
  }
  for (const Block& b : blocks)
    for (const Tensor& t : {b.w, b.v}) result.grads.push_back(t.grad().to_vector<float>());
  result.grads.push_back(x.grad().to_vector<float>());
  result.draws = ct::default_generator().state();
  return result;
}

}  // namespace

TEST_CASE("recompute: the same bits as without, dropout included", "[recompute]") {
  CHECK(run(How::blocks) == run(How::plain));
}

TEST_CASE("recompute nests", "[recompute]") {
  ct::manual_seed(1);
  const Block block(8);
  const auto both = [](const Block& b, const Tensor& t, bool inner) {
    const auto once = [&](const Tensor& s) { return inner ? ct::recompute(b, s) : b(s); };
    const Tensor left = once(t);
    return left + once(t * 0.5);
  };
  std::vector<std::vector<float>> grads[2];
  for (const bool recomputed : {false, true}) {
    ct::manual_seed(2);
    Tensor x = ct::ones({3, 8}).set_requires_grad();
    Tensor(block.w).set_grad({});
    Tensor(block.v).set_grad({});
    const Tensor y = recomputed ? ct::recompute([&](const Tensor& t) { return both(block, t, true); }, x)
                                : both(block, x, false);
    ct::square(y).sum().backward();
    for (const Tensor& t : {x, block.w, block.v}) grads[recomputed].push_back(t.grad().to_vector<float>());
  }
  CHECK(grads[0] == grads[1]);
}

TEST_CASE("recompute under Autocast, with backward outside of the guard", "[recompute][autocast]") {
  const ct::DType dtype = GENERATE(ct::bf16, ct::f16);
  const Result want = run(How::plain, dtype), got = run(How::blocks, dtype);
  CHECK(want.loss == got.loss);
  // The first block is used twice. One converted weight collects both gradients in 16 bits when nothing is
  // recomputed; recomputed uses are converted each on their own. The others are the same bits.
  for (std::size_t i = 2; i < want.grads.size(); ++i) CHECK(want.grads[i] == got.grads[i]);
  float largest = 0;
  for (const float g : want.grads[0]) largest = std::max(largest, std::abs(g));
  for (std::size_t k = 0; k < want.grads[0].size(); ++k)
    CHECK(std::abs(got.grads[0][k] - want.grads[0][k]) < 0.01 * largest);
  CHECK_FALSE(ct::autocast_enabled());
}

TEST_CASE("recompute: backward inside the guard does not meet weights converted later",
          "[recompute][autocast]") {
  ct::manual_seed(3);
  const Block block(8);
  const Tensor x = ct::randn({2, 8});
  Tensor w = block.w;
  const auto forward = [&](bool recomputed) {
    ct::manual_seed(4);
    w.set_grad({});
    const ct::Autocast guard(ct::bf16);
    Tensor y = recomputed ? ct::recompute(block, x) : block(x);
    y = y + ct::linear(x, w);  // converts w for the tape after recompute() was called
    y.sum().backward();
    return w.grad().to_vector<float>();
  };
  const std::vector<float> want = forward(false), got = forward(true);
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Approx(want[i]).epsilon(0.02).margin(1e-2));
}

TEST_CASE("recompute: several inputs and outputs, captured results of earlier ops", "[recompute]") {
  const auto grads_of = [](bool recomputed) {
    const Tensor a = ct::from_vector<double>({1, 2}).set_requires_grad();
    const Tensor b = ct::from_vector<double>({3, 4}).set_requires_grad();
    const Tensor c = ct::from_vector<double>({5, 6}).set_requires_grad();
    const Tensor index = ct::zeros({2}, {.dtype = ct::i64});
    const Tensor earlier = c * c;  // captured, not an input
    const auto fn = [earlier](const Tensors& in) -> Tensors {
      return {in[0] * in[1] * earlier, in[0], in[2], in[1] * 7.0, Tensor(in[1] + in[0]).detach()};
    };
    const Tensors inputs{a * 2.0, b, index};
    const Tensors out = recomputed ? ct::recompute(fn, inputs) : fn(inputs);
    CHECK(out[2].dtype() == ct::i64);
    // Output 3 is left unused.
    (out[0] * out[1]).sum().backward();
    Tensors grads{a.grad(), b.grad(), c.grad()};
    std::vector<std::vector<double>> values;
    for (const Tensor& g : grads) values.push_back(g.to_vector<double>());
    return values;
  };
  CHECK(grads_of(true) == grads_of(false));
}

TEST_CASE("recompute: parameters get their gradients though no input wants one", "[recompute]") {
  const Block block(4);
  const Tensor x = ct::randn({2, 4});
  const Tensor y = ct::recompute(block, x);
  CHECK(y.requires_grad());
  CHECK(y.grad_fn_name() == "recompute");
  y.sum().backward();
  CHECK(block.w.grad().defined());
  CHECK(block.v.grad().defined());
  const ct::NoGrad no_grad;
  CHECK_FALSE(ct::recompute(block, x).requires_grad());
}

TEST_CASE("recompute: grad() captures, leaves nothing behind, and may walk twice", "[recompute]") {
  const Tensor x = ct::from_vector<double>({2}).set_requires_grad();
  const Tensor w = ct::from_vector<double>({3}).set_requires_grad();
  int calls = 0;
  const Tensor y = ct::recompute(
      [w, &calls](const Tensor& t) {
        ++calls;
        return t * t * w;
      },
      x * 1.0);
  CHECK(calls == 1);
  const Tensors outputs{y}, inputs{x, w};
  for (int pass = 0; pass < 2; ++pass) {
    const Tensors grads = ct::grad(outputs, inputs, {}, {.retain_graph = true});
    CHECK(grads[0].item() == 12);
    CHECK(grads[1].item() == 4);
  }
  CHECK(calls == 3);
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE(w.grad().defined());
  y.backward();
  CHECK(x.grad().item() == 12);
  CHECK_THAT(message_of<ct::AutogradError>([&] { y.backward(); }), Catch::Contains("retain_graph"));
}

TEST_CASE("recompute: hooks fire once, weight gradients accumulate in place", "[recompute]") {
  const Block block(4);
  int fired = 0;
  block.w.register_post_accumulate_hook([&](const Tensor&) { ++fired; });
  const Tensor x = ct::randn({2, 4});
  ct::recompute(block, ct::recompute(block, x)).sum().backward();
  CHECK(fired == 1);
  const void* place = block.v.grad().raw_data();
  ct::recompute(block, x).sum().backward();
  CHECK(block.v.grad().raw_data() == place);
}

TEST_CASE("recompute: what can't be computed again is an error", "[recompute]") {
  Tensor x = ct::from_vector<double>({2}).set_requires_grad();
  SECTION("no function") {
    CHECK_THROWS_AS(ct::recompute(std::function<Tensor(const Tensor&)>(), x), ct::ValueError);
  }
  SECTION("an input changed in place") {
    const Tensor h = x * 1.0;
    const Tensor y = ct::recompute([](const Tensor& t) { return t * t; }, h);
    {
      const ct::NoGrad no_grad;
      h.detach().fill_(5);
    }
    CHECK_THAT(message_of<ct::AutogradError>([&] { y.backward(); }),
               Catch::Contains("input 0 of 'recompute'") && Catch::Contains("changed in place"));
  }
  SECTION("another shape") {
    int calls = 0;
    const Tensor y = ct::recompute(
        [&calls](const Tensor& t) {
          return calls++ ? ct::concat({t, t}, 0) : t * 1.0;
        },
        x);
    CHECK_THAT(message_of<ct::AutogradError>([&] { y.backward(); }),
               Catch::Contains("the first time f64[1]"));
  }
  SECTION("a tensor made later") {
    Tensor other = x * 3.0;
    const Tensor y = ct::recompute([&other](const Tensor& t) { return t * other; }, x);
    other = y * 2.0;  // the function would use its own result
    CHECK_THAT(message_of<ct::AutogradError>([&] { other.backward(); }), Catch::Contains("capture by value"));
  }
  SECTION("the function throws") {
    int calls = 0;
    const Tensor y = ct::recompute(
        [&calls](const Tensor& t) {
          if (calls++) throw std::runtime_error("no more");
          return t * 1.0;
        },
        x);
    const ct::GeneratorState before = ct::default_generator().state();
    CHECK_THROWS_AS(y.backward(), std::runtime_error);
    CHECK(ct::default_generator().state().offset == before.offset);
    CHECK(ct::grad_enabled());
  }
}

TEST_CASE("recompute: memory of one block instead of all", "[recompute]") {
  constexpr int kBlocks = 16;
  // An activation is far larger than the 64 KiB of each thread to which a peak is exact.
  constexpr std::int64_t kRows = 4096, kWidth = 64, kBytes = kRows * kWidth * 4;
  std::vector<Block> blocks;
  for (int i = 0; i < kBlocks; ++i) blocks.emplace_back(kWidth);
  const Tensor x = ct::randn({kRows, kWidth});
  const auto peak = [&](bool recomputed) {
    for (const Block& b : blocks) {  // so that gradients are no part of it
      Tensor(b.w).set_grad(ct::zeros_like(b.w));
      Tensor(b.v).set_grad(ct::zeros_like(b.v));
    }
    const std::size_t before = ct::memory_stats(ct::cpu).in_use;
    ct::reset_peak_stats(ct::cpu);
    Tensor h = x;
    for (const Block& b : blocks) h = recomputed ? ct::recompute(b, h) : b(h);
    h.sum().backward();
    h = {};
    CHECK(ct::memory_stats(ct::cpu).in_use <= before + 64 * 1024);
    return static_cast<double>(ct::memory_stats(ct::cpu).peak_in_use - before) / kBytes;
  };
  peak(false);  // tensors that other tests left behind are freed now, and not while it is counted
  const double plain = peak(false), recomputed = peak(true);
  INFO("activations held at most: " << plain << " without, " << recomputed << " with");
  CHECK(plain > 3 * kBlocks);        // input of gelu, of dropout and of the second product
  CHECK(recomputed < kBlocks + 10);  // one per block, and one block's own
}

TEST_CASE("recompute: long chains and several threads", "[recompute]") {
  Tensor x = ct::ones({1}).set_requires_grad();
  Tensor h = x;
  for (int i = 0; i < 20000; ++i) h = ct::recompute([](const Tensor& t) { return t * 1.0; }, h);
  h.backward();
  CHECK(x.grad().item() == 1);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&right, t] {
      const Tensor w = ct::full({3}, 1.0 * t).set_requires_grad();
      for (int i = 0; i < 50; ++i)
        ct::recompute([w](const Tensor& s) { return s * w; }, ct::ones({3})).sum().backward();
      right += w.grad().to_vector<double>() == std::vector<double>{50, 50, 50};
    });
  for (std::thread& t : threads) t.join();
  CHECK(right == 4);
}

TEST_CASE("recompute on CUDA: the same bits as without", "[recompute][cuda]") {
  CHECK(run(How::blocks, {}, ct::cuda(0)) == run(How::plain, {}, ct::cuda(0)));
  const Result want = run(How::plain, ct::bf16, ct::cuda(0)), got = run(How::blocks, ct::bf16, ct::cuda(0));
  CHECK(want.loss == got.loss);
  for (std::size_t i = 2; i < want.grads.size(); ++i) CHECK(want.grads[i] == got.grads[i]);
}
