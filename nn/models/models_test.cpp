#include <cotangent/core/op/op_def.h>
#include <cotangent/cotangent.h>
#include <cotangent/ops/autocast.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/models_testing.h"
#include "tests/nn_testing.h"

using namespace ct;
using namespace ct::nn::models;
using ct::testing::both_models;
using ct::testing::bytes_of;
using ct::testing::gpt2_config;
using ct::testing::largest;
using ct::testing::llama_config;
using ct::testing::tensor_of;

TEST_CASE("the models are causal, and their parameters have Hugging Face's names", "[nn][models]") {
  for (const auto& model : both_models()) {
    const Tensor a = randint(0, 29, {2, 9});
    Tensor b = a.clone();
    b.data<std::int64_t>()[6] = (a.data<std::int64_t>()[6] + 1) % 29;  // sequence 0, position 6
    const Tensor difference = amax(ct::abs(model->forward(a) - model->forward(b)), {2});
    const std::vector<float> d = difference.to_vector<float>();
    for (int i = 0; i < 6; ++i) CHECK(d[static_cast<std::size_t>(i)] == 0);
    for (int i = 6; i < 9; ++i) CHECK(d[static_cast<std::size_t>(i)] > 0);
    for (int i = 9; i < 18; ++i) CHECK(d[static_cast<std::size_t>(i)] == 0);
  }
  const Gpt2 gpt2(gpt2_config());
  const StateDict g = gpt2.state_dict();
  CHECK(g.size() == 2 + 2 * 12 + 2);
  CHECK(g["transformer.h.1.attn.c_attn.weight"].shape() == Shape{36, 12});
  CHECK(gpt2.head()->is_same(gpt2.get("transformer.wte.weight")));
  CHECK(gpt2.num_parameters() == 31 * 12 + 16 * 12 + 2 * (12 * 12 * 12 + 13 * 12) + 24);
  const Llama llama(llama_config());
  const StateDict l = llama.state_dict();
  CHECK(l.size() == 1 + 2 * 9 + 2);
  CHECK(l["model.layers.1.self_attn.k_proj.weight"].shape() == Shape{4, 12});
  CHECK(l["lm_head.weight"].shape() == Shape{29, 12});
  CHECK_FALSE(llama.begin_token().has_value());
  CHECK(llama.end_tokens() == std::vector<std::int64_t>{7});
}

TEST_CASE("a length that no text has costs no memory", "[nn][models]") {
  LlamaConfig config = llama_config();
  config.max_position_embeddings = INT32_MAX;
  CHECK(Llama(config).generate(zeros({1, 3}, {.dtype = i64}), {.max_new_tokens = 2}).size(1) == 5);
}

TEST_CASE("nothing is copied around attention", "[nn][models]") {
  struct Copies final : OpObserver {
    OpObserver* const previous = set_op_observer(this);
    int count = 0;
    ~Copies() override { set_op_observer(previous); }
    void begin(const KernelCall& call) override { count += std::string(call.op.name) == "copy"; }
    void end(const KernelCall&) override {}
  };
  const Tensor tokens = randint(0, 29, {2, 5}), x = randn({2, 5, 12});
  const nn::MultiheadAttention layer(12, 3, {.batch_first = true});
  Copies copies;
  for (const auto& model : both_models()) {
    const Tensor loss = model->loss(tokens, tokens);
    CHECK(copies.count == 0);
    if (dynamic_cast<const Gpt2*>(model.get()) != nullptr) loss.backward();
    CHECK(copies.count == 0);
  }
  layer(x, x, x);
  CHECK(copies.count == 0);
  x.transpose(0, 1).contiguous();
  CHECK(copies.count == 1);
}

