#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <cotangent/nn/data/idx.h>
#include <cotangent/nn/data/loader.h>
#include <cotangent/nn/data/tokens.h>
#include <cotangent/nn/init.h>
#include <cotangent/nn/models/gpt2.h>
#include <cotangent/nn/models/llama.h>
#include <cotangent/nn/nn.h>
#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/attention/attention.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/dropout.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/loss/classes/cross_entropy.h>
#include <cotangent/ops/loss/head/linear_cross_entropy.h>
#include <cotangent/ops/normalization/layer_norm.h>
#include <cotangent/ops/normalization/rms_norm.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/rotary/rotary_embedding.h>
#include <cotangent/ops/sampling/sampling.h>
#include <cotangent/ops/softmax/masked_softmax.h>
#include <cotangent/ops/testing/gradcheck.h>

#include "tests/catch.h"
#include "tests/optim_testing.h"

// Numbers that mean nothing are refused where they are set, by name.

using namespace ct;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

// Numbers that a parameter must not be.
const std::vector<double> kNotNumbers = {kNaN, kInf, -kInf};
const std::vector<double> kNotRates = {kNaN, kInf, -kInf, -0.5};           // finite and >= 0
const std::vector<double> kNotPositive = {kNaN, kInf, -kInf, -0.5, 0};     // finite and > 0
const std::vector<double> kNotShares = {kNaN, kInf, -kInf, -0.5, 1.5};     // in [0, 1]
const std::vector<double> kNotDecays = {kNaN, kInf, -kInf, -0.5, 1, 1.5};  // in [0, 1)
const std::vector<double> kNoTopP = {kNaN, kInf, -kInf, -0.5, 0, 1.5};     // in (0, 1]

struct Case {
  const char* op;         // what the message begins with
  const char* parameter;  // what it names
  std::vector<double> refused;
  std::function<void(double)> call;
};

Tensor p() { return zeros({2}, {.requires_grad = true}); }
Tensor x() { return ones({2, 4}); }
Tensor labels() { return zeros({2}, {.dtype = i64}); }

std::vector<Case> optimizers_and_schedules() {
  const auto adam = std::make_shared<optim::Adam>(std::vector<Tensor>{p()}, optim::AdamOptions{.lr = 1});
  const std::vector<Tensor> params = {p()};
  return {
      {"[SGD]", "lr", kNotRates, [](double v) { optim::SGD({p()}, {.lr = v}); }},
      {"[SGD]", "momentum", kNotRates, [](double v) { optim::SGD({p()}, {.momentum = v}); }},
      {"[SGD]", "dampening", kNotNumbers, [](double v) { optim::SGD({p()}, {.dampening = v}); }},
      {"[SGD]", "weight_decay", kNotRates, [](double v) { optim::SGD({p()}, {.weight_decay = v}); }},
      {"[Adam]", "lr", kNotRates, [](double v) { optim::Adam({p()}, {.lr = v}); }},
      {"[Adam]", "beta1", kNotDecays, [](double v) { optim::Adam({p()}, {.beta1 = v}); }},
      {"[Adam]", "beta2", kNotDecays, [](double v) { optim::Adam({p()}, {.beta2 = v}); }},
      {"[Adam]", "eps", kNotRates, [](double v) { optim::Adam({p()}, {.eps = v}); }},
      {"[Adam]", "weight_decay", kNotRates, [](double v) { optim::Adam({p()}, {.weight_decay = v}); }},
      {"[AdamW]", "weight_decay", kNotRates, [](double v) { optim::AdamW({p()}, {.weight_decay = v}); }},
      {"[AdamW]", "eps", kNotRates, [](double v) { optim::AdamW({p()}, {.eps = v}); }},
      {"[Adam]", "lr", kNotRates, [=](double v) { adam->set_lr(v); }},
      {"[Ema]", "decay", kNotDecays, [=](double v) { optim::Ema(params, {.decay = v}); }},
      {"[clip_grad_norm_]",
       "max_norm",
       {kNaN, -kInf, -1},
       [=](double v) { optim::clip_grad_norm_(params, v); }},
      {"[clip_grad_norm_]",
       "norm_type",
       {kNaN, -kInf, -1, 0},
       [=](double v) { optim::clip_grad_norm_(params, 1, {.norm_type = v}); }},
      {"[clip_grad_value_]",
       "limit",
       {kNaN, -kInf, -1},
       [=](double v) { optim::clip_grad_value_(params, v); }},
      {"[StepLR]", "gamma", kNotRates, [=](double v) { optim::StepLR(*adam, {.step_size = 1, .gamma = v}); }},
      {"[MultiStepLR]", "gamma", kNotRates,
       [=](double v) { optim::MultiStepLR(*adam, {.milestones = {1}, .gamma = v}); }},
      {"[ExponentialLR]", "gamma", kNotRates, [=](double v) { optim::ExponentialLR(*adam, {.gamma = v}); }},
      {"[CosineAnnealingLR]", "min_lr", kNotRates,
       [=](double v) { optim::CosineAnnealingLR(*adam, {.steps = 5, .min_lr = v}); }},
      {"[LinearLR]", "start_factor", kNoTopP, [=](double v) { optim::LinearLR(*adam, {.start_factor = v}); }},
      {"[LinearLR]", "end_factor", kNotShares, [=](double v) { optim::LinearLR(*adam, {.end_factor = v}); }},
      {"[LambdaLR]", "rate", kNotRates, [=](double v) { optim::LambdaLR(*adam, [v](auto) { return v; }); }},
  };
}

