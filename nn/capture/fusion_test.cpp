#include <cmath>
#include <string>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/ops/autocast.h>

#include "tests/fusion_testing.h"

// Groups of a captured step: which calls run together, which do not, and that no bit tells.

using namespace ct;
using namespace ct::testing;
using Catch::Matchers::Contains;

namespace {

void check_rules(Device device) {
  const std::vector<Tensor> in = inputs_of(device);
  const Shape shape = shape_on(device);
  const std::int64_t rows = shape[0], columns = shape[1];
  const auto weight = [&](double phase) { return waves(shape, phase).to(f32).to(device); };
  const auto forward = [&](auto f) {  // of the input and a tensor of the same shape
    return Make([=] {
      Program p{{weight(1)}, {}};
      p.step = [=, w = p.state[0]](const Tensor& x) -> std::vector<Tensor> {
        const NoGrad off;
        return {f(x, w)};
      };
      return p;
    });
  };
  SECTION("a chain is one pass") {
    CHECK(groups(forward([](const Tensor& x, const Tensor& w) { return gelu(x * w + 1) - x; }), in) ==
          Names{"fused(mul, add_scalar, gelu, sub)"});
  }
  SECTION("a value in memory that the result takes is not written") {
    std::string account;
    const auto f = [](const Tensor& x, const Tensor& w) {
      Tensor h = x * w;
      for (int i = 0; i < 3; ++i) h = tanh(h);
      return h;
    };
    groups(forward(f), in, &account);
    CHECK_THAT(account, Contains("4 steps, " + std::to_string(3 * rows * columns * 4) + " bytes"));
  }
  SECTION("a value that another call reads is written") {
    const auto f = [](const Tensor& x, const Tensor& w) {
      const Tensor h = tanh(x * w);
      return h * 2 + amax(h);
    };
    // The maximum needs h, and what follows needs it. Where no memory is used again, h * 2 may run before it.
    const Names list = groups(forward(f), in);
    CHECK((list == Names{"fused(mul, tanh)", "fused(mul_scalar, add)"} ||
           list == Names{"fused(mul, tanh, mul_scalar)"}));
  }
  SECTION("a value that the program keeps is written") {
    const auto make = [&] {
      Program p{{weight(1), {}}, {}};
      auto kept = std::make_shared<Tensor>();
      p.step = [=, w = p.state[0]](const Tensor& x) -> std::vector<Tensor> {
        const NoGrad off;
        *kept = x * w;
        return {tanh(*kept + 1), *kept};
      };
      return p;
    };
    CHECK(groups(make, in).size() == 1);
    Tensor held;
    std::vector<std::string> seen;
    for (const bool enabled : {false, true}) {
      const Tensor w = weight(1);
      auto step = capture(
          [&](const Tensor& x) {
            const NoGrad off;
            held = x * w;
            return tanh(held + 1);
          },
          {.enabled = enabled});
      for (const Tensor& x : in) step(x);
      seen.push_back(bytes_of(held.to(cpu)));
    }
    CHECK((seen[0] == seen[1]));
  }
  SECTION("changes in place of what was there before") {
    const auto f = [](const Tensor& x, const Tensor& w) {
      Tensor u = w;
      u.mul_(0.5).add_(x);
      return exp(-abs(u));
    };
    const Names made = groups(forward(f), in);
    REQUIRE(made.size() == 1);
    CHECK_THAT(made[0], Contains("mul_scalar, add, abs, neg, exp"));
  }
  SECTION("changes in place of the step's own") {
    CHECK(groups(forward([](const Tensor& x, const Tensor& w) {
                   Tensor h = x + w;
                   h.tanh_().mul_(3);
                   return h - w;
                 }),
                 in)
              .size() == 1);
  }
  SECTION("a shift within one tensor") {
    groups(forward([=](const Tensor& x, const Tensor& w) {
             Tensor to = w.slice(0, 1, rows);
             to.copy_(w.slice(0, 0, rows - 1) * 0.5 + 1);
             to.add_(w.slice(0, 0, rows - 1)).mul_(0.5);
             return x + w;
           }),
           in);
  }
  SECTION("a part changed, then the whole read") {
    groups(forward([](const Tensor& x, const Tensor& w) {
             Tensor h = x * w, part = h.slice(0, 3, 30);
             part.mul_(2).add_(1);
             return tanh(h) + h;
           }),
           in);
  }
  SECTION("another layout of a value of the group") {
    const auto f = [](const Tensor& x, const Tensor& w) {
      const Tensor h = (x * w + 1).slice(0, 0, 45).slice(1, 0, 45);
      return tanh(h.t()) + h;
    };
    groups(forward(f), in);
    groups(forward([](const Tensor& x, const Tensor& w) { return (x * w + 1).view({-1}).tanh() * 2; }), in);
  }
  SECTION("memory that is used again") {
    const Tensor m = waves({columns, columns}, 4).to(f32).to(device);
    groups(forward([m](const Tensor& x, const Tensor& w) {
             Tensor h = tanh(x * w);
             for (int i = 0; i < 3; ++i) {
               const Tensor a = h * 0.5 + x, b = matmul(a, m) * 0.1;
               h = sigmoid(b) * a + tanh(matmul(h, m) * 0.1 + a);
             }
             return h;
           }),
           in);
  }
  SECTION("broadcast operands") {
    const Tensor row = waves({columns}, 2).to(f32).to(device),
                 column = waves({rows, 1}, 3).to(f32).to(device), one = waves({}, 1).to(f32).to(device);
    CHECK(
        groups(forward([=](const Tensor& x, const Tensor& w) { return tanh((x + row) * column - one * w); }),
               in)
            .size() == 1);
    // A row becomes a matrix in the middle: the smaller part is apart.
    groups(forward([=](const Tensor& x, const Tensor& w) { return exp(tanh(row * 2) + x) * w; }), in);
  }
  SECTION("masks and choices") {
    const auto f = [](const Tensor& x, const Tensor& w) {
      return where(logical_and(gt(x, w), lt(w, 0.5)), x * 2, where(isnan(x), 1, w));
    };
    const Names made = groups(forward(f), in);
    REQUIRE(made.size() == 1);
    CHECK_THAT(made[0], Contains("where"));
  }
  SECTION("NaN, infinities, zeros") {
    std::vector<Tensor> odd;
    for (const Tensor& x : in) {
      std::vector<double> v = values(x.to(cpu));
      const double special[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 1e-42, -1e38};
      for (std::size_t i = 0; i < v.size(); ++i)
        if (i % 3) v[i] = special[i % 7];
      odd.push_back(values(shape, v, f32).to(device));
    }
    const auto f = [](const Tensor& x, const Tensor& w) {
      return maximum(sqrt(x) * w, log(abs(x)) + tanh(x)) - relu(x) / w;
    };
    CHECK(groups(forward(f), odd).size() == 1);
  }
  SECTION("few elements and none") {
    for (const Shape& small : {Shape{0, 47}, Shape{1}, Shape{}, Shape{3}})
      groups(
          [&] {
            return Program{{}, [](const Tensor& x) -> std::vector<Tensor> { return {tanh(x * 2 + 1) - x}; }};
          },
          inputs_of(device, f32, small));
  }
}

// A step with two leaves that are changed by their gradients.
Make trained(Device device, DType dtype,
             std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> f) {
  return [=] {
    const Shape shape = shape_on(device);
    Program p{{parameter(device, dtype, 1, shape), parameter(device, dtype, 2, {shape[1]})}, {}};
    p.step = [=, w = p.state[0], b = p.state[1]](const Tensor& x) -> std::vector<Tensor> {
      const Tensor y = f(x, w, b);
      const auto g = grad({mean(y)}, {w, b});
      const NoGrad off;
      Tensor(w).sub_(g[0] * 0.1), Tensor(b).sub_(g[1] * 0.1);
      return {y};
    };
    return p;
  };
}

void check_training(Device device) {
  const auto f = [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return gelu(x * w + b) * sigmoid(w) - tanh(x / (1 + square(w)));
  };
  for (const DType dtype : {f32, f64, bf16, f16}) {
    INFO(name(dtype));
    const Names made = groups(trained(device, dtype, f), inputs_of(device, dtype));
    if (device.is_cpu() || dtype != f64) CHECK(made.size() >= 2);
  }
  SECTION("casts") {
    const auto lower = [=](const Tensor& x, const Tensor& w, const Tensor& b) {
      return f(x.to(bf16), w.to(bf16), b.to(bf16)).to(f32) * 2 + w;
    };
    CHECK(groups(trained(device, f32, lower), inputs_of(device)).size() >= 2);
    const auto autocast = [=](const Tensor& x, const Tensor& w, const Tensor& b) {
      const Autocast guard(bf16);
      return f(x.to(bf16), w, b).to(f32);
    };
    CHECK(groups(trained(device, f32, autocast), inputs_of(device)).size() >= 2);
  }
  SECTION("draws between") {
    const auto dropped = [=](const Tensor& x, const Tensor& w, const Tensor& b) {
      return dropout(dropout(f(x, w, b) + x, 0.4) * w + x, 0.9);
    };
    for (const DType dtype : {f32, bf16, f16}) {
      const Names made = groups(trained(device, dtype, dropped), inputs_of(device, dtype));
      REQUIRE(made.size() >= 1);
      CHECK_THAT(made[0], Contains("dropout"));
    }
  }
}

void check_ways_out(Device device) {
  const Make make = trained(
      device, f32, [](const Tensor& x, const Tensor& w, const Tensor& b) { return tanh(x * w + b) * w; });
  const std::vector<Tensor> in = inputs_of(device);
  SECTION("off, by option and from outside") {
    const StepRun plain = run(make, in, {.enabled = false}), off = run(make, in, {.fuse = false});
    CHECK((off.steps == plain.steps));
    CHECK(off.account == "fusion is off\n");
    CHECK(plain.account == "not captured yet\n");
    const StepRun unset = [&] {
      const Fusion none("off");
      return run(make, in, {});
    }();
    CHECK(unset.account == "fusion is off\n");
    CHECK((unset.steps == plain.steps));
  }
  SECTION("the account says why") {
    std::string account;
    groups(make, in, &account);
    CHECK_THAT(account,
               Contains(device.is_cpu() ? "one pass over f32 [45, 47]" : "one pass over f32 [48, 48]"));
    CHECK_THAT(account, Contains("mean': is no formula of each element"));
    CHECK_THAT(account, Contains("not fused:"));
  }
  SECTION("what is no faster") {
    if (device.is_cuda()) return;
    CHECK_THAT(run(make, in, {}).account, Contains("has 2115 elements, which is too few to gain"));
    const StepRun large = run(
        [] {
          return Program{{},
                         [](const Tensor& x) -> std::vector<Tensor> { return {tanh(x * 2).to(bf16) + 1}; }};
        },
        inputs_of(device, f32, {128, 128}), {});
    CHECK_THAT(large.account,
               Contains("copy: is of 16 bits") && Contains("one pass over f32 [128, 128], 2 steps"));
  }
  SECTION("a GPU without a compiler") {
    if (device.is_cpu()) return;
    const NoCompiler none;
    std::string account;
    CHECK(groups(make, in, &account).empty());
    CHECK_THAT(account, Contains("there is no compiler"));
  }
  SECTION("a watched replay") {
    struct Watch final : OpObserver {
      int fused = 0;
      void begin(const KernelCall& call) override { fused += std::string(call.op.name) == "fused"; }
      void end(const KernelCall&) override {}
    } watch;
    OpObserver* const before = set_op_observer(&watch);
    const Names made = groups(make, in);
    set_op_observer(before);
    CHECK(watch.fused >= 2 * static_cast<int>(made.size()));
  }
}

}  // namespace

TEST_CASE("Groups of a captured step follow its reads and writes", "[capture][fuse]") { check_rules(cpu); }
TEST_CASE("Groups of a captured step follow its reads and writes on a GPU", "[capture][fuse][cuda]") {
  check_rules(cuda(0));
}
TEST_CASE("Groups of a captured step train to the bit", "[capture][fuse]") { check_training(cpu); }
TEST_CASE("Groups of a captured step train to the bit on a GPU", "[capture][fuse][cuda]") {
  check_training(cuda(0));
}
TEST_CASE("Fusion of a captured step can be seen and switched off", "[capture][fuse]") {
  check_ways_out(cpu);
}
TEST_CASE("Fusion of a captured step can be seen and switched off on a GPU", "[capture][fuse][cuda]") {
  check_ways_out(cuda(0));
}
