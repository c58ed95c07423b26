#include <cotangent/ops/fusion/build_internal.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/core/device/in_call.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/jit/build_internal.h>
#include <cotangent/core/jit/cuda_text.h>
#include <cotangent/core/jit/kernel_internal.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/engine/fold/sum_to.h>
#include <cotangent/ops/testing/samples.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"
#include "tests/op_testing.h"
#include "tests/program_testing.h"
#include "tests/variable.h"

using namespace ct;
using fusion::Formula;
using fusion::Gradients;
using testing::first_difference;
using testing::pointers;
using testing::Variable;

namespace {

// Within rounding, where a sum is taken in another order.
bool close(const Tensor& a, const Tensor& b, double tolerance) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) return false;
  const std::vector<double> x = testing::values(a), y = testing::values(b);
  double largest = 0;
  for (const double v : y)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(x[i]) && std::isfinite(y[i]) &&
        std::abs(x[i] - y[i]) > tolerance * std::max(1.0, largest))
      return false;
  return true;
}

Tensor run(const map::chain::Program& program, const std::vector<Tensor>& inputs, const Shape& shape,
           DType dtype) {
  Tensor y = Tensor::allocate(shape, dtype, inputs[0].device());
  const Tensor* const outputs[] = {&y};
  const detail::InCall inside;
  REQUIRE(map::chain::run(program, outputs, pointers(inputs)));
  return y;
}

// The ops one by one, on the tape.
Tensor one_by_one(const Formula& f, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values = inputs;
  for (const fusion::Call& call : f.calls) {
    std::vector<const Tensor*> operands;
    for (const int v : call.operands) operands.push_back(&values[static_cast<std::size_t>(v)]);
    Tensor y;
    dispatch(*call.op, operands, call.view(), {&y, 1});
    values.push_back(y);
  }
  return values[static_cast<std::size_t>(f.outputs[0])];
}

std::vector<Tensor> gradients(const Formula& f, const std::vector<Tensor>& inputs, const Tensor& g,
                              std::uint32_t needed, bool round_between) {
  const Gradients made = fusion::backward_program(f, needed, 1, round_between);
  std::vector<Tensor> operands = inputs, outputs(made.program.outputs.size()), results(inputs.size());
  operands.push_back(g);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (made.place[i] >= 0)
      outputs[static_cast<std::size_t>(made.place[i])] =
          Tensor::allocate(g.shape(), inputs[i].dtype(), g.device());
  const detail::InCall inside;
  if (!outputs.empty()) REQUIRE(map::chain::run(made.program, pointers(outputs), pointers(operands)));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (made.place[i] == Gradients::kNone) continue;
    results[i] = made.place[i] == Gradients::kZero ? zeros(inputs[i].shape(), {.dtype = inputs[i].dtype()})
                 : made.place[i] >= 0
                     ? sum_to(outputs[static_cast<std::size_t>(made.place[i])], inputs[i].shape())
                     : sum_to(g, inputs[i].shape());
  }
  return results;
}

fusion::Call call_of(const OpDef& op, AttrsView attrs, std::vector<int> operands, DType dtype) {
  fusion::Call call{.op = &op, .operands = std::move(operands), .dtype = dtype};
  const auto* const bytes = static_cast<const std::byte*>(attrs.data);
  call.attrs.assign(bytes, bytes + attrs.size);
  return call;
}

// Compares a formula with its ops one by one, forward and back. Empty, or what differs.
std::string compare(const Formula& f, const std::vector<Tensor>& inputs, bool bits) {
  std::vector<Tensor> leaves;
  std::uint32_t needed = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(is_floating(inputs[i].dtype()) ? inputs[i].detach().set_requires_grad() : inputs[i]);
    if (is_floating(inputs[i].dtype())) needed |= 1u << i;
  }
  const Tensor want = one_by_one(f, leaves);
  const bool low = is_low_precision(want.dtype());  // rounded at each step, as ops are
  const Tensor got = run(fusion::forward_program(f, low), inputs, want.shape(), want.dtype());
  if (bits ? first_difference(got, want) >= 0 : !close(got, want, 1e-2))
    return detail::cat("values differ at ", first_difference(got, want));
  if (!want.requires_grad()) return "";
  const Tensor g = testing::waves(want.shape(), 0.4).to(want.dtype());
  std::vector<Tensor> asked;
  for (const Tensor& t : leaves)
    if (t.requires_grad()) asked.push_back(t);
  const std::vector<Tensor> tape = grad({want}, asked, {g}, {.allow_unused = true});
  const std::vector<Tensor> fused = gradients(f, inputs, g, needed, low);
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!leaves[i].requires_grad()) continue;
    const Tensor wanted =
        tape[next].defined() ? tape[next] : zeros(inputs[i].shape(), {.dtype = inputs[i].dtype()});
    ++next;
    // A broadcast input's gradient is summed after the formulas, and by ops one by one where it was broadcast.
    const bool summed = !(inputs[i].shape() == want.shape()) || !bits;
    const double tolerance = low ? 5e-2 : want.dtype() == DType::f32 ? 1e-4 : 1e-12;
    if (summed ? !close(fused[i], wanted, tolerance) : first_difference(fused[i], wanted) >= 0)
      return detail::cat("the gradient of input ", i, " differs at ", first_difference(fused[i], wanted));
  }
  return "";
}

}  // namespace

