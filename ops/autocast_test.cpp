#include <cotangent/ops/autocast.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/linear/linear.h>
#include <cotangent/ops/loss/classes/cross_entropy.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/softmax/softmax.h>
#include <cotangent/ops/testing/samples.h>

#include "tests/catch.h"

namespace {

using ct::AutocastPolicy;
using ct::OpDef;
using ct::Tensor;
using Names = std::set<std::string>;

Names ops_with(AutocastPolicy policy) {
  Names names;
  for (const OpDef* op : ct::registry())
    if (op->autocast == policy) names.insert(op->name);
  return names;
}

// Counts the runs of an op.
class Counter final : public ct::OpObserver {
 public:
  explicit Counter(std::string op) : op_(std::move(op)), previous_(ct::set_op_observer(this)) {}
  ~Counter() override { ct::set_op_observer(previous_); }
  void begin(const ct::KernelCall& call) override { count += call.forward && op_ == call.op.name; }
  void end(const ct::KernelCall&) override {}
  int count = 0;

 private:
  std::string op_;
  ct::OpObserver* previous_;
};

Tensor leaf(const ct::Shape& shape) { return ct::randn(shape).set_requires_grad(); }

}  // namespace

TEST_CASE("Autocast: products in the lower dtype, sums and losses in f32, the rest as it comes",
          "[autocast]") {
  const ct::DType lower = GENERATE(ct::bf16, ct::f16);
  const Tensor x = ct::randn({4, 8}), w = leaf({5, 8}), b = leaf({5}),
               target = ct::zeros({4}, {.dtype = ct::i64});
  const ct::Autocast guard(lower);
  CHECK(ct::autocast_enabled());
  CHECK(ct::autocast_dtype() == lower);
  const Tensor y = ct::linear(x, w, b);
  CHECK(y.dtype() == lower);
  CHECK(ct::matmul(x, x.to(lower).transpose(0, 1)).dtype() == lower);
  CHECK(ct::relu(y).dtype() == lower);
  CHECK((y + y).dtype() == lower);
  CHECK((y + ct::ones({5})).dtype() == ct::f32);
  CHECK(ct::softmax(y, -1).dtype() == ct::f32);
  CHECK(ct::exp(y).dtype() == ct::f32);
  CHECK(y.sum().dtype() == ct::f32);
  const Tensor loss = ct::cross_entropy(y, target);
  CHECK(loss.dtype() == ct::f32);
  loss.backward();
  REQUIRE(w.grad().defined());
  CHECK(w.grad().dtype() == ct::f32);
  CHECK(b.grad().dtype() == ct::f32);
}

TEST_CASE("Autocast: the result is the one of inputs converted by hand, to the bit", "[autocast]") {
  const Tensor x = ct::randn({7, 16}), w = leaf({5, 16}), v = leaf({5, 16});
  v.detach().copy_(w.detach());
  Tensor y;
  {
    const ct::Autocast guard(ct::bf16);
    y = ct::tanh(ct::linear(x, w)).sum();
  }
  const Tensor want = ct::tanh(ct::linear(x.to(ct::bf16), v.to(ct::bf16))).to(ct::f32).sum();
  y.backward();
  want.backward();
  CHECK(y.item() == want.item());
  CHECK(w.grad().to_vector<float>() == v.grad().to_vector<float>());
}

TEST_CASE("Autocast nests, is switched off inside, ends, and is the thread's own", "[autocast]") {
  const Tensor a = ct::randn({3, 3});
  CHECK_FALSE(ct::autocast_enabled());
  {
    const ct::Autocast outer(ct::bf16);
    {
      const ct::Autocast inner(ct::f16);
      CHECK(ct::matmul(a, a).dtype() == ct::f16);
      const ct::NoAutocast off;
      CHECK_FALSE(ct::autocast_enabled());
      CHECK(ct::matmul(a, a).dtype() == ct::f32);
    }
    CHECK(ct::matmul(a, a).dtype() == ct::bf16);
    std::thread([&] { CHECK(ct::matmul(a, a).dtype() == ct::f32); }).join();
  }
  CHECK(ct::matmul(a, a).dtype() == ct::f32);
  CHECK_THROWS_AS(ct::Autocast(ct::f32), ct::DTypeError);
  CHECK_THROWS_AS(ct::Autocast(ct::i64), ct::DTypeError);
  CHECK_FALSE(ct::autocast_enabled());
}

