#include <cmath>
#include <string>
#include <vector>

#include <cotangent/nn/io/npy.h>
#include <cotangent/ops/elementwise/gated.h>
#include <cotangent/ops/indexing/embedding.h>
#include <cotangent/ops/normalization/layer_norm.h>
#include <cotangent/ops/normalization/rms_norm.h>
#include <cotangent/ops/rotary/rotary_embedding.h>

#include "tests/catch.h"

// PyTorch's values, made by tests/golden/make_transformer_ops.py.

using namespace ct;

namespace {

const StateDict& golden() {
  static const StateDict file = io::load_npz(COTANGENT_SOURCE_DIR "/tests/golden/transformer_ops.npz");
  return file;
}

Tensor numbers(const Shape& shape, std::int64_t seed) {
  Tensor t = Tensor::allocate(shape, f32, cpu);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = static_cast<float>((i * 7919 + seed * 104729 + 13) % 2003 - 1001) / 512;
  return t;
}
Tensor leaf(const Shape& shape, std::int64_t seed) {
  Tensor t = numbers(shape, seed);
  t.set_requires_grad();
  return t;
}

void check(const std::string& name, const Tensor& got, double tolerance = 2e-6) {
  INFO(name);
  const Tensor& want = golden().at(name);
  REQUIRE(got.shape() == want.shape());
  const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i]))))
      FAIL(name << ", element " << i << " is " << a[i] << ", PyTorch has " << b[i]);
}

}  // namespace

TEST_CASE("embedding as PyTorch's", "[golden][embedding]") {
  Tensor index = Tensor::allocate({4, 15}, i64, cpu);
  for (std::int64_t i = 0; i < 60; ++i) index.data<std::int64_t>()[i] = (i * 37 + 5) % 11;
  for (const bool padding : {false, true}) {
    const std::string name = padding ? "embedding_padding" : "embedding";
    const Tensor w = leaf({11, 20}, 1);
    const Tensor y = padding ? embedding(index, w, 3) : embedding(index, w);
    y.backward(numbers(y.shape(), 2));
    check(name + ".y", y);
    check(name + ".dw", w.grad());
  }
}

TEST_CASE("layer_norm and rms_norm as PyTorch's", "[golden][layer_norm][rms_norm]") {
  const auto run = [](const std::string& name, const Shape& shape, const Shape& row) {
    const Tensor x = leaf(shape, 3), w = leaf(row, 4), b = leaf(row, 5);
    const Tensor y = layer_norm(x, w, b);
    y.backward(numbers(shape, 6));
    check(name + ".y", y);
    check(name + ".dx", x.grad());
    check(name + ".dw", w.grad());
    check(name + ".db", b.grad());
  };
  run("layer_norm", {6, 40}, {40});
  run("layer_norm_axes", {5, 3, 7}, {3, 7});
  const Tensor x = leaf({6, 40}, 3), w = leaf({40}, 4);
  const Tensor y = rms_norm(x, w);
  y.backward(numbers({6, 40}, 6));
  check("rms_norm.y", y);
  check("rms_norm.dx", x.grad());
  check("rms_norm.dw", w.grad());
}

TEST_CASE("gated activations as PyTorch's", "[golden][gated]") {
  for (const std::string name : {"swiglu", "geglu", "geglu_tanh"}) {
    const Tensor a = leaf({7, 33}, 7), b = leaf({7, 33}, 8);
    const Tensor y =
        name == "swiglu" ? swiglu(a, b) : geglu(a, b, name == "geglu" ? Gelu::exact : Gelu::tanh);
    y.backward(numbers({7, 33}, 9));
    check(name + ".y", y);
    check(name + ".da", a.grad());
    check(name + ".db", b.grad());
  }
}

TEST_CASE("rotary_embedding as transformers' Llama has it", "[golden][rotary_embedding]") {
  Tensor positions = Tensor::allocate({2, 5}, i64, cpu);
  const std::int64_t at[] = {0, 1, 7, 100, 1023, 3, 500, 2047, 4095, 8191};
  std::copy_n(at, 10, positions.data<std::int64_t>());
  for (const bool scaled : {false, true}) {
    const std::string name = scaled ? "rotary_llama3" : "rotary";
    RotaryOptions options{.base = scaled ? 500000.0 : 10000.0};
    if (scaled) options.scaling = {.kind = RotaryScaling::Kind::llama3, .factor = 8};
    const Tensor x = leaf({2, 2, 5, 64}, 10);
    const Tensor y = rotary_embedding(x, positions, options);
    y.backward(numbers({2, 2, 5, 64}, 11));
    // Close only with PyTorch's own rounding of every step: a frequency that is one unit in the last place
    // off turns by up to 5e-4 more or less at position 8191.
    check(name + ".y", y, 1e-5);
    check(name + ".dx", x.grad(), 1e-5);
  }
}
