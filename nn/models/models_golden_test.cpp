#include <cotangent/cotangent.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/nn_testing.h"

// PyTorch's values, made by tests/golden/make_models.py.

using namespace ct;
using ct::testing::worst;

namespace {

void compare(const std::string& name, Device device) {
  const std::string folder = COTANGENT_SOURCE_DIR "/tests/golden/" + name;
  const StateDict expected = io::load_npz(folder + "/expected.npz");
  const auto model = nn::models::load_huggingface(folder, {.device = device});
  model->train();
  const auto batch = [&](const char* what, int i) { return expected[what][i].contiguous().to(device); };
  CHECK(worst(model->forward(batch("tokens", 0)), expected["logits"]) < 1e-5);
  const Tensor loss = model->loss(batch("tokens", 0), batch("targets", 0));
  CHECK(loss.item() == Approx(expected["loss"].item()).epsilon(1e-6));
  loss.backward();
  std::size_t gradients = 0;
  for (const auto& [name, p] : model->named_parameters()) {
    INFO(name);
    Tensor want = expected["grad." + name];
    const bool conv1d = name.find(".c_") != std::string::npos && name.ends_with(".weight");
    if (conv1d) want = want.t();
    CHECK(worst(p.grad(), want) < 2e-5);
    ++gradients;
  }
  CHECK(gradients + 5 == expected.size());
  optim::AdamW adamw(model->parameters(), {.lr = 3e-3, .beta2 = 0.95, .weight_decay = 0.1});
  for (int step = 0; step < 10; ++step) {
    const Tensor l = model->loss(batch("tokens", step % 2), batch("targets", step % 2));
    adamw.zero_grad();
    l.backward();
    adamw.step();
    INFO("step " << step);
    CHECK(l.item() == Approx(expected["losses"][step].item()).epsilon(1e-5));
  }
}

}  // namespace

TEST_CASE("a tiny GPT-2 equals PyTorch's: logits, gradients, ten steps", "[nn][golden]") {
  compare("gpt2", cpu);
}
TEST_CASE("a tiny Llama equals PyTorch's: logits, gradients, ten steps", "[nn][golden]") {
  compare("llama", cpu);
}
TEST_CASE("the tiny models equal PyTorch's on CUDA", "[nn][golden][cuda]") {
  compare("gpt2", cuda(0));
  compare("llama", cuda(0));
}
