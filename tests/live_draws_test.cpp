#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <cotangent/core/op/registry.h>
#include <cotangent/cotangent.h>
#include <cotangent/nn/io/checkpoint.h>
#include <cotangent/ops/testing/conformance_internal.h>
#include <cotangent/ops/testing/samples.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

// Draws whose key kernels read at the time they run, as those of a recorded step are: the same bits as of the key by value.

using namespace ct;
using namespace ct::testing;

namespace {

// A key in memory of the device that draws.
class Live {
 public:
  explicit Live(Device device) : memory_(zeros({sizeof(GeneratorState)}, {.dtype = u8, .device = device})) {}

  const GeneratorState* set(std::uint64_t seed, std::uint64_t offset) {
    const GeneratorState state{seed, offset};
    const Tensor host = zeros(memory_.shape(), {.dtype = u8});
    std::memcpy(host.raw_data(), &state, sizeof state);
    memory_.copy_(host);
    return static_cast<const GeneratorState*>(memory_.raw_data());
  }

 private:
  Tensor memory_;
};

constexpr std::uint64_t kSeed = 0x123456789abcdef0,
                        kOffset = 0xffffffff;  // the next draw's has another upper half

// run(state) gives the bytes of what is drawn. True if the next draw differs.
bool check(Live& live, const std::function<std::string(const GeneratorState&)>& run) {
  const std::string first = run({kSeed, kOffset}), next = run({kSeed, kOffset + 1});
  const GeneratorState relative{1, 7, live.set(kSeed, kOffset - 7)};
  CHECK((run(relative) == first));
  live.set(kSeed, kOffset - 6);
  CHECK((run(relative) == next));
  return first != next;
}

std::string bytes_of(const std::vector<Tensor>& list) {
  std::string bytes;
  for (const Tensor& t : list)
    if (t.defined()) bytes += testing::bytes_of(t.contiguous());
  return bytes;
}

std::string run_sample(const OpDef& op, const Sample& sample, DType dtype, Device device) {
  const testing::conformance::Tensors inputs =
      testing::conformance::convert(op, sample.inputs, dtype, device);
  const testing::conformance::Tensors outputs = testing::conformance::call(op, inputs, sample.attrs);
  if (!op.differentiable) return bytes_of(outputs);
  SampleMaker make(2);
  testing::conformance::Tensors cotangents;
  for (const Tensor& y : outputs)
    cotangents.push_back(mask_bit(op.differentiable_outputs, cotangents.size())
                             ? make.normal(y.shape()).to(y.dtype()).to(device)
                             : Tensor());
  const auto results = testing::conformance::differentiate(op, inputs, sample.attrs, cotangents, ~0u);
  return bytes_of(results.outputs) + bytes_of(results.grads);
}

void check_registered(Device device) {
  Live live(device);
  std::set<std::string> drawing;
  for (const OpDef* op : registry()) {
    const auto attr = std::ranges::find(op->attributes, AttrType::draw, &AttrDef::type);
    if (attr == op->attributes.end()) continue;
    for (const DType dtype : {f32, bf16, f16, f64}) {
      bool moved = false;
      SampleMaker make(1);
      for (Sample sample : find_tests(op->name)->samples(make)) {
        INFO(op->name << ' ' << name(dtype) << ' ' << sample.label);
        moved |= check(live, [&](const GeneratorState& state) {
          std::memcpy(sample.attrs.bytes.data() + attr->offset, &state, sizeof state);
          return run_sample(*op, sample, dtype, device);
        });
        CHECK_THAT(describe_attributes(*op, sample.attrs.view()),
                   Catch::Contains("offset 7 from a recorded step's"));
      }
      INFO(op->name << ' ' << name(dtype));
      CHECK(moved);
      drawing.insert(op->name);
    }
  }
  CHECK(drawing ==
        std::set<std::string>{"dropout", "multinomial", "sample_logits", "scaled_dot_product_attention"});
}

// Attention of 16-bit types by tensor cores, of whole blocks of random words, at the widths of its kernels.
std::string attend(const Tensor& q, const Tensor& mask, Generator& generator) {
  const Tensor x = q.detach().set_requires_grad();
  const Tensor y =
      scaled_dot_product_attention(x, x, x, {.mask = mask, .dropout_p = 0.4, .generator = generator});
  y.backward(y.detach());
  return bytes_of({y.detach(), x.grad()});
}

void check_functions(Device device) {
  Live live(device);
  const auto draws = [&](const char* what, const std::function<std::string(Generator&)>& run) {
    INFO(what);
    CHECK(check(live, [&](const GeneratorState& state) {
      Generator generator;
      generator.set_state(state);
      const std::string bytes = run(generator);
      CHECK(generator.state() == GeneratorState{state.seed, state.offset + 1, state.live});
      return bytes;
    }));
  };
  for (const DType dtype : {f32, bf16, f16, f64}) {
    const TensorOptions options{.dtype = dtype, .device = device};
    INFO(name(dtype));
    draws("rand", [&](Generator& g) { return bytes_of({rand({40'001}, options, g)}); });
    draws("randn", [&](Generator& g) { return bytes_of({randn({40'001}, options, g)}); });
    draws("uniform_", [&](Generator& g) { return bytes_of({zeros({7}, options).uniform_(2, 5, g)}); });
    draws("exponential_", [&](Generator& g) { return bytes_of({zeros({7}, options).exponential_(2, g)}); });
    draws("randint", [&](Generator& g) { return bytes_of({randint(0, 100, {333}, options, g)}); });
    draws("bernoulli", [&](Generator& g) { return bytes_of({bernoulli(full({333}, 0.5, options), g)}); });
    draws("dropout, large", [&](Generator& g) {  // chunks, and single elements behind them
      return bytes_of({dropout(ones({(1 << 17) + 3}, options), 0.3, true, g)});
    });
    manual_seed(1);
    for (const std::int64_t dim : {16, 64, 128, 256}) {
      const Tensor q = randn({1, 2, 40, dim}, options);
      draws("attention", [&](Generator& g) { return attend(q, {}, g); });
      draws("attention", [&](Generator& g) { return attend(q, zeros({40, 40}, options), g); });
    }
  }
  draws("randint", [&](Generator& g) { return bytes_of({randint(0, 100, {333}, {.device = device}, g)}); });
}

}  // namespace

TEST_CASE("ops draw by a key that is read when they run", "[rng]") { check_registered(cpu); }
TEST_CASE("functions draw by a key that is read when they run", "[rng]") { check_functions(cpu); }
TEST_CASE("ops draw by a key that is read when they run, on CUDA", "[rng][cuda]") {
  check_registered(cuda(0));
}
TEST_CASE("functions draw by a key that is read when they run, on CUDA", "[rng][cuda]") {
  check_functions(cuda(0));
}

namespace {

struct StateGuard {
  const GeneratorState before = default_generator().state();
  ~StateGuard() { default_generator().set_state(before); }
};

}  // namespace

TEST_CASE("draws of the default generator count from a live key, those of recompute() too", "[rng]") {
  const StateGuard guard;
  Live live(cpu);
  const Tensor x = rand({50});
  CHECK(check(live, [&](const GeneratorState& state) {
    default_generator().set_state(state);
    const Tensor in = x.detach().set_requires_grad();
    const Tensor y =
        recompute([](const Tensor& t) { return dropout(t, 0.5) * rand({50}); }, dropout(in, 0.1));
    (y * randn({50})).sum().backward();
    CHECK(default_generator().state() == GeneratorState{state.seed, state.offset + 4, state.live});
    return bytes_of({y.detach(), in.grad()});
  }));
}

TEST_CASE("a generator carries a live key", "[rng]") {
  const GeneratorState live{5, 3};
  Generator generator;
  generator.set_state({0, 0, &live});
  CHECK(generator.reserve(2) == GeneratorState{0, 0, &live});
  const GeneratorState draw = generator.reserve();
  CHECK(draw == GeneratorState{0, 2, &live});
  CHECK(draw.now() == GeneratorState{5, 5});
  CHECK(draw.now().now() == GeneratorState{5, 5});
  CHECK_FALSE(generator.give_back({0, 2}));
  CHECK(generator.give_back(draw));
  CHECK(generator.state() == draw);
}

TEST_CASE("what draws on the host refuses a live key", "[rng]") {
  const StateGuard guard;
  const GeneratorState live{5, 3};
  const std::string why = "draws on the host, in a step that is being recorded";
  const auto refuses = [&](const char* op, const auto& run) {
    default_generator().set_state({0, 0, &live});
    CHECK_THROWS_WITH(run(), Catch::Contains("[" + std::string(op) + "] " + why));
    CHECK_THROWS_AS(run(), ValueError);
    default_generator().set_state({5, 3});
    CHECK_NOTHROW(run());
  };
  const TempFolder folder;
  refuses("randperm", [] { randperm(5); });
  refuses("save_checkpoint", [&] { io::save_checkpoint(folder / "all.safetensors", {}); });
  refuses("DataLoader", [] { data::DataLoader(data::TensorDataset(zeros({5})), {.shuffle = true}); });
}
