#include <cotangent/cotangent.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/device.h"
#include "examples/common/small_program.h"
#include "examples/common/text_file.h"

// Learns to write like a text it has read, a character at a time: two layers of LSTM cells (Hochreiter and Schmidhuber
// 1997) over characters. While it learns, whole windows of the text go through the layers at once; while it writes, each
// character is drawn from what the network expects and becomes its next input, and all that it knows of the text before is
// the state of the cells.

namespace nn = ct::nn;
using ct::Tensor;

namespace {

struct Settings {
  std::string text, device = "auto", prompt;
  bool eager = false;
  std::int64_t steps = 2000, window = 128, batch = 32, hidden = 256, layers = 2, write = 400;
  double lr = 2e-3, temperature = 0.8;
};

struct CharLstm : nn::Module {
  CharLstm(std::int64_t characters, const Settings& s)
      : embedding(add("embedding", nn::Embedding(characters, s.hidden))),
        lstm(add("lstm", nn::LSTM(s.hidden, s.hidden, {.num_layers = s.layers, .batch_first = true}))),
        head(add("head", nn::Linear(s.hidden, characters))) {}
  nn::Embedding embedding;
  nn::LSTM lstm;
  nn::Linear head;

  struct Result {
    Tensor logits;  // [B, T, characters], of the character that comes next
    nn::LSTMState state;
  };
  Result forward(const Tensor& characters, const nn::LSTMState& state = {}) const {
    const auto [output, next] = lstm(embedding(characters), state);
    return {head(output), next};
  }
};

// A file, or without one the headers of core/.
std::string text_of(const std::string& path) {
  if (!path.empty()) return read_text("rnn", path);
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(COTANGENT_SOURCE_DIR "/core"))
    if (entry.path().extension() == ".h") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const std::string& header : paths) text += read_text("rnn", header);
  return text;
}

Tensor loss_of(const CharLstm& model, const Tensor& x, const Tensor& y) {
  return ct::cross_entropy(model.forward(x).logits.flatten(0, 1), y.flatten());
}

double evaluate(const CharLstm& model, ct::data::DataLoader<ct::data::TokenDataset>& batches) {
  const ct::NoGrad guard;
  double sum = 0;
  std::int64_t count = 0;
  for (const auto& [x, y] : batches) {
    sum += loss_of(model, x, y).item() * static_cast<double>(x.size(0));
    count += x.size(0);
  }
  return sum / static_cast<double>(count);
}

std::string written(const CharLstm& model, const ct::text::CharTokenizer& tokenizer, const Settings& s,
                    ct::Device device) {
  const ct::NoGrad guard;
  std::vector<std::int64_t> prompt = tokenizer.encode(s.prompt);
  if (prompt.empty()) prompt.push_back(0);  // the first character of its alphabet, mostly the end of a line
  Tensor input = ct::from_vector(prompt, {1, static_cast<std::int64_t>(prompt.size())}).to(device);
  nn::LSTMState state;
  std::string text;
  for (std::int64_t i = 0; i < s.write; ++i) {
    const auto [logits, next] = model.forward(input, state);
    state = next;
    input = ct::sample_logits(logits.select(1, -1), {.temperature = s.temperature}).view(1, 1);
    text += tokenizer.token_bytes(input.item<std::int64_t>());
  }
  return text;
}

void train(const Settings& s) {
  ct::manual_seed(1);
  const ct::Device device = usable_device("rnn", s.device);
  const std::string text = text_of(s.text);
  const auto tokenizer = ct::text::CharTokenizer::from_text(text);
  const auto [learnt, held_out] =
      ct::data::Tokens::from_vector(tokenizer.encode(text), "the text").split(0.1);
  ct::data::DataLoader batches(ct::data::TokenDataset(learnt, {.block = s.window, .seed = 1}),
                               {.batch_size = s.batch, .prefetch = device});
  ct::data::DataLoader test_batches(ct::data::TokenDataset(held_out, {.block = s.window, .random = false}),
                                    {.batch_size = 128, .prefetch = device});
  CharLstm model(tokenizer.vocab_size(), s);
  model.to(device);
  ct::optim::Adam adam(model.parameters(), {.lr = s.lr});
  ct::optim::CosineAnnealingLR schedule(adam, {.steps = s.steps});
  std::printf("%zu characters, %lld different ones\n", text.size(),
              static_cast<long long>(tokenizer.vocab_size()));

  auto learn = ct::capture(
      [&](const Tensor& x, const Tensor& y) {
        adam.zero_grad();
        loss_of(model, x, y).backward();
        ct::optim::clip_grad_norm_(model.parameters(), 1);
        adam.step();
        schedule.step();
      },
      {.enabled = flags::captures(device.is_cuda(), s.eager)});
  std::int64_t step = 0;
  for (const auto& [x, y] : batches) {  // windows without end
    profile_step();
    learn(x, y);
    ++step;
    if (step % std::max<std::int64_t>(s.steps / 10, 1) == 0 || step == s.steps) {
      const std::string limit = limit_share(device);
      std::printf("step %5lld  test loss %.3f nats per character%s\n", static_cast<long long>(step),
                  evaluate(model, test_batches), limit.c_str());
      std::fflush(stdout);
    }
    if (step == s.steps) break;
  }
  std::printf("\n%s\n", written(model, tokenizer, s, device).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  return small_program(
      "rnn", "Learns to write like a text it has read, a character at a time.", argc, argv,
      [&](flags::Flags flags) {
        flags.path("--text", s.text, "text file in UTF-8; without one, headers of this project");
        flags.device(s.device);
        flags.on("--eager", s.eager, flags::kEagerHelp);
        flags.whole("--steps", s.steps, "of Adam");
        flags.whole("--window", s.window, "characters of an example");
        flags.whole("--batch", s.batch, "examples per step");
        flags.whole("--hidden", s.hidden, "cells of a layer");
        flags.whole("--layers", s.layers, "of cells");
        flags.positive("--lr", s.lr, "learning rate at the start");
        flags.whole("--write", s.write, "characters to write at the end");
        flags.text("--prompt", s.prompt, "what it goes on from; without one, a new line");
        flags.positive("--temperature", s.temperature, "below 1 it dares less");
        add_profile(flags);
      },
      [&] { train(s); });
}