TEST_CASE("a shared table gets the gradients of both its uses", "[nn][models]") {
  Gpt2Config config = gpt2_config();
  manual_seed(2);
  const Gpt2 tied(config);
  config.tie_word_embeddings = false;
  Gpt2 untied(config);
  StateDict state = tied.state_dict();
  state.set("lm_head.weight", tied.head()->detach());
  untied.load_state_dict(state);
  const Tensor text = randint(0, 31, {2, 9}), x = text.narrow(1, 0, 8), y = text.narrow(1, 1, 8);
  tied.loss(x, y).backward();
  untied.loss(x, y).backward();
  const Tensor sum = untied.get("transformer.wte.weight").grad() + untied.get("lm_head.weight").grad();
  CHECK(largest(sum - tied.head()->grad()) < 1e-6);
  CHECK(largest(untied.get("transformer.wte.weight").grad()) > 1e-3);
  // In a clone they are shared as well.
  const Gpt2 copy = nn::clone(tied);
  CHECK(copy.head()->is_same(copy.get("transformer.wte.weight")));
  CHECK_FALSE(copy.head()->is_same(tied.head()));
}

TEST_CASE("initial values are those of GPT-2", "[nn][models]") {
  manual_seed(4);
  const Gpt2 model({.vocab_size = 500, .n_positions = 100, .n_embd = 64, .n_layer = 8, .n_head = 4});
  const auto spread = [&](const char* name) { return stddev(model.get(name)).item(); };
  CHECK(spread("transformer.wte.weight") == Approx(0.02).epsilon(0.03));
  CHECK(spread("transformer.wpe.weight") == Approx(0.02).epsilon(0.03));
  CHECK(spread("transformer.h.3.attn.c_attn.weight") == Approx(0.02).epsilon(0.03));
  CHECK(spread("transformer.h.3.attn.c_proj.weight") == Approx(0.02 / 4).epsilon(0.05));
  CHECK(spread("transformer.h.3.mlp.c_proj.weight") == Approx(0.02 / 4).epsilon(0.05));
  CHECK(largest(model.get("transformer.h.3.mlp.c_proj.bias")) == 0);
  CHECK(largest(model.get("transformer.ln_f.weight") - 1) == 0);
  manual_seed(4);
  const Gpt2 again({.vocab_size = 500, .n_positions = 100, .n_embd = 64, .n_layer = 8, .n_head = 4});
  CHECK(bytes_of(model.head()) == bytes_of(again.head()));
}

TEST_CASE("dropout is what the settings say, while training", "[nn][models]") {
  Gpt2Config config = gpt2_config();
  const Tensor tokens = randint(0, 29, {2, 9});
  for (double Gpt2Config::*p : {&Gpt2Config::embd_pdrop, &Gpt2Config::attn_pdrop, &Gpt2Config::resid_pdrop}) {
    config = gpt2_config();
    config.*p = 0.5;
    Gpt2 model(config);
    manual_seed(1);
    const Tensor a = model.forward(tokens), b = model.forward(tokens);
    manual_seed(1);
    CHECK(bytes_of(model.forward(tokens)) == bytes_of(a));
    CHECK(bytes_of(a) != bytes_of(b));
    model.eval();
    CHECK(bytes_of(model.forward(tokens)) == bytes_of(model.forward(tokens)));
  }
  LlamaConfig l = llama_config();
  l.attention_dropout = 0.5;
  const Llama llama(l);
  CHECK(bytes_of(llama.forward(tokens)) != bytes_of(llama.forward(tokens)));
}

TEST_CASE("recomputed blocks give the same bits", "[nn][models]") {
  const Tensor tokens = randint(0, 29, {2, 9}), targets = randint(0, 29, {2, 9});
  const auto gradients = [&](const LanguageModel& model, bool low_precision) {
    manual_seed(5);  // of dropout
    Tensor loss;
    {
      std::optional<Autocast> guard;
      if (low_precision) guard.emplace(bf16);
      loss = model.loss(tokens, targets);
    }
    loss.backward();
    std::string bytes = bytes_of(loss.detach());
    for (const Tensor& p : model.parameters()) bytes += bytes_of(p.grad().contiguous());
    return bytes;
  };
  for (const bool low_precision : {false, true}) {
    Gpt2Config g = gpt2_config();
    g.embd_pdrop = g.attn_pdrop = g.resid_pdrop = 0.2;
    LlamaConfig l = llama_config();
    l.attention_dropout = 0.2;
    std::string plain[2], again[2];
    for (const bool recompute : {false, true}) {
      g.recompute = l.recompute = recompute;
      manual_seed(3);
      const Gpt2 gpt2(g);
      const Llama llama(l);
      (recompute ? again : plain)[0] = gradients(gpt2, low_precision);
      (recompute ? again : plain)[1] = gradients(llama, low_precision);
    }
    CHECK(plain[0] == again[0]);
    CHECK(plain[1] == again[1]);
  }
}