TEST_CASE("Autocast leaves f64, integers and in-place ops alone", "[autocast]") {
  const Tensor a = ct::randn({3, 3});
  const Tensor d = a.to(ct::f64), i = ct::ones({3, 3}, {.dtype = ct::i64});
  const ct::Autocast guard(ct::bf16);
  CHECK(ct::matmul(d, d).dtype() == ct::f64);
  CHECK(ct::softmax(d, -1).dtype() == ct::f64);
  CHECK(ct::matmul(i, i).dtype() == ct::i64);
  CHECK(i.sum().dtype() == ct::i64);
  CHECK_THROWS_AS(ct::matmul(a, d), ct::DTypeError);  // as without
  Tensor total = ct::zeros({3, 3});
  total.add_(ct::matmul(a, a));
  CHECK(total.dtype() == ct::f32);
}

TEST_CASE("Autocast converts a weight once while the outermost guard lives", "[autocast]") {
  const Tensor x = ct::randn({2, 4}).to(ct::bf16);
  Tensor w = leaf({4, 4});
  Counter copies("copy");
  {
    const ct::Autocast guard(ct::bf16);
    const Tensor first = ct::linear(x, w);
    {
      const ct::Autocast inner(ct::bf16);
      ct::linear(first, w);
    }
    ct::linear(x, w);
    CHECK(copies.count == 1);
    // Values change with the parameter: a stale copy would give the old product.
    {
      const ct::NoGrad no_grad;
      w.zero_();
    }
    CHECK(ct::abs(ct::linear(x, w)).sum().item() == 0);
    CHECK(copies.count == 2 + 1);  // and the f32 sum
    ct::linear(x, w.detach());
    ct::linear(x, w.detach());
    CHECK(copies.count == 5);  // not a parameter
  }
  {
    const ct::Autocast guard(ct::bf16);
    ct::linear(x, w);
    CHECK(copies.count == 6);
  }
  const ct::Autocast guard(ct::bf16, {.cache_weights = false});
  ct::linear(x, w);
  ct::linear(x, w);
  CHECK(copies.count == 8);
}

TEST_CASE("a weight converted without the tape is converted again for it", "[autocast]") {
  const Tensor x = ct::randn({2, 4});
  Tensor w = leaf({4, 4});
  const ct::Autocast guard(ct::bf16);
  {
    const ct::NoGrad no_grad;
    CHECK_FALSE(ct::linear(x, w).requires_grad());
  }
  ct::linear(x, w).sum().backward();
  REQUIRE(w.grad().defined());
  // The same converted weight serves further passes.
  const std::vector<float> once = w.grad().to_vector<float>();
  ct::linear(x, w).sum().backward();
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(w.grad().to_vector<float>()[i] == 2 * once[i]);
}

TEST_CASE("the converted weights are gone when the outermost guard is", "[autocast]") {
  const Tensor x = ct::randn({1, 256}), w = leaf({256, 256});
  const std::size_t before = ct::memory_stats(ct::cpu).in_use;
  {
    const ct::Autocast guard(ct::bf16);
    { ct::linear(x, w); }
    CHECK(ct::memory_stats(ct::cpu).in_use >= before + 256 * 256 * 2);
  }
  CHECK(ct::memory_stats(ct::cpu).in_use == before);
}

namespace {
// An op that wants one dtype and does not promote by itself.
void first_infer(ct::Infer& in) { in.output(in.in(0).shape(), in.in(0).dtype()); }
void first_forward(const ct::Forward& f) {
  if (f.in(0).dtype() == f.in(1).dtype()) f.out().copy_(f.in(0));
}
constexpr ct::InputDef k_first_inputs[] = {{.name = "a", .gradient = false},
                                           {.name = "b", .gradient = false}};
constexpr ct::OutputDef k_first_outputs[] = {{.name = "y", .gradient = false}};
constexpr OpDef k_first = ct::checked({.name = "first",
                                       .formula = "y = a",
                                       .inputs = k_first_inputs,
                                       .outputs = k_first_outputs,
                                       .infer = first_infer,
                                       .cpu = {first_forward, nullptr}});
}  // namespace

