#include <cotangent/core/op/registry.h>
#include <cotangent/ops/testing/conformance_internal.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <vector>

#include "tests/catch.h"
#include "tests/training_testing.h"

// Digests of what the library computes, a line each: every op forward and backward on all of its samples, and networks whose
// steps are large enough for several threads. tests/emulated.sh compares such pages: of several numbers of threads, and of an
// emulated processor with this one.
//     COTANGENT_DIGEST=page.txt build/.../ct_tests "[digest]"

namespace {

using namespace ct;

class Digest {
 public:
  void add(const Tensor& t) {
    if (!t.defined()) return;
    NoGrad guard;
    const Tensor flat = t.detach().contiguous();
    const auto* bytes = static_cast<const unsigned char*>(flat.raw_data());
    for (std::int64_t i = 0; i < flat.nbytes(); ++i) hash_ = (hash_ ^ bytes[i]) * 0x100000001b3u;  // FNV-1a
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

// Numbers with the digits of f32: samples are drawn with the system's logarithm and cosine, whose last digits in f64 are not
// the same on every processor.
testing::conformance::Tensors rounded(testing::conformance::Tensors all) {
  for (Tensor& t : all)
    if (t.defined() && t.dtype() == f64) t = t.to(f32).to(f64);
  return all;
}

Digest of_op(const OpDef& op, const OpTests& tests, DType dtype) {
  Digest digest;
  SampleMaker make(1), make_cotangents(2);
  manual_seed(3);
  for (const Sample& sample : tests.samples(make)) {
    const testing::conformance::Tensors inputs =
        testing::conformance::convert(op, rounded(sample.inputs), dtype, cpu);
    testing::conformance::Tensors cotangents;
    {
      NoGrad guard;
      for (const Tensor& y : testing::conformance::call(op, inputs, sample.attrs)) {
        digest.add(y);
        const bool flows =
            y.defined() && is_floating(y.dtype()) && op.differentiable_outputs >> cotangents.size() & 1;
        cotangents.push_back(flows ? make_cotangents.normal(y.shape()).to(f32).to(y.dtype()) : Tensor{});
      }
    }
    if (!op.differentiable || !is_floating(dtype)) continue;
    for (const Tensor& g :
         testing::conformance::differentiate(op, inputs, sample.attrs, cotangents, ~0u).grads)
      digest.add(g);
  }
  return digest;
}

Digest of_network(nn::Module& model, const std::function<Tensor()>& loss) {
  Digest digest;
  optim::AdamW adam(model.parameters(), {.lr = 0.01});
  for (int step = 0; step < 3; ++step) {
    adam.zero_grad();
    const Tensor l = loss();
    digest.add(l);
    l.backward();
    adam.step();
  }
  for (const Tensor& p : model.parameters()) digest.add(p);
  return digest;
}

}  // namespace

TEST_CASE("a digest of what is computed", "[.][digest]") {
  std::ofstream file;
  const char* path = std::getenv("COTANGENT_DIGEST");
  if (path) file.open(path);
  std::ostream& page = path ? file : std::cout;
  page << std::hex;

  int ops = 0;
  for (const OpDef* op : registry()) {
    const OpTests* tests = find_tests(op->name);
    REQUIRE(tests != nullptr);
    for (int t = 0; t < kDTypeCount; ++t)
      if (const auto dtype = static_cast<DType>(t); op->dtypes & dtype_bit(dtype))
        page << of_op(*op, *tests, dtype).value() << ' ' << op->name << ' ' << name(dtype) << '\n';
    ++ops;
  }
  CHECK(ops > 150);

  manual_seed(4);
  nn::Sequential mlp(nn::Linear(784, 256), nn::GELU(), nn::Dropout(0.1), nn::Linear(256, 10));
  const Tensor images = randn({96, 784}), labels = randint(0, 10, {96});
  page << of_network(mlp, [&] { return cross_entropy(mlp.forward(images), labels); }).value() << " mlp\n";
  nn::Sequential cnn(nn::Conv2d(3, 24, 3, {.padding = 1}), nn::BatchNorm2d(24), nn::ReLU(), nn::MaxPool2d(2),
                     nn::Conv2d(24, 40, 3), nn::ReLU(), nn::Flatten(), nn::Linear(40 * 10 * 10, 10));
  const Tensor pictures = randn({96, 3, 24, 24});
  page << of_network(cnn, [&] { return cross_entropy(cnn.forward(pictures), labels); }).value() << " cnn\n";
  nn::LSTM lstm(48, 72, {.num_layers = 2});
  const Tensor series = randn({20, 33, 48});
  page << of_network(lstm, [&] { return lstm.forward(series).output.square().mean(); }).value() << " lstm\n";

  for (const std::optional<DType> autocast : {std::optional<DType>{}, {f16}, {bf16}}) {
    testing::TinyTraining gpt({.autocast = autocast, .accumulate = 1, .width = 96});
    gpt.train(1, [&] { return gpt.seen < 4; });
    Digest digest;
    for (const Tensor& p : gpt.model.parameters()) digest.add(p);
    page << digest.value() << " gpt " << (autocast ? name(*autocast) : "float") << '\n';
  }
  CHECK(page.good());
}