std::vector<Case> layers() {
  const auto t = [] { return zeros({3, 3}); };
  const nn::models::Gpt2Config gpt{.vocab_size = 5, .n_positions = 4, .n_embd = 4, .n_layer = 1, .n_head = 1};
  const nn::models::LlamaConfig llama{.vocab_size = 5,
                                      .hidden_size = 4,
                                      .intermediate_size = 4,
                                      .num_hidden_layers = 1,
                                      .num_attention_heads = 1,
                                      .max_position_embeddings = 4};
  const auto small = std::make_shared<nn::models::Gpt2>(gpt);
  // A case of a model's setting.
  const auto of_gpt = [=](const char* name, double nn::models::Gpt2Config::*member,
                          const std::vector<double>& refused) -> Case {
    return {"[gpt2]", name, refused, [=](double v) {
              auto config = gpt;
              config.*member = v;
              nn::models::Gpt2 model(config);
            }};
  };
  const auto of_llama = [=](const char* name, double nn::models::LlamaConfig::*member,
                            const std::vector<double>& refused) -> Case {
    return {"[llama]", name, refused, [=](double v) {
              auto config = llama;
              config.*member = v;
              nn::models::Llama model(config);
            }};
  };
  const auto of_rope = [=](const char* name, double nn::models::RopeScaling::*member) -> Case {
    return {"[llama]", name, kNotPositive, [=](double v) {
              auto config = llama;
              config.rope_scaling.emplace();
              (*config.rope_scaling).*member = v;
              nn::models::Llama model(config);
            }};
  };
  using nn::models::Gpt2Config, nn::models::LlamaConfig, nn::models::RopeScaling;
  return {
      {"[Dropout]", "p", kNotShares, [](double v) { nn::Dropout layer(v); }},
      {"[Softplus]", "beta", {kNaN, kInf, -kInf, 0}, [](double v) { nn::Softplus layer(v); }},
      {"[Softplus]", "threshold", {kNaN}, [](double v) { nn::Softplus layer(1, v); }},
      {"[LeakyReLU]", "slope", kNotNumbers, [](double v) { nn::LeakyReLU layer(v); }},
      {"[ELU]", "alpha", kNotNumbers, [](double v) { nn::ELU layer(v); }},
      {"[Hardtanh]", "bounds", {kNaN, 2}, [](double v) { nn::Hardtanh layer(v, 1); }},
      {"[PReLU]", "init", kNotNumbers, [](double v) { nn::PReLU layer(1, {.init = v}); }},
      {"[LayerNorm]", "eps", kNotRates, [](double v) { nn::LayerNorm layer(4, {.eps = v}); }},
      {"[RMSNorm]", "eps", kNotRates, [](double v) { nn::RMSNorm layer(4, {.eps = v}); }},
      {"[CrossEntropyLoss]", "label_smoothing", kNotShares,
       [](double v) { nn::CrossEntropyLoss loss({.label_smoothing = v}); }},
      {"[MultiheadAttention]", "dropout", kNotShares,
       [](double v) { nn::MultiheadAttention layer(4, 2, {.dropout = v}); }},
      {"[", "dropout", kNotShares,
       [](double v) { nn::TransformerEncoderLayer layer(4, 2, {.dim_feedforward = 4, .dropout = v}); }},
      {"[", "eps", kNotRates,
       [](double v) {
         nn::TransformerDecoderLayer layer(4, 2, {.dim_feedforward = 4, .layer_norm_eps = v});
       }},
      {"[uniform_]", "bounds", kNotNumbers, [=](double v) { nn::init::uniform_(t(), v, 1); }},
      {"[uniform_]", "bounds", kNotNumbers, [=](double v) { nn::init::uniform_(t(), 0, v); }},
      {"[normal_]", "mean", kNotNumbers, [=](double v) { nn::init::normal_(t(), v); }},
      {"[normal_]", "std", kNotRates, [=](double v) { nn::init::normal_(t(), 0, v); }},
      {"[trunc_normal_]", "mean", kNotNumbers, [=](double v) { nn::init::trunc_normal_(t(), v); }},
      {"[trunc_normal_]", "std", kNotPositive, [=](double v) { nn::init::trunc_normal_(t(), 0, v); }},
      {"[trunc_normal_]",
       "bounds",
       {kNaN, kInf, 3},
       [=](double v) { nn::init::trunc_normal_(t(), 0, 1, v); }},
      {"[xavier_uniform_]", "gain", kNotRates, [=](double v) { nn::init::xavier_uniform_(t(), v); }},
      {"[xavier_normal_]", "gain", kNotRates, [=](double v) { nn::init::xavier_normal_(t(), v); }},
      {"[kaiming_uniform_]", "a", kNotNumbers, [=](double v) { nn::init::kaiming_uniform_(t(), {.a = v}); }},
      {"[kaiming_normal_]", "a", kNotNumbers, [=](double v) { nn::init::kaiming_normal_(t(), {.a = v}); }},
      {"[orthogonal_]", "gain", kNotNumbers, [=](double v) { nn::init::orthogonal_(t(), v); }},
      of_gpt("embd_pdrop", &Gpt2Config::embd_pdrop, kNotShares),
      of_gpt("attn_pdrop", &Gpt2Config::attn_pdrop, kNotShares),
      of_gpt("resid_pdrop", &Gpt2Config::resid_pdrop, kNotShares),
      of_gpt("layer_norm_epsilon", &Gpt2Config::layer_norm_epsilon, kNotRates),
      of_gpt("initializer_range", &Gpt2Config::initializer_range, kNotRates),
      of_llama("rope_theta", &LlamaConfig::rope_theta, kNotPositive),
      of_llama("rms_norm_eps", &LlamaConfig::rms_norm_eps, kNotRates),
      of_llama("initializer_range", &LlamaConfig::initializer_range, kNotRates),
      of_llama("attention_dropout", &LlamaConfig::attention_dropout, kNotShares),
      of_rope("rope_scaling.factor", &RopeScaling::factor),
      of_rope("rope_scaling.low_freq_factor", &RopeScaling::low_freq_factor),
      of_rope("rope_scaling.high_freq_factor", &RopeScaling::high_freq_factor),
      {"[generate]", "temperature", kNotRates,
       [=](double v) {
         small->generate(zeros({1, 1}, {.dtype = i64}), {.temperature = v});
       }},
      {"[generate]", "top_p", kNoTopP,
       [=](double v) {
         small->generate(zeros({1, 1}, {.dtype = i64}), {.top_p = v});
       }},
      {"[Tokens::split]", "share", kNotShares,
       [](double v) {
         data::Tokens::from_vector({1, 2}).split(v);
       }},
      {"[ImageDataset]", "mean", kNotNumbers,
       [](double v) {
         data::ImageDataset({zeros({2, 1, 1}, {.dtype = u8}), labels(), {.mean = v}});
       }},
      {"[ImageDataset]", "std", kNotPositive,
       [](double v) {
         data::ImageDataset({zeros({2, 1, 1}, {.dtype = u8}), labels(), {.std = v}});
       }},
  };
}

