#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/nn/models/gpt2.h>
#include <cotangent/ops.h>
#include <cotangent/ops/autocast.h>

#include <book.h>
#include <gpu.h>

#include <chrono>

// Chapter 18 on a GPU: GPT-2 in each way to keep less, and batches that are copied beside a step.

namespace {

using ct::Tensor;
namespace models = ct::nn::models;
const ct::Device gpu = ct::cuda(0);

struct Way {
  const char* name;
  std::int64_t parts = 1;
  bool recompute = false, fused_loss = true;
};

void ways() {
  book::section("ways");
  std::printf("GPT-2, 124 million parameters, 16 x 1024 tokens, bf16, forward and backward\n");
  std::printf("                               ms    GiB\n");
  const std::int64_t rows = 16, length = 1024, vocabulary = 50304;
  const Tensor tokens = ct::randint(0, vocabulary, {rows, length + 1}, {.device = gpu});
  for (const Way& way :
       {Way{"loss and output layer one op"}, Way{"the logits held", 1, false, false},
        Way{"4 micro-batches of 4 rows", 4}, Way{"blocks computed again", 1, true}, Way{"both", 4, true}}) {
    ct::manual_seed(1);
    const models::Gpt2 model({.vocab_size = vocabulary,
                              .n_positions = length,
                              .embd_pdrop = 0,
                              .attn_pdrop = 0,
                              .resid_pdrop = 0,
                              .recompute = way.recompute,
                              .device = gpu});
    const auto step = [&] {
      for (Tensor p : model.parameters()) p.set_grad({});
      const std::int64_t share = rows / way.parts;
      for (std::int64_t part = 0; part < way.parts; ++part) {
        const Tensor mine = tokens.narrow(0, part * share, share);
        Tensor loss;
        {
          const ct::Autocast low(ct::bf16);
          loss = model.loss(mine.narrow(1, 0, length), mine.narrow(1, 1, length), {.fused = way.fused_loss});
        }
        (loss / static_cast<double>(way.parts)).backward();
      }
    };
    const double ms = book::gpu_ms(step, 5);
    ct::synchronize(gpu);
    ct::reset_peak_stats(gpu);
    step();
    std::printf("%-29s %5.1f %6.2f\n", way.name, ms,
                static_cast<double>(ct::memory_stats(gpu).peak_in_use) / (1 << 30));
  }
}

void copies() {
  book::section("copies");
  const ct::NoGrad off_tape;
  const std::int64_t n = std::int64_t{64} << 20;  // 256 MiB
  const Tensor pageable = ct::ones({n}), pinned = pageable.pin_memory();
  const Tensor a = ct::randn({8192, 8192}, {.device = gpu}).to(ct::bf16);
  const ct::Stream other = ct::new_stream(gpu);
  const auto seconds = [&](const auto& work) {
    double best = 1e9;
    for (int i = 0; i < 4; ++i) {
      ct::synchronize(gpu);
      const auto begin = std::chrono::steady_clock::now();
      work();
      ct::synchronize(gpu);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
  };
  const auto products = [&] {
    for (int i = 0; i < 8; ++i) ct::matmul(a, a);
  };
  const auto copy = [&](const Tensor& host) {
    const ct::StreamGuard guard(other);
    return host.to(gpu);
  };
  std::printf("256 MiB to the GPU, beside products   ms\n");
  std::printf("products alone                    %6.2f\n", 1e3 * seconds(products));
  for (const auto& [name, host] :
       {std::pair<const char*, Tensor>{"pageable", pageable}, {"pinned", pinned}}) {
    const double alone = seconds([&] { copy(host); }), both = seconds([&] { products(), copy(host); });
    std::printf("%-9s copy alone              %6.2f, %5.1f GB/s\n%-9s copy and products       %6.2f\n", name,
                1e3 * alone, 4 * static_cast<double>(n) / alone / 1e9, name, 1e3 * both);
  }
}

void chapter() {
  book::section("machine");
  book::machine();
  ways();
  copies();
}

}  // namespace

int main() { return book::run(chapter); }
