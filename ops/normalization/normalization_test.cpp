// Mixed precision of add_layer_norm and add_rms_norm: 16-bit addends and normalized rows around an f32 sum.

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/autocast.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/normalization/layer_norm.h>
#include <cotangent/ops/normalization/normalization_internal.h>
#include <cotangent/ops/normalization/rms_norm.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using namespace ct;
using testing::check;
using testing::waves;
using Inputs = std::array<Tensor, 4>;  // x, residual, weight, bias
using Pair = std::array<Tensor, 2>;

enum class Norm { layer, rms };

Pair add_norm(Norm norm, const Inputs& in, NormUse use = NormUse::product) {
  return norm == Norm::layer ? add_layer_norm(in[0], in[1], in[2], in[3], 1e-5, use)
                             : add_rms_norm(in[0], in[1], in[2], 1e-5, use);
}

Pair under_autocast(Norm norm, const Inputs& in, DType lower, NormUse use = NormUse::product) {
  const Autocast guard(lower);
  return add_norm(norm, in, use);
}

// The same with a conversion wherever dtypes differ.
Pair converted(Norm norm, const Inputs& in, DType lower, NormUse use = NormUse::product) {
  Inputs wide;
  for (std::size_t i = 0; i < 4; ++i) wide[i] = in[i].defined() ? in[i].to(f32) : Tensor();
  const Pair out = add_norm(norm, wide);
  return {use == NormUse::product ? out[0].to(lower) : out[0], out[1]};
}

// Leaves with the values of `in`; those of the mask `wanted` are differentiated.
Inputs leaves(const Inputs& in, unsigned wanted) {
  Inputs out;
  for (std::size_t i = 0; i < 4; ++i)
    if (in[i].defined()) {
      out[i] = in[i].detach().clone();
      if (wanted >> i & 1u) out[i].set_requires_grad();
    }
  return out;
}

void go_back(const Pair& out, const Pair& cotangents, unsigned used) {
  std::vector<Tensor> roots, weights;
  for (std::size_t k = 0; k < 2; ++k)
    if (used >> k & 1u) {
      roots.push_back(out[k]);
      weights.push_back(cotangents[k]);
    }
  backward(roots, weights);
}

// How far a gradient may be from that of the converted composite: f32 ones by their rounding, 16-bit ones by
// a unit in the last place where that tips them over.
double tolerance(DType dtype) { return dtype == bf16 ? 0x1p-7 : dtype == f16 ? 0x1p-10 : 4e-6; }

void same(const Tensor& got, const Tensor& want, double off = 0) {
  REQUIRE(got.defined());
  REQUIRE(got.dtype() == want.dtype());
  REQUIRE(got.shape() == want.shape());
  check(got, want.to_vector<double>(), off);
}

struct Case {
  Norm norm;
  Shape shape;
  DType lower;
  bool low_x, low_residual, weight, bias;
  NormUse use = NormUse::product;
};

Inputs inputs_of(const Case& c, Device device) {
  const Shape row{c.shape.back()};
  Inputs in{waves(c.shape, 0, 2, 1).to(c.low_x ? c.lower : f32),
            waves(c.shape, 2).to(c.low_residual ? c.lower : f32),
            c.weight ? waves(row, 1, 0.3, 1).to(f32) : Tensor(),
            c.bias && c.norm == Norm::layer ? waves(row, 4).to(f32) : Tensor()};
  for (Tensor& t : in)
    if (t.defined()) t = t.to(device);
  return in;
}

// Against the composite: results to the bit, gradients as well on the CPU.
void compare(const Case& c, Device device, unsigned wanted, unsigned used) {
  INFO((c.norm == Norm::layer ? "layer" : "rms")
       << " norm of " << c.shape << ", " << c.lower << (c.low_x ? ", x low" : "")
       << (c.low_residual ? ", residual low" : "") << (c.weight ? ", weight" : "") << (c.bias ? ", bias" : "")
       << ", gradients " << wanted << " of results " << used);
  const Inputs in = inputs_of(c, device);
  const Inputs a = leaves(in, wanted), b = leaves(in, wanted);
  const Pair got = under_autocast(c.norm, a, c.lower, c.use), want = converted(c.norm, b, c.lower, c.use);
  REQUIRE(got[0].dtype() == (c.use == NormUse::product ? c.lower : f32));
  REQUIRE(got[1].dtype() == f32);
  same(got[0], want[0]);
  same(got[1], want[1]);
  if (!wanted) return;
  const Pair cotangents{waves(c.shape, 3).to(got[0].dtype()).to(device),
                        waves(c.shape, 5).to(f32).to(device)};
  go_back(got, cotangents, used);
  go_back(want, cotangents, used);
  for (std::size_t i = 0; i < 4; ++i)
    if (a[i].defined() && a[i].requires_grad()) {
      INFO("gradient " << i);
      REQUIRE(a[i].grad().dtype() == in[i].dtype());
      // Sums over rows are as exact as the largest of their parts.
      const double rows = i < 2 ? 1 : std::sqrt(static_cast<double>(c.shape[0]));
      same(a[i].grad(), b[i].grad(), device.is_cpu() ? 0 : tolerance(a[i].dtype()) * rows);
    } else if (a[i].defined()) {
      REQUIRE_FALSE(a[i].grad().defined());
    }
}