TEST_CASE("output layer and loss as two ops give what they give as one", "[nn][models]") {
  for (const auto& model : both_models()) {
    const Tensor x = randint(0, 29, {3, 9});
    Tensor y = randint(0, 29, {3, 9});
    y.narrow(1, 0, 2).fill_(-7);
    std::vector<Tensor> losses, gradients[2];
    for (const bool fused : {true, false}) {
      model->zero_grad();
      losses.push_back(model->loss(x, y, {.ignore_index = -7, .fused = fused}));
      losses.back().backward();
      for (const Tensor& p : model->parameters()) gradients[fused].push_back(p.grad());
    }
    CHECK(losses[0].item() == Approx(losses[1].item()).epsilon(1e-6));
    for (std::size_t i = 0; i < gradients[0].size(); ++i)
      CHECK(largest(gradients[0][i] - gradients[1][i]) <= 1e-6 + 1e-5 * largest(gradients[1][i]));
  }
}

TEST_CASE("the models work in low precision", "[nn][models]") {
  for (const auto& model : both_models()) {
    const Tensor text = randint(0, 29, {3, 16}), x = text.narrow(1, 0, 15), y = text.narrow(1, 1, 15);
    const double exact = model->loss(x, y).item();
    for (const DType dtype : {bf16, f16}) {
      const Autocast guard(dtype);
      CHECK(model->loss(x, y).item() == Approx(exact).margin(0.05));
      const KvCache cache = model->make_cache(1);
      CHECK(cache.nbytes() == model->make_cache(2).nbytes() / 2);
      CHECK(model->generate(x, {.max_new_tokens = 5}).shape() == Shape{3, 20});
    }
    model->to(bf16);
    const Tensor loss = model->loss(x, y);
    CHECK(loss.to(f32).item() == Approx(exact).margin(0.1));
    loss.backward();
    CHECK(model->head()->grad().dtype() == bf16);
    CHECK(model->make_cache(1).nbytes() * 2 ==
          KvCache(model->sizes(), 1, model->sizes().max_length, f32, cpu).nbytes());
  }
}