std::vector<Case> ops() {
  const Tensor q = ones({1, 1, 2, 4});
  return {
      {"[dropout]", "p", kNotShares, [](double v) { dropout(x(), v); }},
      {"[softplus]", "beta", {kNaN, kInf, -kInf, 0}, [](double v) { softplus(x(), v); }},
      {"[softplus]", "threshold", {kNaN}, [](double v) { softplus(x(), 1, v); }},
      {"[leaky_relu]", "slope", kNotNumbers, [](double v) { leaky_relu(x(), v); }},
      {"[layer_norm]", "eps", kNotRates, [](double v) { layer_norm(x(), {}, {}, v); }},
      {"[rms_norm]", "eps", kNotRates, [](double v) { rms_norm(x(), {}, v); }},
      {"[cross_entropy]", "label_smoothing", kNotShares,
       [](double v) { cross_entropy(x(), labels(), {.label_smoothing = v}); }},
      {"[linear_cross_entropy]", "label_smoothing", kNotShares,
       [](double v) {
         linear_cross_entropy(x(), ones({3, 4}), labels(), {.label_smoothing = v});
       }},
      {"[scaled_dot_product_attention]", "dropout_p", kNotShares,
       [=](double v) { scaled_dot_product_attention(q, q, q, {.dropout_p = v}); }},
      {"[scaled_dot_product_attention]", "scale", kNotNumbers,
       [=](double v) { scaled_dot_product_attention(q, q, q, {.scale = v}); }},
      {"[masked_softmax]", "scale", kNotNumbers, [](double v) { masked_softmax(x(), x(), v); }},
      {"[rotary_embedding]", "base", kNotPositive,
       [](double v) { rotary_embedding(x(), arange(2, {.dtype = i64}), {.base = v}); }},
      {"[rotary_embedding]", "factor", kNotPositive,
       [](double v) {
         rotary_embedding(x(), arange(2, {.dtype = i64}),
                          {.scaling = {.kind = RotaryScaling::Kind::linear, .factor = v}});
       }},
      {"[sample_logits]", "temperature", kNotRates, [](double v) { sample_logits(x(), {.temperature = v}); }},
      {"[sample_logits]", "top_p", kNoTopP, [](double v) { sample_logits(x(), {.top_p = v}); }},
      {"[var]", "correction", kNotNumbers, [](double v) { var(x(), {}, v); }},
      {"[std]", "correction", kNotNumbers, [](double v) { stddev(x(), {}, v); }},
      {"[norm]", "p", {kNaN}, [](double v) { norm(x(), v); }},
      {"[linspace]", "start", kNotNumbers, [](double v) { linspace(v, 1, 3); }},
      {"[linspace]", "end", kNotNumbers, [](double v) { linspace(0, v, 3); }},
      {"[uniform_]", "low", kNotNumbers,
       [](double v) {
         Tensor t = x();
         uniform_(t, v, 1);
       }},
      {"[uniform_]", "high", kNotNumbers,
       [](double v) {
         Tensor t = x();
         uniform_(t, 0, v);
       }},
      {"[normal_]", "mean", kNotNumbers,
       [](double v) {
         Tensor t = x();
         normal_(t, v, 1);
       }},
      {"[normal_]", "std", kNotRates,
       [](double v) {
         Tensor t = x();
         normal_(t, 0, v);
       }},
      {"[gradcheck]", "eps", kNotPositive,
       [](double v) { gradcheck([](const auto& in) { return in; }, {}, {.eps = v}); }},
      {"[gradcheck]", "atol", kNotRates,
       [](double v) { gradcheck([](const auto& in) { return in; }, {}, {.atol = v}); }},
      {"[gradcheck]", "rtol", kNotRates,
       [](double v) { gradcheck([](const auto& in) { return in; }, {}, {.rtol = v}); }},
  };
}