TEST_CASE("Autocast: a weight whose memory has been replaced is converted anew", "[autocast]") {
  const Tensor w = ct::ones({4, 4}).set_requires_grad(), x = ct::ones({1, 4});
  const ct::Autocast guard(ct::bf16);
  CHECK(ct::matmul(x, w).to_vector<double>() == std::vector<double>(4, 4));
  // The new memory's record may lie where the old one's lay, and may have been changed as often.
  const std::uint32_t version = w.impl()->storage->version();
  w.impl()->storage.reset();
  const Tensor other = ct::full({4, 4}, 3.0);
  while (other.impl()->storage->version() < version) other.impl()->storage->bump_version();
  w.impl()->storage = other.impl()->storage;
  CHECK(ct::matmul(x, w).to_vector<double>() == std::vector<double>(4, 12));
}

TEST_CASE("Autocast: inputs of different dtypes meet in the widest", "[autocast]") {
  const Tensor x = ct::randn({4, 4}), y = x.to(ct::bf16);
  CHECK_THROWS_AS(ct::dispatch(k_first, {y, x}), ct::DTypeError);
  const ct::Autocast guard(ct::f16);
  CHECK(ct::dispatch(k_first, {y, x}).dtype() == ct::f32);
  CHECK(ct::dispatch(k_first, {y, y}).dtype() == ct::bf16);
  CHECK((y * x).dtype() == ct::f32);
  CHECK((y * x.to(ct::f16)).dtype() == ct::f32);
  CHECK((y * y).dtype() == ct::bf16);
}

// PyTorch's autocast, for the ops that both have; its list for CUDA is the longest.
TEST_CASE("the policies are PyTorch's", "[autocast]") {
  const Names lower = ops_with(AutocastPolicy::lower), f32 = ops_with(AutocastPolicy::f32);
  for (const char* name : {"matmul", "linear"}) CHECK(lower.count(name) == 1);
  for (const char* name :
       {"exp", "log", "pow", "pow_scalar", "rpow_scalar", "reciprocal", "rsqrt", "softplus", "softmax",
        "log_softmax", "sum", "prod", "norm", "logsumexp", "mse_loss", "nll_loss", "bce_with_logits"})
    CHECK(f32.count(name) == 1);
  for (const char* name : {"add", "mul", "div", "relu", "gelu", "silu", "tanh", "sigmoid", "sqrt", "maximum",
                           "where", "concat", "stack", "view", "dropout", "copy", "amax"}) {
    CAPTURE(name);
    CHECK(lower.count(name) + f32.count(name) == 0);
  }
}

// Every sample of every op: dtypes as the policy says, gradients in the inputs' own dtype.
TEST_CASE("every op does under Autocast what its policy says", "[autocast]") {
  for (const OpDef* op : ct::registry()) {
    if (op->autocast == AutocastPolicy::promote) continue;
    const bool lower = op->autocast == AutocastPolicy::lower;
    const ct::DType from = lower ? ct::f32 : ct::bf16, to = lower ? ct::bf16 : ct::f32;
    ct::SampleMaker make(1);
    for (const ct::Sample& sample : ct::find_tests(op->name)->samples(make)) {
      INFO(op->name << ", " << sample.label);
      std::vector<Tensor> inputs, converted;
      for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
        const Tensor& t = sample.inputs[i];
        const bool involved =
            t.defined() && ct::is_floating(t.dtype()) && !ct::mask_bit(op->free_dtype_inputs, i);
        inputs.push_back(involved ? t.to(from) : t);
        converted.push_back(involved ? inputs.back().to(to) : t);
        if (involved && op->differentiable && ct::mask_bit(op->differentiable_inputs, i))
          inputs.back().set_requires_grad();
      }
      std::vector<const Tensor*> refs, plain_refs;
      for (const Tensor& t : inputs) refs.push_back(&t);
      for (const Tensor& t : converted) plain_refs.push_back(&t);
      std::array<Tensor, ct::kMaxOutputs> outputs, plain;
      {
        const ct::Autocast guard(ct::bf16);
        ct::dispatch(*op, refs, sample.attrs.view(), outputs);
      }
      ct::dispatch(*op, plain_refs, sample.attrs.view(), plain);
      CHECK(outputs[0].dtype() == plain[0].dtype());
      // A product's result has the guard's dtype; a loss, for being one number, f32.
      const bool loss = std::string_view(op->name).starts_with("linear_cross_entropy");
      if (lower) CHECK(outputs[0].dtype() == (loss ? ct::f32 : ct::bf16));
      const std::vector<double> got = outputs[0].to_vector<double>(), want = plain[0].to_vector<double>();
      REQUIRE(got.size() == want.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK((got[i] == want[i] || (got[i] != got[i] && want[i] != want[i])));
      if (!outputs[0].requires_grad()) continue;
      outputs[0].backward(ct::ones_like(outputs[0]));
      for (const Tensor& t : inputs)
        if (t.defined() && t.requires_grad()) {
          REQUIRE(t.grad().defined());
          CHECK(t.grad().dtype() == from);
        }
    }
  }
}