void compare_all(Device device, const std::vector<std::int64_t>& lengths) {
  for (const Norm norm : {Norm::layer, Norm::rms})
    for (const DType lower : {bf16, f16}) {
      // The addend that is the branch: one, the other, both (the sum is exact in f32), none.
      for (const int low : {1, 2, 3, 0})
        for (const std::int64_t n : lengths)
          compare({norm, {n > 5000 ? 3 : 21, n}, lower, (low & 1) != 0, (low & 2) != 0, true, true}, device,
                  15, 3);
      for (const auto& [weight, bias] : {std::pair{false, false}, {true, false}, {false, true}})
        compare({norm, {5, 96}, lower, true, false, weight, bias}, device, 15, 3);
      // One gradient at a time, all, and some; of y, of the sum, of both.
      for (const unsigned wanted : {1u, 2u, 4u, 8u, 15u, 6u})
        for (const unsigned used : {1u, 2u, 3u})
          for (const int low : {1, 2, 3, 0}) {
            if (wanted == 8 && norm == Norm::rms) continue;  // it has no bias
            compare({norm, {7, 40}, lower, (low & 1) != 0, (low & 2) != 0, true, true}, device, wanted, used);
            if (low > 0)
              compare({norm, {7, 40}, lower, (low & 1) != 0, (low & 2) != 0, true, true, NormUse::stream},
                      device, wanted, used);
          }
      for (const Shape& shape : {Shape{0, 4}, Shape{3, 0}})
        compare({norm, shape, lower, true, false, true, true}, device, 15, 3);
    }
}

// Views in: a transposed branch, every second element of the stream, cotangents of one value.
void compare_strided(Device device) {
  for (const Norm norm : {Norm::layer, Norm::rms}) {
    const Tensor base = waves({64, 6}, 0).to(bf16).to(device), wide = waves({6, 128}, 2).to(f32).to(device);
    const Inputs a{base.detach().set_requires_grad(), wide.detach().set_requires_grad(), {}, {}},
        b{base.detach().set_requires_grad(), wide.detach().set_requires_grad(), {}, {}};
    const auto views = [](const Inputs& in) {
      return Inputs{in[0].transpose(0, 1), in[1].slice(1, 0, INT64_MAX, 2), {}, {}};
    };
    const Pair got = under_autocast(norm, views(a), bf16), want = converted(norm, views(b), bf16);
    same(got[0], want[0]);
    same(got[1], want[1]);
    for (const Pair& p : {got, want}) (p[0].sum() + p[1].select(1, 3).sum()).backward();
    for (std::size_t i = 0; i < 2; ++i)
      same(a[i].grad(), b[i].grad(), device.is_cpu() ? 0 : tolerance(a[i].dtype()));
  }
}

// The names of the ops that run while it lives, forward and backward.
class Recorder final : public OpObserver {
 public:
  Recorder() : previous_(set_op_observer(this)) {}
  ~Recorder() override { set_op_observer(previous_); }
  void begin(const KernelCall& call) override {
    names.push_back(std::string(call.op.name) + (call.backward ? " back" : ""));
  }
  void end(const KernelCall&) override {}
  std::vector<std::string> names;

 private:
  OpObserver* previous_;
};

// A training step's norm converts nothing, whichever addend is the branch.
void check_alone(Device device) {
  for (const bool low_x : {true, false}) {
    const Inputs in = leaves(inputs_of({Norm::layer, {4, 64}, bf16, low_x, !low_x, true, true}, device), 15);
    const Tensor gy = waves({4, 64}, 3).to(bf16).to(device), gs = waves({4, 64}, 5).to(f32).to(device);
    const Recorder recorder;
    go_back(under_autocast(Norm::layer, in, bf16), {gy, gs}, 3);
    REQUIRE(recorder.names == std::vector<std::string>{"add_layer_norm", "add_layer_norm back"});
  }
}

}  // namespace

TEST_CASE("Autocast: add_layer_norm and add_rms_norm are the f32 ones, rounded once", "[norm][autocast]") {
  compare_all(cpu, {1, 7, 64, 129, 1000, 5000});
}

TEST_CASE("Autocast: add_layer_norm and add_rms_norm take views", "[norm][autocast]") {
  compare_strided(cpu);
}

