#include <cotangent/cotangent.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::bytes_of;
using ct::testing::tensor_of;

namespace {

std::vector<std::string> names_of(const nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, p] : module.named_parameters()) names.push_back(name);
  return names;
}

double largest(const Tensor& t) { return amax(ct::abs(t.detach())).item(); }

}  // namespace

TEST_CASE("Embedding looks up rows", "[nn]") {
  manual_seed(3);
  const nn::Embedding layer(50, 40, {.padding_idx = -2});
  CHECK(names_of(layer) == std::vector<std::string>{"weight"});
  const Tensor ids = tensor_of<std::int64_t>({2, 2}, {3, 48, 3, 0});
  const Tensor y = layer(ids);
  CHECK(y.shape() == Shape{2, 2, 40});
  CHECK(bytes_of(y[0][0].contiguous()) == bytes_of(layer.weight()->select(0, 3).contiguous()));
  CHECK(largest(layer.weight()->select(0, 48)) == 0);
  CHECK(std::abs(var(layer.weight()).item() - 0.98) < 0.1);
  y.sum().backward();
  const std::vector<float> g = sum(layer.weight()->grad(), {1}).to_vector<float>();
  CHECK(g[3] == 80);
  CHECK(g[0] == 40);
  CHECK(g[48] == 0);
  CHECK(g[1] == 0);
  CHECK_THROWS_AS(layer(tensor_of<std::int64_t>({1}, {50})), IndexError);
  CHECK_THROWS_AS(nn::Embedding(5, 3, {.padding_idx = 5}), IndexError);
  CHECK_THROWS_AS(nn::Embedding(-1, 3), ShapeError);
}

TEST_CASE("norms are those of their formulas", "[nn]") {
  const Tensor x = tensor_of<float>({2, 2}, {1, 3, -2, 6});
  nn::LayerNorm norm(2, {.eps = 0});
  CHECK(names_of(norm) == std::vector<std::string>{"weight", "bias"});
  CHECK(norm(x).to_vector<float>() == std::vector<float>{-1, 1, -1, 1});
  const auto [y, s] = norm.add_forward(x, tensor_of<float>({2, 2}, {0, 4, 0, 0}));
  CHECK(s.to_vector<float>() == std::vector<float>{1, 7, -2, 6});
  CHECK(y.to_vector<float>() == std::vector<float>{-1, 1, -1, 1});
  CHECK(names_of(nn::LayerNorm(2, {.bias = false})) == std::vector<std::string>{"weight"});
  // Over several axes, with and without parameters.
  const Tensor z = randn({3, 2, 5});
  const Tensor a = nn::LayerNorm({2, 5})(z), b = nn::LayerNorm({2, 5}, {.affine = false})(z);
  CHECK(a.shape() == z.shape());
  CHECK(largest(a - b) < 1e-5);
  CHECK(largest(mean(a, {1, 2})) < 1e-6);
  CHECK_THROWS_AS(nn::LayerNorm({2, 5})(randn({3, 5, 2})), ShapeError);
  CHECK_THROWS_AS(nn::LayerNorm({2, 5}, {.affine = false})(randn({3, 5, 2})), ShapeError);
  CHECK_THROWS_AS(nn::LayerNorm(4, {.affine = false})(randn({3})), ShapeError);
  CHECK_THROWS_AS(nn::LayerNorm(Shape{}), ShapeError);

  const nn::RMSNorm rms(2, {.eps = 0});
  CHECK(names_of(rms) == std::vector<std::string>{"weight"});
  const std::vector<float> r = rms(x).to_vector<float>();
  CHECK(r[1] == Approx(3 / std::sqrt(5.0)));
  CHECK(r[2] == Approx(-2 / std::sqrt(20.0)));
  // The default eps is that of the dtype, so that zeros stay zeros.
  CHECK(largest(nn::RMSNorm(4)(zeros({1, 4}))) == 0);
  CHECK(nn::RMSNorm(1)(tensor_of<float>({1}, {1e-3f})).item() ==
        Approx(1e-3 / std::sqrt(1e-6 + 1.1920929e-7)));
  CHECK_THROWS_AS(nn::RMSNorm(3)(x), ShapeError);
}

