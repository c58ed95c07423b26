#include <cotangent/autograd/grad_mode.h>
#include <cotangent/nn/models/gpt2.h>
#include <cotangent/ops.h>

#include <book.h>
#include <gpu.h>

#include <chrono>

// Chapter 19 on a GPU: tokens a second of GPT-2, beside the rate at which its weights can be read.

namespace {

using ct::Tensor;
namespace models = ct::nn::models;
const ct::Device gpu = ct::cuda(0);

void decoded() {
  book::section("decoded");
  const ct::NoGrad off_tape;
  ct::manual_seed(1);
  models::Gpt2 model({.embd_pdrop = 0, .attn_pdrop = 0, .resid_pdrop = 0, .dtype = ct::bf16, .device = gpu});
  model.eval();
  double bytes = 0;
  for (const Tensor& p : model.parameters()) bytes += static_cast<double>(p.nbytes());
  const Tensor x = ct::ones({std::int64_t{1} << 28}, {.device = gpu});  // 1 GiB
  const double copy = book::gpu_ms([&] { x.clone(); });
  const double rate = 2 * static_cast<double>(x.nbytes()) / copy / 1e6;  // GB/s
  std::printf("GPT-2, bf16, %.2f GB of weights, a copy moves %.0f GB/s: %.0f us to read them\n", bytes / 1e9,
              rate, bytes / rate / 1e3);
  std::printf("texts at once   us a step   tokens/s   of reading the weights\n");
  for (const std::int64_t batch : {1, 8, 32, 128}) {
    const Tensor prompt = ct::randint(0, 50257, {batch, 16}, {.device = gpu});
    const auto write = [&](std::int64_t tokens) {
      ct::synchronize(gpu);
      const auto begin = std::chrono::steady_clock::now();
      model.generate(prompt, {.max_new_tokens = tokens});
      ct::synchronize(gpu);
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    write(16);
    const double us = 1e6 * (write(144) - write(16)) / 128;
    std::printf("%13d %11.0f %10.0f %15.0f %%\n", static_cast<int>(batch), us,
                1e6 * static_cast<double>(batch) / us, 100 * bytes / rate / 1e3 / us);
  }
}

void chapter() {
  book::section("machine");
  book::machine();
  decoded();
}

}  // namespace

int main() { return book::run(chapter); }