// docs/autocast.md names them; COTANGENT_WRITE_AUTOCAST_MD=docs/autocast.md ct_tests "[autocast]" writes it.
TEST_CASE("docs/autocast.md lists the policies", "[autocast]") {
  const auto list = [](const Names& names) {
    std::string text;
    for (const std::string& name : names) text.append(text.empty() ? "" : ", ").append("`" + name + "`");
    return text;
  };
  std::ostringstream page;
  page << "# Mixed precision\n\n"
          "`ct::Autocast guard(ct::bf16);` (`ops/autocast.h`) lets every op pick the dtype that suits it, "
          "by\n"
          "the field `autocast` of its OpDef. The tests write this page.\n\n"
          "| policy | floating inputs | ops |\n|---|---|---|\n"
          "| `lower` | f32 becomes the guard's dtype | "
       << list(ops_with(AutocastPolicy::lower)) << " |\n| `f32` | f16 and bf16 become f32 | "
       << list(ops_with(AutocastPolicy::f32))
       << " |\n| `promote` | inputs of different dtypes become the widest | all others |\n\n"
          "The lists are PyTorch's for CUDA, and the same on the CPU. They differ where PyTorch leaves a sum "
          "in 16\n"
          "bits: `mean`, `var` and `std` give f32 here. f64 and integer inputs, inputs with a dtype of their "
          "own\n"
          "(indices, masks) and in-place ops are left alone.\n\n"
          "`add_layer_norm` and `add_rms_norm` stand between the f32 stream of a transformer and its "
          "products. They take\n"
          "an addend of the guard's dtype as it is (`OpDef::low_inputs`), and give an f32 sum and normalized "
          "rows of the\n"
          "guard's dtype; with `NormUse::stream` these are f32, too. Statistics and parameters are f32.\n\n"
          "The gradient of an f32 parameter that a product takes in 16 bits is computed in f32, and added to "
          "the\n"
          "parameter's gradient by the product itself (`OpDef::wide_grads`); PyTorch rounds it to 16 bits in "
          "between.\n";
  if (const char* path = std::getenv("COTANGENT_WRITE_AUTOCAST_MD")) {
    std::ofstream(path) << page.str();
    SUCCEED("written");
    return;
  }
  std::ifstream file(COTANGENT_SOURCE_DIR "/docs/autocast.md");
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  INFO("regenerate with COTANGENT_WRITE_AUTOCAST_MD=docs/autocast.md");
  CHECK(text.str() == page.str());
}

TEST_CASE("Autocast on CUDA", "[autocast][cuda]") {
  const ct::Device gpu = ct::cuda(0);
  const Tensor x = ct::randn({33, 64}).to(gpu);
  Tensor w = ct::randn({17, 64}).to(gpu).set_requires_grad();
  const Tensor target = ct::zeros({33}, {.dtype = ct::i64, .device = gpu});
  Counter copies("copy");
  for (const ct::DType lower : {ct::bf16, ct::f16}) {
    w.set_grad({});
    Tensor loss;
    {
      const ct::Autocast guard(lower);
      const Tensor y = ct::linear(x, w);
      CHECK(y.dtype() == lower);
      ct::linear(x.to(lower), w);
      loss = ct::cross_entropy(y, target);
    }
    CHECK(loss.dtype() == ct::f32);
    loss.backward();
    CHECK(w.grad().dtype() == ct::f32);
    const Tensor host = w.detach().to(ct::cpu).set_requires_grad();
    const Tensor want = ct::cross_entropy(ct::linear(x.to(ct::cpu), host), target.to(ct::cpu));
    want.backward();
    CHECK(std::abs(loss.item() - want.item()) < 0.02 * want.item());
    const double error = ct::amax(ct::abs(w.grad().to(ct::cpu) - host.grad())).item();
    CHECK(error < 0.02 * ct::amax(ct::abs(host.grad())).item());
  }
  CHECK(copies.count == 2 * (1 + 1 + 1 + 1));  // x twice, w once, the logits to f32
}