TEST_CASE("attention has PyTorch's parameters and initial values", "[nn]") {
  manual_seed(5);
  const nn::MultiheadAttention layer(64, 4);
  CHECK(names_of(layer) ==
        std::vector<std::string>{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"});
  CHECK(layer.get("in_proj_weight").shape() == Shape{192, 64});
  const double bound = std::sqrt(6.0 / 256);
  CHECK(largest(layer.get("in_proj_weight")) <= bound);
  CHECK(largest(layer.get("in_proj_weight")) > 0.98 * bound);
  CHECK(largest(layer.get("in_proj_bias")) == 0);
  CHECK(largest(layer.get("out_proj.bias")) == 0);
  CHECK(largest(layer.get("out_proj.weight")) <= 1.0 / 8);
  CHECK(names_of(nn::MultiheadAttention(8, 2, {.bias = false, .kdim = 3})) ==
        std::vector<std::string>{"q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"});
  CHECK_THROWS_WITH(nn::MultiheadAttention(10, 3),
                    Catch::Contains("embed_dim is 10, num_heads 3; embed_dim must be a multiple"));
  CHECK_THROWS_AS(nn::MultiheadAttention(8, 2, {.dropout = 1.5}), ValueError);
  const Tensor x = randn({3, 2, 64});
  CHECK_THROWS_AS(layer(x, x, randn({4, 2, 64})), ShapeError);
  CHECK_THROWS_AS(layer(randn({3, 2, 63}), x, x), ShapeError);
  CHECK_THROWS_AS(layer(x, x, x, {.attn_mask = zeros({2, 3})}), ShapeError);
  CHECK_THROWS_AS(layer(x, x, x, {.key_padding_mask = zeros({3, 2})}), ShapeError);
}

TEST_CASE("a query that sees no key gives the output's bias", "[nn]") {
  const nn::MultiheadAttention layer(8, 2, {.batch_first = true});
  nn::init::constant_(layer.get("out_proj.bias"), 0.25);
  Tensor x = randn({1, 3, 8});
  x.set_requires_grad();
  const Tensor all = ones({1, 3}, {.dtype = boolean});
  const Tensor y = layer(x, x, x, {.key_padding_mask = all});
  CHECK(largest(y - layer.get("out_proj.bias")) == 0);
  y.sum().backward();
  CHECK(largest(x.grad()) == 0);
  // With the weights, which are 0, it is no different.
  const auto [z, weights] = layer.forward_with_weights(x, x, x, {.key_padding_mask = all});
  CHECK(largest(z - layer.get("out_proj.bias")) == 0);
  CHECK(largest(weights) == 0);
}

TEST_CASE("attention with and without weights is the same under every mask", "[nn]") {
  const nn::MultiheadAttention layer(8, 2, {.batch_first = true});
  const Tensor x = randn({2, 5, 8});
  const Tensor late = arange(5) > tensor({3, 4}).unsqueeze(1);  // what is behind the end of a sequence
  for (const Tensor& padding : {Tensor{}, late, late.to(f32) * -3.0})
    for (const Tensor& mask : {Tensor{}, randn({5, 5}) > 1.0, randn({4, 5, 5})})
      for (const bool causal : {false, true}) {
        const nn::AttentionMasks masks{padding, mask, causal};
        CAPTURE(padding.defined(), mask.defined(), causal);
        CHECK(largest(layer(x, x, x, masks) - layer.forward_with_weights(x, x, x, masks)[0]) < 1e-5);
      }
}

TEST_CASE("attention refuses masks of integers and negative widths", "[nn]") {
  const nn::MultiheadAttention layer(8, 2, {.batch_first = true});
  const Tensor x = randn({2, 3, 8});
  CHECK_THROWS_AS(layer(x, x, x, {.key_padding_mask = zeros({2, 3}, {.dtype = i64})}), DTypeError);
  CHECK_THROWS_AS(layer(x, x, x, {.attn_mask = zeros({3, 3}, {.dtype = u8})}), DTypeError);
  CHECK_THROWS_AS(nn::MultiheadAttention(8, 2, {.kdim = -1}), ValueError);
}

TEST_CASE("attention checks its sizes before it draws values", "[nn]") {
  const std::uint64_t before = default_generator().offset();
  CHECK_THROWS_AS(nn::MultiheadAttention(8, 3), ValueError);
  CHECK_THROWS_AS(nn::MultiheadAttention(-8, 2), ValueError);
  CHECK_THROWS_AS(nn::MultiheadAttention(8, 2, {.dropout = 1.5}), ValueError);
  CHECK_THROWS_WITH(nn::MultiheadAttention(0, 1),
                    "[MultiheadAttention] embed_dim is 0, num_heads 1; they must be positive");
  CHECK(default_generator().offset() == before);
}

TEST_CASE("transformer layers keep their stream in f32 under Autocast", "[nn]") {
  manual_seed(11);
  const Tensor x = randn({2, 5, 32}), memory = randn({2, 3, 32});
  for (const bool norm_first : {false, true}) {
    CAPTURE(norm_first);
    const nn::TransformerLayerOptions options{
        .dim_feedforward = 64, .dropout = 0, .batch_first = true, .norm_first = norm_first};
    const nn::TransformerEncoderLayer encoder(32, 4, options);
    const nn::TransformerDecoderLayer decoder(32, 4, options);
    const Tensor a = encoder(x), b = decoder(x, memory);
    const Autocast guard(bf16);
    for (const auto& [got, want] : {std::pair{encoder(x), a}, {decoder(x, memory), b}}) {
      REQUIRE(got.dtype() == f32);
      CHECK(largest(got - want) < 0.05);
      CHECK(largest(got - got.to(bf16)) > 0);  // not a bf16 value made wide
    }
  }
}

TEST_CASE("dropout in attention and layers follows the mode", "[nn]") {
  nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16, .dropout = 0.5});
  const Tensor x = randn({4, 3, 8});
  manual_seed(1);
  const Tensor a = layer(x);
  const Tensor b = layer(x);
  CHECK(bytes_of(a) != bytes_of(b));
  manual_seed(1);
  CHECK(bytes_of(layer(x)) == bytes_of(a));
  layer.eval();
  CHECK(bytes_of(layer(x)) == bytes_of(layer(x)));
}