TEST_CASE("Every op whose kernels are formulas gives its own bits as a program of one step", "[fuse]") {
  int ops = 0;
  for (const OpDef* const op : registry()) {
    const map::MapRecord* const record = map::formulas_of(*op);
    if (!record || record->y.draws) continue;
    const OpTests* const tests = find_tests(op->name);
    REQUIRE(tests != nullptr);
    ++ops;
    SampleMaker make(7);
    for (const Sample& sample : tests->samples(make))
      for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
        if (record->reduces && record->reduces(sample.attrs.view())) continue;
        Formula f;
        std::vector<Tensor> inputs;
        bool integers = false;
        for (const Tensor& t : sample.inputs) {
          inputs.push_back(is_floating(t.dtype()) ? t.to(dtype) : t);
          f.inputs.push_back(inputs.back().dtype());
          integers = integers || (!is_floating(t.dtype()) && t.dtype() != DType::boolean);
        }
        if (integers || std::none_of(inputs.begin(), inputs.end(),
                                     [](const Tensor& t) { return is_floating(t.dtype()); }))
          continue;
        std::vector<Tensor> y(1);
        dispatch(*op, pointers(inputs), sample.attrs.view(), y);
        std::vector<int> operands(inputs.size());
        for (std::size_t i = 0; i < operands.size(); ++i) operands[i] = static_cast<int>(i);
        f.calls.push_back(call_of(*op, sample.attrs.view(), operands, y[0].dtype()));
        f.outputs = {static_cast<int>(inputs.size())};
        INFO(op->name << ", " << sample.label << ", " << name(dtype));
        CHECK(compare(f, inputs, true) == "");
      }
  }
  CHECK(ops > 90);
}

TEST_CASE("Random programs give the bits of their ops one by one", "[fuse]") {
  const std::vector<const char*> unary{"neg",        "abs",   "exp",        "log",     "sqrt",  "square",
                                       "reciprocal", "sin",   "tanh",       "sigmoid", "relu",  "gelu",
                                       "gelu_tanh",  "silu",  "erf",        "log1p",   "expm1", "atan",
                                       "softsign",   "floor", "logsigmoid", "mish",    "cube",  "selu"};
  const std::vector<const char*> scalar{"add_scalar",  "mul_scalar",     "rsub_scalar", "div_scalar",
                                        "rdiv_scalar", "maximum_scalar", "leaky_relu",  "elu"};
  const std::vector<const char*> binary{"add", "sub", "mul", "div", "maximum", "minimum", "atan2", "hypot"};
  std::mt19937 random(11);
  const auto below = [&](std::size_t n) { return static_cast<int>(random() % n); };
  const std::vector<Shape> shapes{{}, {1}, {7}, {5, 7}, {5, 1}, {3, 5, 7}, {3, 1, 1}};
  for (int round = 0; round < 2000; ++round) {
    Formula f;
    const DType dtype = round % 4 == 3 ? DType::f64 : DType::f32;
    std::vector<Tensor> inputs;
    std::vector<int> masks;
    const int count = 1 + below(4);
    for (int i = 0; i < count; ++i) {
      const Shape shape =
          i == 0 ? (round % 7 == 0 ? Shape{3, 5, 7} : shapes[static_cast<std::size_t>(3 + 2 * below(2))])
                 : shapes[static_cast<std::size_t>(below(shapes.size()))];
      Tensor t = testing::waves(shape, round + 2.0 * i, 2).to(dtype);
      if (round % 5 == 1 && i == 0) { t = t.transpose(-1, -2).contiguous().transpose(-1, -2); }
      if (round % 11 == 2 && t.numel() > 3) {
        Tensor flat = t.contiguous().view({-1});
        std::vector<double> v = testing::values(flat);
        v[0] = NAN, v[1] = INFINITY, v[2] = -0.0, v[3] = -INFINITY;
        t = testing::values(t.shape(), v, dtype);
      }
      inputs.push_back(t);
      f.inputs.push_back(dtype);
    }
    if (round % 9 == 4 && count > 1) inputs[1] = inputs[0];
    std::vector<int> floats(inputs.size());
    for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<int>(i);
    const int steps = 1 + below(12);
    const auto any = [&](const std::vector<int>& list) {  // the last ones more often, so that chains get long
      return list[list.size() - 1 - static_cast<std::size_t>(below(std::min<std::size_t>(list.size(), 3)))];
    };
    const auto add = [&](const char* op, AttrsView attrs, std::vector<int> operands, DType result) {
      f.calls.push_back(call_of(*find_op(op), attrs, std::move(operands), result));
      return static_cast<int>(f.inputs.size() + f.calls.size()) - 1;
    };
    for (int s = 0; s < steps; ++s) {
      const map::Parameters numbers{0.25 + below(5) * 0.5, 0};
      const int kind = below(10);
      if (kind < 4) {
        floats.push_back(add(unary[static_cast<std::size_t>(below(unary.size()))], {}, {any(floats)}, dtype));
      } else if (kind < 6) {
        floats.push_back(
            add(scalar[static_cast<std::size_t>(below(scalar.size()))], numbers, {any(floats)}, dtype));
      } else if (kind < 8 || masks.empty()) {
        floats.push_back(add(binary[static_cast<std::size_t>(below(binary.size()))], {},
                             {any(floats), any(floats)}, dtype));
        masks.push_back(add(below(2) ? "lt" : "ge", {}, {any(floats), any(floats)}, DType::boolean));
      } else {
        floats.push_back(add("where", {}, {any(masks), any(floats), any(floats)}, dtype));
      }
    }
    f.outputs = {floats.back()};
    std::string text = map::chain::describe(fusion::forward_program(f));
    INFO("round " << round << "\n" << text);
    REQUIRE(compare(f, inputs, true) == "");
  }
}