void check_refused(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    for (const double value : c.refused) {
      INFO(c.op << ' ' << c.parameter << " = " << value);
      std::string text = "nothing was thrown";
      try {
        c.call(value);
      } catch (const ValueError& error) { text = error.what(); }
      INFO(text);
      CHECK(text.starts_with(c.op));
      const std::size_t remedy = text.find("; ");
      CHECK(text.find(c.parameter) < remedy);
      CHECK(text.find(detail::cat(value)) < remedy);  // what it got
      CHECK(remedy != std::string::npos);             // what it wants
    }
  }
}

}  // namespace

TEST_CASE("Numbers that mean nothing are refused: optimizers and schedules", "[optim][numbers]") {
  check_refused(optimizers_and_schedules());
  CHECK_THROWS_AS(optim::Adam(std::vector<Tensor>()), ValueError);
  CHECK_THROWS_AS(optim::Adam(std::vector<optim::ParamGroup<optim::AdamOptions>>()), ValueError);
  CHECK_THROWS_AS(optim::AdamW(std::vector<optim::ParamGroup<optim::AdamWOptions>>()), ValueError);
  CHECK_THROWS_AS(optim::SGD(std::vector<optim::ParamGroup<optim::SGDOptions>>()), ValueError);
}

TEST_CASE("Numbers that mean nothing are refused: layers, models, initial values, data", "[nn][numbers]") {
  check_refused(layers());
}

TEST_CASE("Numbers that mean nothing are refused: ops", "[ops][numbers]") {
  check_refused(ops());
  const auto same = [](const std::vector<Tensor>& in) { return in; };
  CHECK_THROWS_AS(gradcheck(same, {ones({1}, {.dtype = f64})}, {.max_elements = 0}), ValueError);
  CHECK_THROWS_AS(gradcheck({}, {ones({1}, {.dtype = f64})}), ValueError);
}

TEST_CASE("MultiStepLR: milestones in any order", "[optim][numbers]") {
  optim::SGD sgd({p()}, {.lr = 1});
  optim::MultiStepLR unordered(sgd, {.milestones = {5, 3, 5}, .gamma = 0.5});
  optim::MultiStepLR ordered(sgd, {.milestones = {3, 5, 5}, .gamma = 0.5});
  for (std::int64_t t = 0; t < 8; ++t) CHECK(unordered.lr_at(t) == ordered.lr_at(t));
  CHECK(unordered.lr_at(2) == 1);
  CHECK(unordered.lr_at(3) == 0.5);
  CHECK(unordered.lr_at(5) == 0.125);
}
