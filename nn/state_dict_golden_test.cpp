#include <cotangent/cotangent.h>

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/nn_testing.h"

// state_dicts that PyTorch saved, and its values, made by tests/golden/make_state_dicts.py, in f32.

using namespace ct;
using ct::testing::worst;

namespace {

const StateDict& golden() {
  static const StateDict file = io::load(COTANGENT_SOURCE_DIR "/tests/golden/state_dicts.safetensors");
  return file;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.to_vector<float>() == b.to_vector<float>();
}

// One case of the file.
struct Case {
  std::string name;
  StateDict all = golden().part(name);
  Tensor in(int n) const { return all["in." + std::to_string(n)]; }
  Tensor mask(const std::string& what) const { return all["mask." + what]; }
};

// The module takes PyTorch's state, gives it back, and computes what PyTorch does.
template <class M, class Call>
void check(const Case& c, M module, const Call& call) {
  INFO(c.name);
  const StateDict state = c.all.part("state"), gradients = c.all.part("grad");
  REQUIRE(state.size() > 0);
  module.load_state_dict(state);  // names and shapes are all the same, or it throws
  const StateDict back = module.state_dict();
  REQUIRE(back.size() == state.size());
  for (const auto& [key, t] : back) CHECK(same(t, state[key]));
  const Tensor y = call(module);
  CHECK(worst(y, c.all["out"]) < 2e-6);
  const Tensor factors = Tensor::allocate(y.shape(), f32, cpu);
  for (std::int64_t i = 0; i < y.numel(); ++i) factors.data<float>()[i] = static_cast<float>(i * i % 7 - 3);
  (y * factors).sum().backward();
  REQUIRE(gradients.size() == module.named_parameters().size());
  for (const auto& [key, p] : module.named_parameters()) {
    INFO(key);
    // The gradient of what adds nothing to the result (the bias of the keys) is rounding.
    CHECK(worst(p.grad(), gradients[key], 1e-2) < 2e-5);
  }
}

}  // namespace

TEST_CASE("PyTorch's state_dict of embeddings and norms", "[nn][golden]") {
  const Case e{"embedding"};
  check(e, nn::Embedding(11, 6, {.padding_idx = 3}), [&](const auto& m) { return m(e.in(0)); });
  const auto norm = [](const std::string& name, const auto& module) {
    const Case c{name};
    check(c, module, [&](const auto& m) { return m(c.in(0)); });
  };
  norm("layer_norm", nn::LayerNorm(7, {.eps = 1e-3}));
  norm("layer_norm_axes", nn::LayerNorm({3, 7}));
  norm("layer_norm_bare", nn::LayerNorm(7, {.bias = false}));
  norm("rms_norm", nn::RMSNorm(7));
  norm("rms_norm_eps", nn::RMSNorm(7, {.eps = 1e-2}));
}

TEST_CASE("PyTorch's state_dict of attention", "[nn][golden]") {
  const Case a{"attention"}, w{"attention_widths"};
  check(a, nn::MultiheadAttention(12, 3), [&](const auto& m) { return m(a.in(0), a.in(1), a.in(2)); });
  check(w, nn::MultiheadAttention(12, 3, {.bias = false, .kdim = 8, .vdim = 5, .batch_first = true}),
        [&](const auto& m) {
          return m(w.in(0), w.in(1), w.in(2),
                   {.key_padding_mask = w.mask("key_padding"), .attn_mask = w.mask("attn")});
        });
}

TEST_CASE("PyTorch's state_dict of transformer layers", "[nn][golden]") {
  for (const bool first : {false, true})
    for (const bool gelu : {false, true}) {
      const std::string order = first ? ".pre" : ".post", end = order + (gelu ? ".gelu" : ".relu");
      nn::TransformerLayerOptions options{.dim_feedforward = 11,
                                          .dropout = 0,
                                          .activation = gelu ? nn::Activation::gelu : nn::Activation::relu,
                                          .batch_first = true,
                                          .norm_first = first,
                                          .bias = !gelu};
      const Case e{"encoder_layer" + end}, d{"decoder_layer" + end};
      check(e, nn::TransformerEncoderLayer(12, 3, options),
            [&](const auto& m) { return m(e.in(0), {.key_padding_mask = e.mask("key_padding")}); });
      options.batch_first = false;
      options.layer_norm_eps = 1e-4;
      check(d, nn::TransformerDecoderLayer(12, 3, options), [&](const auto& m) {
        return m(d.in(0), d.in(1), {.key_padding_mask = d.mask("tgt_padding"), .attn_mask = d.mask("tgt")},
                 {.key_padding_mask = d.mask("memory_padding"), .attn_mask = d.mask("memory")});
      });
    }
  const nn::TransformerLayerOptions options{.dim_feedforward = 11, .dropout = 0};
  nn::TransformerLayerOptions pre = options;
  pre.batch_first = pre.norm_first = true;
  const Case e{"encoder"}, b{"encoder_bare"};
  check(e, nn::TransformerEncoder(nn::TransformerEncoderLayer(12, 3, pre), 2, nn::LayerNorm(12)),
        [&](const auto& m) { return m(e.in(0)); });
  check(b, nn::TransformerEncoder(nn::TransformerEncoderLayer(12, 3, options), 1),
        [&](const auto& m) { return m(b.in(0)); });
}