TEST_CASE("models say what is wrong with their input", "[nn][models]") {
  for (const auto& model : both_models()) {
    CHECK_THROWS_WITH(model->forward(zeros({1, 17}, {.dtype = i64})),
                      Catch::Contains("got 17 tokens of one sequence; the model has 16 positions"));
    CHECK_THROWS_AS(model->forward(zeros({1, 17}, {.dtype = i64})), ShapeError);
    CHECK_THROWS_AS(model->forward(zeros({5}, {.dtype = i64})), ShapeError);
    CHECK_THROWS_AS(model->forward(zeros({1, 5})), DTypeError);
    CHECK_THROWS_AS(model->forward(full({1, 5}, 31, {.dtype = i64})), IndexError);
    CHECK_THROWS_AS(model->loss(zeros({1, 5}, {.dtype = i64}), zeros({1, 4}, {.dtype = i64})), ShapeError);
    CHECK_THROWS_AS(model->generate(zeros({1, 0}, {.dtype = i64})), ShapeError);
    CHECK_THROWS_AS(model->generate(zeros({1, 17}, {.dtype = i64})), ShapeError);
    CHECK_THROWS_AS(model->generate(zeros({1, 2}, {.dtype = i64}), {.temperature = -1}), ValueError);
    CHECK_THROWS_AS(model->generate(zeros({1, 2}, {.dtype = i64}), {.max_new_tokens = -1}), ValueError);
    KvCache cache = model->make_cache(2);
    CHECK_THROWS_AS(model->forward(zeros({1, 5}, {.dtype = i64}), cache), ShapeError);
    CHECK_THROWS_AS(model->make_cache(1, -5), ShapeError);
    CHECK_THROWS_AS(cache.advance(-1), ValueError);
    CHECK_THROWS_AS(cache.advance(17), ValueError);
    CHECK(cache.length() == 0);
    const auto once = [](const Tensor&) { return false; };
    CHECK(model->generate(zeros({1, 2}, {.dtype = i64}), {.max_new_tokens = INT64_MAX, .on_token = once})
              .size(1) == 3);
    CHECK(model->forward(zeros({1, 16}, {.dtype = i32})).shape() == Shape{1, 16, model->sizes().vocabulary});
    CHECK(model->forward(zeros({0, 4}, {.dtype = i64})).size(0) == 0);
  }
  Gpt2Config g = gpt2_config();
  g.n_head = 5;
  CHECK_THROWS_WITH(Gpt2(g), Catch::Contains("choose an n_head that divides n_embd"));
  g.n_head = 2, g.attn_pdrop = 1.5;
  CHECK_THROWS_AS(Gpt2(g), ValueError);
  g.attn_pdrop = 0, g.n_layer = 0;
  CHECK_THROWS_WITH(Gpt2(g), Catch::Contains("n_layer 0") && Catch::Contains("must be positive"));
  LlamaConfig l = llama_config();
  l.num_hidden_layers = 0;
  CHECK_THROWS_WITH(Llama(l), Catch::Contains("num_hidden_layers 0") && Catch::Contains("must be positive"));
  l.num_hidden_layers = 2;
  for (const double theta : {-1.0, 0.0, std::nan(""), HUGE_VAL}) {
    l.rope_theta = theta;
    CHECK_THROWS_AS(Llama(l), ValueError);
    CHECK_THROWS_WITH(Llama(l), Catch::Contains("[llama] rope_theta is "));
  }
  l.rope_theta = 10000, l.head_dim = 1024;
  CHECK_THROWS_WITH(Llama(l), Catch::Contains("[llama] head_dim is 1024"));
  l.head_dim = 0;
  l.attention_dropout = -0.1;
  CHECK_THROWS_AS(Llama(l), ValueError);
  l.attention_dropout = 0;
  l.num_key_value_heads = 2;
  CHECK_THROWS_AS(Llama(l), ShapeError);
  l.num_key_value_heads = 1, l.num_attention_heads = 4, l.head_dim = 0;
  CHECK_THROWS_WITH(Llama(l), Catch::Contains("it must be even"));  // 12 / 4 = 3
  l.head_dim = 6;
  CHECK(Llama(l).forward(zeros({1, 2}, {.dtype = i64})).shape() == Shape{1, 2, 29});
}

TEST_CASE("a model that can't be made takes no random numbers", "[nn][models]") {
  const std::uint64_t before = default_generator().offset();
  for (double Gpt2Config::*p : {&Gpt2Config::embd_pdrop, &Gpt2Config::attn_pdrop, &Gpt2Config::resid_pdrop}) {
    Gpt2Config config = gpt2_config();
    config.*p = 1.5;
    CHECK_THROWS_AS(Gpt2(config), ValueError);
    CHECK_THROWS_WITH(Gpt2(config), Catch::Contains("[gpt2]"));
  }
  CHECK(default_generator().offset() == before);
}

TEST_CASE("the models learn a text by heart", "[nn][models]") {
  for (const auto& model : both_models()) {
    model->train();
    const Tensor text = randint(0, 29, {1, 16});
    optim::AdamW adamw(model->parameters(), {.lr = 1e-2});
    double last = 0;
    for (int step = 0; step < 60; ++step) {
      const Tensor loss = model->loss(text.narrow(1, 0, 15), text.narrow(1, 1, 15));
      adamw.zero_grad();
      loss.backward();
      adamw.step();
      last = loss.item();
    }
    CHECK(last < 0.1);
    model->eval();
    const Tensor again = model->generate(text.narrow(1, 0, 4), {.max_new_tokens = 12, .temperature = 0});
    CHECK(bytes_of(again) == bytes_of(text));
  }
}