namespace {

// A program with the formula and the gradients of every op, in one dtype.
map::chain::Program all_formulas(DType dtype) {
  fusion::Builder b;
  const int inputs[] = {b.input(dtype), b.input(dtype), b.input(dtype), b.input(DType::boolean)};
  int sum = inputs[0];
  for (const OpDef* const op : registry()) {
    const map::MapRecord* const record = map::formulas_of(*op);
    if (!record || record->y.draws) continue;
    const bool selects = std::string_view(op->name).starts_with("where");
    std::vector<int> operands(inputs, inputs + record->y.inputs);
    if (selects) operands = {inputs[3], inputs[0], inputs[1]};
    operands.resize(record->y.inputs);
    const DType result = record->y.tiles->predicate ? DType::boolean : dtype;
    const map::Parameters numbers{0.5, 1};
    const int y = b.call(*op, numbers, operands, result);
    if (y < 0) continue;
    sum = b.sum(sum, b.convert(y, dtype));
    for (int k = 0; k < static_cast<int>(operands.size()); ++k)
      if (const int dx = b.gradient(*op, numbers, operands, y, k, inputs[1], dtype); dx >= 0)
        sum = b.sum(sum, dx);
  }
  return b.finish({sum});
}

}  // namespace

TEST_CASE("The CUDA text of every formula compiles, by NVRTC too", "[fuse]") {
  if (CudaText::compiler().empty()) return;
  const testing::TempFolder folder;
  const Variable cache("COTANGENT_CACHE", folder / "cache");
  const map::chain::Program all = all_formulas(DType::f32);
  CHECK(all.steps.size() > 250);
  const auto compile = [](const map::chain::Program& p, const map::chain::Variant& variant) {
    CHECK_NOTHROW(jit::compiled("fused", {map::chain::cuda_text(p, variant), "fused"}, "90a"));
  };
  const auto storage = [](DType t) { return std::vector<DType>{t, t, t, t, DType::boolean}; };
  compile(all, {.vector = 4, .rank = 1, .repeated = 4, .storage = storage(DType::f32)});

  const Variable nvrtc("COTANGENT_NVCC", "none");
  if (CudaText::compiler().empty()) return;
  for (const DType dtype : {DType::f64, DType::bf16}) {
    fusion::Builder b;
    const int x[] = {b.input(dtype), b.input(dtype), b.input(dtype), b.input(DType::boolean)};
    const int sum = b.sum(x[0], b.convert(b.convert(x[1], DType::f16), dtype));
    const int chosen[] = {x[3], sum,
                          b.call(*find_op("pow_scalar"), map::Parameters{2.5, 0}, {x + 2, 1}, dtype)};
    const int y = b.call(*find_op("where"), {}, chosen, dtype);
    int gelu[] = {y};
    if (dtype == DType::bf16) {
      struct Attrs {
        double p;
        GeneratorState draw;
      };
      b.draws = true;
      gelu[0] = b.call(*find_op("dropout"), Attrs{0.25, {}}, gelu, dtype);
      REQUIRE(gelu[0] >= 0);
    }
    b.rough = dtype == DType::bf16;
    const map::chain::Program p = b.finish({b.call(*find_op("gelu"), {}, gelu, dtype)}, true);
    compile(p, {.vector = 1, .rank = 3, .wide_index = true, .storage = storage(dtype)});
    compile(p, {.vector = dtype == DType::f64 ? 2 : 8, .rank = 2, .repeated = 2, .storage = storage(dtype)});
  }
}
