#include <cotangent/cotangent.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "examples/common/device.h"
#include "examples/common/small_program.h"

// Shows what one training step records: the tape of a network as a table, and as a page to walk through.

namespace nn = ct::nn;
using ct::Tensor;

namespace {

struct Settings {
  std::string network = "mnist", device = "auto", out = ".";
  std::int64_t batch = 0, length = 64, layers = 12, width = 768, vocabulary = 50257;
  bool recompute = false;
};

template <class Model, class Loss>
void show(const Settings& s, const Model& model, ct::Device device, const Loss& loss_of) {
  loss_of().backward();  // the first step also looks for kernels and asks for memory
  for (Tensor p : model.parameters()) p.set_grad({});
  const ct::DeviceLimits limits = ct::device_limits(device);
  ct::Allocator& memory = ct::current_allocator(device);
  memory.reset_peak();
  loss_of().backward();
  const std::size_t peak = memory.stats().peak_in_use;
  for (Tensor p : model.parameters()) p.set_grad({});

  const ct::ForwardWatch watch(limits);
  const Tensor loss = loss_of();
  const ct::Explanation e =
      ct::explain(loss, {.names = model.named_parameters(), .grads = true, .times = true, .watch = &watch});
  std::cout << e;
  std::printf("a step as it is takes at most %.1f MiB, parameters and workspace included\n",
              static_cast<double>(peak) / (1 << 20));
  e.write_html(s.out + "/explain.html");
  e.write_dot(s.out + "/explain.dot");
  std::printf("to walk through it: %s/explain.html; for Graphviz: %s/explain.dot\n", s.out.c_str(),
              s.out.c_str());
}

// The perceptron of ./ct mnist, on noise.
void show_mnist(const Settings& s, ct::Device device) {
  nn::Sequential model(nn::Flatten(), nn::Linear(784, 256), nn::ReLU(), nn::Dropout(0.2),
                       nn::Linear(256, 256), nn::ReLU(), nn::Dropout(0.2), nn::Linear(256, 10));
  model.to(device);
  const std::int64_t batch = s.batch > 0 ? s.batch : 128;
  const Tensor x = ct::randn({batch, 1, 28, 28}, {.device = device});
  const Tensor y = ct::randint(0, 10, {batch}, {.dtype = ct::i64, .device = device});
  show(s, model, device, [&] { return ct::cross_entropy(model.forward(x), y); });
}

// GPT-2, on noise.
void show_gpt(const Settings& s, ct::Device device) {
  const nn::models::Gpt2 model({.vocab_size = s.vocabulary,
                                .n_positions = s.length,
                                .n_embd = s.width,
                                .n_layer = s.layers,
                                .n_head = std::max<std::int64_t>(1, s.width / 64),
                                .recompute = s.recompute,
                                .device = device});
  const Tensor text = ct::randint(0, s.vocabulary, {s.batch > 0 ? s.batch : 1, s.length + 1},
                                  {.dtype = ct::i64, .device = device});
  show(s, model, device,
       [&] { return model.loss(text.narrow(1, 0, s.length), text.narrow(1, 1, s.length)); });
}

void run(const Settings& s) {
  CT_CHECK(s.network == "mnist" || s.network == "gpt", ct::ValueError, "explain", "there is no network '",
           s.network, "' here; choose mnist or gpt");
  const ct::Device device = usable_device("explain", s.device);
  std::error_code error;
  std::filesystem::create_directories(s.out, error);
  CT_CHECK(!error, ct::IoError, "explain", "--out ", s.out, ": ", error.message(),
           "; name a folder that can be made");
  ct::manual_seed(1);
  (s.network == "gpt" ? show_gpt : show_mnist)(s, device);
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  return small_program(
      "explain", "Shows what one training step records: a table, and a page to walk through.", argc, argv,
      [&](flags::Flags flags) {
        flags.text("network", s.network, "mnist or gpt");
        flags.device(s.device);
        flags.path("--out", s.out, "the folder for explain.html and explain.dot; it is made");
        flags.whole("--batch", s.batch, "images, or texts; 0: 128 images, 1 text", 0);
        flags.whole("--length", s.length, "of gpt: tokens of a text");
        flags.whole("--layers", s.layers, "of gpt");
        flags.whole("--width", s.width, "of gpt");
        flags.whole("--vocabulary", s.vocabulary, "of gpt");
        flags.on("--recompute", s.recompute, "of gpt: keep of a layer only its inputs");
      },
      [&] { run(s); });
}
