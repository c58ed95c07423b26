#include <cotangent/cotangent.h>

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/nn_testing.h"

// PyTorch's values, made by tests/golden/make_layers.py, in f64.

using namespace ct;
using ct::testing::worst;

namespace {

const StateDict& golden() {
  static const StateDict file = io::load_npz(COTANGENT_SOURCE_DIR "/tests/golden/layers.npz");
  return file;
}

constexpr std::int64_t E = 12, H = 3, B = 2, TQ = 5, TK = 7;

Tensor values(const Shape& shape, std::int64_t k, double unit) {
  Tensor t = Tensor::allocate(shape, f64, cpu);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = static_cast<double>((i * 271 + k * 97 + 13) % 401 - 200) / unit;
  return t;
}

template <class M>
M filled(M module) {
  module.to(f64);
  const NoGrad guard;
  std::int64_t k = 0;
  for (Tensor& p : module.parameters()) p.copy_(values(p.shape(), k++, 512));
  return module;
}

std::vector<Tensor> inputs(std::initializer_list<Shape> shapes) {
  std::vector<Tensor> list;
  for (const Shape& s : shapes) {
    list.push_back(values(s, 50 + static_cast<std::int64_t>(list.size()), 128));
    list.back().set_requires_grad();
  }
  return list;
}

void check(const std::string& name, const nn::Module& module, const std::vector<Tensor>& xs,
           const Tensor& y) {
  INFO(name);
  CHECK(y.shape() == golden()[name + ".out"].shape());
  CHECK(worst(y.to_vector<double>(), golden()[name + ".out"].to_vector<double>()) < 1e-12);
  (y * values(y.shape(), 90, 128)).sum().backward();
  std::vector<double> gradients;
  const auto append = [&](const Tensor& t) {
    const auto g = t.grad().to_vector<double>();
    gradients.insert(gradients.end(), g.begin(), g.end());
  };
  for (const Tensor& x : xs) append(x);
  for (const Tensor& p : module.parameters()) append(p);
  CHECK(worst(gradients, golden()[name + ".grad"].to_vector<double>()) < 1e-7);  // kept as f32
}

Tensor bools(const Shape& shape, std::initializer_list<std::int64_t> places) {
  Tensor t = zeros(shape, {.dtype = boolean});
  for (std::int64_t i : places) t.data<bool>()[i] = true;
  return t;
}
Tensor padding() { return bools({B, TK}, {5, 6, TK, TK + 1}); }
Tensor hide() { return bools({TQ, TK}, {4, TK + 3, 4 * TK + 6}); }
Tensor future() { return arange(TQ, {.dtype = i64}) > arange(TQ, {.dtype = i64}).unsqueeze(1); }

}  // namespace

TEST_CASE("MultiheadAttention equals PyTorch's", "[nn][golden]") {
  const auto run = [](const std::string& name, const std::vector<Tensor>& xs, const nn::AttentionMasks& masks,
                      nn::MultiheadAttentionOptions options) {
    const Tensor& q = xs[0];
    const Tensor& k = xs.size() > 1 ? xs[1] : xs[0];
    const Tensor& v = xs.size() > 2 ? xs[2] : k;
    const auto layer = filled(nn::MultiheadAttention(E, H, options));
    check(name, layer, xs, layer(q, k, v, masks));
    const auto [y, weights] = layer.forward_with_weights(q, k, v, masks);
    CHECK(worst(y.to_vector<double>(), golden()[name + ".out"].to_vector<double>()) < 1e-12);
    CHECK(weights.shape() == golden()[name + ".weights"].shape());
    CHECK(worst(weights.to_vector<double>(), golden()[name + ".weights"].to_vector<double>()) < 1e-12);
  };
  run("self", inputs({{TK, B, E}}), {.key_padding_mask = padding()}, {});
  run("first", inputs({{B, TQ, E}, {B, TK, E}}), {.attn_mask = hide()}, {.batch_first = true});
  run("added", inputs({{B, TQ, E}, {B, TK, E}, {B, TK, E}}), {.attn_mask = values({B * H, TQ, TK}, 70, 64)},
      {.batch_first = true});
  run("both", inputs({{B, TQ, E}, {B, TK, E}, {B, TK, E}}),
      {.key_padding_mask = padding(), .attn_mask = hide()}, {.bias = false, .batch_first = true});
  run("widths", inputs({{TQ, B, E}, {TK, B, 7}, {TK, B, 5}}), {}, {.kdim = 7, .vdim = 5});
  run("unbatched", inputs({{TK, E}}), {}, {});
  run("causal", inputs({{TQ, B, E}}), {.attn_mask = future()}, {});
  run("causal", inputs({{TQ, B, E}}), {.is_causal = true}, {});
  // A bool mask and the floating one that says the same.
  const auto layer = filled(nn::MultiheadAttention(E, H, {.batch_first = true}));
  const auto xs = inputs({{B, TQ, E}, {B, TK, E}});
  const Tensor added = where(padding(), -INFINITY, zeros({}, {.dtype = f64}));
  const Tensor a = layer(xs[0], xs[1], xs[1], {.key_padding_mask = padding(), .attn_mask = hide()});
  const Tensor b = layer(xs[0], xs[1], xs[1], {.key_padding_mask = added, .attn_mask = hide()});
  CHECK(worst(a.to_vector<double>(), b.to_vector<double>()) < 1e-12);
}

TEST_CASE("transformer layers equal PyTorch's", "[nn][golden]") {
  for (const bool first : {false, true}) {
    const std::string order = first ? "pre" : "post";
    for (const bool gelu : {false, true}) {
      const auto layer = filled(
          nn::TransformerEncoderLayer(E, H,
                                      {.dim_feedforward = 11,
                                       .dropout = 0,
                                       .activation = gelu ? nn::Activation::gelu : nn::Activation::relu,
                                       .batch_first = true,
                                       .norm_first = first}));
      const auto xs = inputs({{B, TK, E}});
      check("encoder." + order + (gelu ? ".gelu" : ".relu"), layer, xs,
            layer(xs[0], {.key_padding_mask = padding()}));
    }
    const auto layer =
        filled(nn::TransformerDecoderLayer(E, H, {.dim_feedforward = 11, .dropout = 0, .norm_first = first}));
    const auto xs = inputs({{TQ, B, E}, {TK, B, E}});
    check("decoder." + order, layer, xs,
          layer(xs[0], xs[1], {.is_causal = true}, {.key_padding_mask = padding()}));
  }
  const nn::TransformerEncoderLayer layer(
      E, H, {.dim_feedforward = 11, .dropout = 0, .batch_first = true, .norm_first = true});
  const auto stack = filled(nn::TransformerEncoder(layer, 2, nn::LayerNorm(E)));
  const auto xs = inputs({{B, TQ, E}});
  check("encoder", stack, xs, stack(xs[0], {.is_causal = true}));
}
