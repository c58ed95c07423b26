#include <cotangent/cotangent.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include <cotangent/core/op/op_def.h>

#include "tests/catch.h"

// Threads whose backward accumulates into shared leaves.

using namespace ct;

namespace {

constexpr int kThreads = 4;

// Runs body(thread) in all threads at once, `rounds` times, with `between` after each.
template <class Body, class Between>
void at_once(int rounds, Body body, Between between) {
  std::barrier<> gate(kThreads + 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < rounds; ++round) {
        gate.arrive_and_wait();
        body(t);
        gate.arrive_and_wait();
      }
    });
  for (int round = 0; round < rounds; ++round) {
    gate.arrive_and_wait();
    gate.arrive_and_wait();
    between();  // the others wait at the gate
  }
  for (std::thread& t : threads) t.join();
}

// Ops take their time, so that threads meet in them.
struct Slow final : OpObserver {
  Slow() : before(set_op_observer(this)) {}
  ~Slow() override { set_op_observer(before); }
  void begin(const KernelCall& call) override {
    if (adds(call)) most = std::max<int>(most, ++adding);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  void end(const KernelCall& call) override {
    if (adds(call)) --adding;
  }

  OpObserver* const before;
  static bool adds(const KernelCall& call) {
    return going_back && call.forward && call.op.name == std::string_view("add");
  }
  inline static thread_local bool going_back = false;
  std::atomic<int> adding{0}, most{0};
};

}  // namespace

TEST_CASE("threads add to one leaf, and nothing is lost", "[autograd][threads]") {
  // Numbers whose sums are exact, in whatever order they are added.
  constexpr std::int64_t kSize = 1 << 10;
  constexpr int kPasses = 2, kRounds = 20;
  const Slow slow;
  const bool first = GENERATE(true, false);  // the first gradient is taken over, or there is one
  // An older leaf gets the same gradient later: w's is a copy.
  std::vector<Tensor> older;
  for (int t = 0; t < kThreads; ++t) older.push_back(ones({kSize}).set_requires_grad());
  Tensor w = ones({kSize}).set_requires_grad();
  int wrong = 0, posts = 0;
  std::atomic<int> seen{0};
  w.register_post_accumulate_hook([&](const Tensor&) { ++seen; });
  const auto reset = [&] { w.set_grad(first ? Tensor() : zeros({kSize})); };
  reset();
  at_once(
      kRounds,
      [&](int t) {
        for (int i = 0; i < kPasses; ++i)
          ((w + older[static_cast<std::size_t>(t)]) * static_cast<double>(t + 1)).sum().backward();
      },
      [&] {
        wrong += w.grad().to_vector<double>() != std::vector<double>(kSize, 10 * kPasses);
        posts += seen.exchange(0);
        reset();
      });
  CHECK(wrong == 0);
  CHECK(posts == kRounds * kPasses * kThreads);
}

TEST_CASE("one thread at a time adds to a leaf's gradient", "[autograd][threads]") {
  constexpr int kRounds = 10;
  Slow slow;
  Tensor w = ones({8}).set_requires_grad();
  w.set_grad(zeros({8}));
  at_once(
      kRounds,
      [&](int) {
        const Tensor loss = (w * 2.0).sum();
        Slow::going_back = true;
        loss.backward();
        Slow::going_back = false;
      },
      [] {});
  CHECK(slow.most == 1);
  CHECK(w.grad().to_vector<double>() == std::vector<double>(8, 2 * kRounds * kThreads));
}

TEST_CASE("threads whose kernels add to one leaf's gradient lose nothing", "[autograd][threads]") {
  // Each kernel adds to several leaves where their gradients lie.
  std::vector<Tensor> leaves = {ones({16, 16}), ones({16}), ones({16, 16})};
  for (Tensor& t : leaves) t.set_requires_grad().set_grad(zeros(t.shape()));
  const Tensor &w = leaves[0], &b = leaves[1], &table = leaves[2];
  const Tensor x = ones({4, 16}), index = from_vector<std::int64_t>({1, 2, 3, 3}, {4});
  const auto body = [&](int t) {
    const Tensor y = linear(t % 2 ? x : embedding(index, table), w, b);
    (linear(y, w, b).sum() + matmul(x, w).sum()).backward();
  };
  const auto take = [&] {
    std::vector<double> all;
    for (const Tensor& t : leaves) {
      for (const double g : t.grad().to_vector<double>()) all.push_back(g);
      t.grad().zero_();
    }
    return all;
  };
  for (int t = 0; t < kThreads; ++t) body(t);
  const std::vector<double> want = take();
  int wrong = 0;
  at_once(200, body, [&] { wrong += take() != want; });
  CHECK(wrong == 0);
}

TEST_CASE("one thread may use a leaf twice in an op that adds to its gradient", "[autograd][threads]") {
  Tensor w = ones({3, 3}).set_requires_grad();
  for (int pass = 1; pass <= 3; ++pass) {
    matmul(w, w).sum().backward();
    CHECK(w.grad().to_vector<double>() == std::vector<double>(9, 6.0 * pass));
  }
}

TEST_CASE("a backward that fails lets go of its leaves", "[autograd][threads]") {
  Tensor w = ones({3, 3}).set_requires_grad(), x = ones({3, 3});
  w.set_grad(zeros({3, 3}));
  const Tensor y = matmul(x, w).sum();
  x.add_(1.0);
  CHECK_THROWS_AS(y.backward(), AutogradError);
  matmul(x, w).sum().backward();
  CHECK(w.grad().to_vector<double>() == std::vector<double>(9, 6));
}

TEST_CASE("a tape that several threads have recorded is walked in order", "[autograd][threads]") {
  Tensor early = full({4}, 2.0).set_requires_grad();
  Tensor h = early * 1.0;
  for (int i = 0; i < 100; ++i) h = h * 1.0;         // this thread has numbered many nodes,
  Tensor late = full({4}, 3.0).set_requires_grad();  // and a leaf
  Tensor loss;
  std::thread([&] { loss = (h * h + late * late).sum(); }).join();  // by one that has numbered none
  Tensor twice = loss * 2.0;
  std::thread([&] {
    twice.backward({}, true);
    twice.backward();  // nothing of the tape was taken for this thread's own
  }).join();
  CHECK(early.grad().to_vector<float>() == std::vector<float>(4, 2 * 2 * 2 * 2.f));
  CHECK(late.grad().to_vector<float>() == std::vector<float>(4, 2 * 2 * 2 * 3.f));
}

TEST_CASE("models in threads of their own learn as one alone does, to the bit", "[autograd][threads]") {
  const auto train = [](bool alone) {
    std::optional<NoThreads> guard;
    if (alone) guard.emplace();
    const Tensor x = sin(arange(32 * 96).to(f32)).view(32, 96), y = cos(arange(32).to(f32)).view(32, 1);
    Tensor v = (cos(arange(96 * 80).to(f32)) * 0.1).view(96, 80),
           w = (sin(arange(80).to(f32)) * 0.1).view(80, 1);
    optim::Adam adam({v.set_requires_grad(), w.set_requires_grad()}, {.lr = 0.01});
    for (int step = 0; step < 20; ++step) {
      adam.zero_grad();
      mse_loss(matmul(tanh(matmul(x, v)), w), y).backward();
      adam.step();
    }
    return w.to_vector<float>();
  };
  const std::vector<float> one = train(false);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      if (train(t % 2 == 0) != one) ++wrong;
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}