TEST_CASE("Autocast: add_layer_norm converts nothing on its way", "[norm][autocast]") { check_alone(cpu); }

TEST_CASE("Autocast: what add_layer_norm keeps for backward does not depend on y's dtype",
          "[norm][autocast]") {
  const Inputs in = leaves(inputs_of({Norm::layer, {64, 512}, bf16, true, false, true, true}, cpu), 15);
  const auto kept = [&](const auto& call) {
    const std::size_t before = memory_stats(cpu).in_use;
    const Tensor sum = call()[1];  // y is gone
    return memory_stats(cpu).in_use - before;
  };
  const Inputs wide = leaves({in[0].detach().to(f32), in[1].detach(), in[2].detach(), in[3].detach()}, 15);
  REQUIRE(kept([&] { return under_autocast(Norm::layer, in, bf16); }) ==
          kept([&] { return add_norm(Norm::layer, wide); }));
}

TEST_CASE("add_layer_norm's dtypes: outside of Autocast one, in it those of Autocast", "[norm][autocast]") {
  const auto make = [](DType dtype) { return waves({2, 3}, 0).to(dtype); };
  const Tensor x = make(f32), low = make(bf16), half = make(f16), wide = make(f64);
  for (const Norm norm : {Norm::layer, Norm::rms}) {
    CHECK_THROWS_AS(add_norm(norm, {x, low, {}, {}}), DTypeError);
    CHECK_THROWS_AS(add_norm(norm, {low, x, {}, {}}), DTypeError);
    CHECK_THROWS_AS(add_norm(norm, {low, half, {}, {}}), DTypeError);
    for (const DType dtype : {f32, f64, f16, bf16}) {
      const Pair out = add_norm(norm, {make(dtype), make(dtype), {}, {}});
      CHECK(out[0].dtype() == dtype);
      CHECK(out[1].dtype() == dtype);
    }
    const Autocast guard(bf16);
    // The other 16-bit dtype is converted, parameters of 16 bits are, and f64 is left alone.
    const Pair mixed = add_norm(norm, {x, half, low[0], {}});
    CHECK(mixed[0].dtype() == bf16);
    CHECK(mixed[1].dtype() == f32);
    CHECK(mixed[1].to_vector<double>() == converted(norm, {x, half, {}, {}}, bf16)[1].to_vector<double>());
    CHECK(add_norm(norm, {wide, wide, {}, {}})[0].dtype() == f64);
    CHECK_THROWS_AS(add_norm(norm, {wide, low, {}, {}}), DTypeError);
    CHECK_THROWS_AS(add_norm(norm, {low, x[0], {}, {}}), ShapeError);
  }
  // Calls that the ops themselves refuse.
  for (const OpDef* op : registry()) {
    const bool layer = std::string_view(op->name) == "add_layer_norm";
    if (!layer && std::string_view(op->name) != "add_rms_norm") continue;
    const auto call = [&](const Tensor& a, const Tensor& b, DType y) {
      const Tensor none;
      std::vector<const Tensor*> in{&a, &b, &none};
      if (layer) in.push_back(&none);
      std::array<Tensor, kMaxOutputs> out;
      dispatch(*op, in, normalization::Attrs{1e-5, 1, y}, out);
      return out[0].dtype();
    };
    CHECK(call(x, low, bf16) == bf16);
    CHECK(call(x, low, f32) == f32);
    CHECK_THROWS_AS(call(x, half, bf16), DTypeError);
    CHECK_THROWS_AS(call(x, wide, bf16), DTypeError);
    CHECK_THROWS_AS(call(x, x, f64), DTypeError);
    CHECK_THROWS_AS(call(low, low, f16), DTypeError);
    CHECK_THROWS_AS(call(wide, wide, bf16), DTypeError);
    CHECK_THROWS_AS(call(low, x, bf16), DTypeError);  // the public functions swap them
  }
}

TEST_CASE("Autocast on CUDA: add_layer_norm and add_rms_norm are the f32 ones, rounded once",
          "[norm][autocast][cuda]") {
  // One to four vectors per thread, one to 32 warps; odd rows; rows beyond the registers of backward, of
  // both.
  compare_all(cuda(0), {1, 7, 64, 129, 384, 768, 1000, 1023, 1024, 1600, 2050, 4096, 6144, 10000, 40001});
  compare_strided(cuda(0));
  check_alone(cuda(0));
  // Many rows: every block has several.
  for (const Norm norm : {Norm::layer, Norm::rms})
    for (const std::int64_t n : {129, 384, 768, 4096})
      for (const DType lower : {bf16, f16})
        for (const bool low_x : {true, false})
          for (const unsigned wanted : {15u, 2u, 1u})
            compare({norm, {2500, n}, lower, low_x, !low_x, true, true}, cuda(0), wanted, 3);
}
