#include <cotangent/cotangent.h>
#include <cotangent/nn/models/gpt2.h>

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/catch.h"

// Stack that a training step takes: stacks of a program's own threads, or an executor's, may be small.

namespace {

using namespace ct;

constexpr std::size_t kPainted = std::size_t{1} << 20;

#ifdef CT_SANITIZED
constexpr std::size_t kMost = kPainted;  // their frames are others
#else
constexpr std::size_t kMost = 48 << 10;
#endif

/// Bytes of stack that `work` takes, with what the system's thread itself does.
std::size_t stack_of(const std::function<void()>& work) {
  std::vector<unsigned char> memory(kPainted + 4096, 0xA5);
  auto* const base = reinterpret_cast<unsigned char*>(
      (reinterpret_cast<std::uintptr_t>(memory.data()) + 4095) / 4096 * 4096);
  struct Call {
    const std::function<void()>& work;
    unsigned char* top = nullptr;
  } call{work};
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstack(&attributes, base, kPainted) == 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    Call& call = *static_cast<Call*>(argument);
    call.top = static_cast<unsigned char*>(__builtin_frame_address(0));
    call.work();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, run, &call) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  return static_cast<std::size_t>(call.top -
                                  std::find_if(base, call.top, [](unsigned char c) { return c != 0xA5; }));
}

template <class Model, class Loss>
void check_step(const char* what, Model& model, const Loss& loss, bool low) {
  optim::AdamW adam(model.parameters(), {.lr = 1e-3});
  const auto step = [&] {
    std::optional<Autocast> guard;
    if (low) guard.emplace(bf16);
    adam.zero_grad();
    loss().backward();
    optim::clip_grad_norm_(model.parameters(), 1);
    adam.step();
  };
  for (int i = 0; i < 2; ++i) {
    const std::size_t used = stack_of(step);
    CHECK(used <= kMost);
  }
}

}  // namespace

TEST_CASE("a training step takes at most 48 KiB of stack", "[stack]") {
  for (const bool low : {false, true}) {
    nn::Sequential mlp(nn::Linear(784, 3000), nn::ReLU(), nn::Dropout(0.1), nn::Linear(3000, 10));
    const Tensor x = rand({64, 784}), t = randint(0, 10, {64}, {.dtype = i64});
    check_step(
        "MLP", mlp, [&] { return cross_entropy(mlp.forward(x), t); }, low);
    nn::models::Gpt2Config config;
    config.vocab_size = 700, config.n_positions = 128, config.n_embd = 128, config.n_layer = 2,
    config.n_head = 4;
    for (const bool fused : {false, true}) {
      nn::models::Gpt2 gpt(config);
      const Tensor tokens = randint(0, 700, {4, 128}, {.dtype = i64});
      check_step(
          "GPT", gpt, [&] { return gpt.loss(tokens, tokens, {.fused = fused}); }, low);
    }
    nn::Sequential cnn(nn::Conv2d(3, 32, 3), nn::BatchNorm2d(32), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                       nn::Linear(32 * 15 * 15, 10));
    const Tensor images = rand({8, 3, 32, 32}), classes = randint(0, 10, {8}, {.dtype = i64});
    check_step(
        "CNN", cnn, [&] { return cross_entropy(cnn.forward(images), classes); }, low);
    nn::LSTM lstm(32, 64);
    const Tensor sequence = rand({16, 8, 32});
    check_step(
        "LSTM", lstm, [&] { return lstm.forward(sequence).output.square().mean(); }, low);
  }
}