TEST_CASE("an encoder is made of copies of a layer", "[nn]") {
  const nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16});
  const nn::TransformerEncoder encoder(layer, 2);
  CHECK(names_of(encoder).size() == 24);
  CHECK(names_of(encoder)[12] == "layers.1.self_attn.in_proj_weight");
  CHECK(names_of(layer) == std::vector<std::string>{"self_attn.in_proj_weight", "self_attn.in_proj_bias",
                                                    "self_attn.out_proj.weight", "self_attn.out_proj.bias",
                                                    "linear1.weight", "linear1.bias", "linear2.weight",
                                                    "linear2.bias", "norm1.weight", "norm1.bias",
                                                    "norm2.weight", "norm2.bias"});
  const Tensor p = encoder.get("layers.0.linear1.weight"), q = encoder.get("layers.1.linear1.weight");
  CHECK(bytes_of(p) == bytes_of(q));
  CHECK_FALSE(p.is_same(q));
  CHECK_FALSE(p.is_same(layer.get("linear1.weight")));
  // clone() reaches all of it.
  nn::TransformerEncoder copy = nn::clone(encoder);
  copy.eval();
  CHECK(encoder.is_training());
  CHECK_FALSE(copy.layers[0].linear1.weight()->is_same(encoder.layers[0].linear1.weight()));
  CHECK(copy.layers[0].linear1.weight()->is_same(copy.get("layers.0.linear1.weight")));
  CHECK_THROWS_AS(nn::TransformerEncoder(layer, -1), ValueError);
}
