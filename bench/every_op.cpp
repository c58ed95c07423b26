#include "bench/bench.h"

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

// Rows without peers or targets, to hold two builds of the library against each other on the CPU
// (bench/compare.py --rows '^(op|optim)/'): every kind of kernel by itself, forward and with its backward, on some 64,000
// numbers; and steps of the optimizers on tensors few and many.

namespace {

using namespace ct;
using ct::bench::five_runs;

struct Operands {
  explicit Operands(DType dtype) {
    const auto make = [&](const Shape& shape) {
      Tensor t = is_floating(dtype) ? randn(shape).to(dtype) : randint(1, 100, shape).to(dtype);
      return is_floating(dtype) ? t.set_requires_grad() : t;
    };
    x = make({64, 1000}), y = make({64, 1000}), row = make({1000}), column = make({64, 1});
    positive = (x.detach().abs() + 0.5).to(dtype);
    if (is_floating(dtype)) positive.set_requires_grad();
    mask = x.detach() > 0;
    images = make({8, 16, 28, 28}), kernel = make({16, 16, 3, 3}), channel = make({16});
    query = make({2, 4, 64, 32}), key = make({2, 4, 64, 32}), value = make({2, 4, 64, 32});
    rows = randint(0, 64, {64}), classes = randint(0, 1000, {64}), places = randint(0, 1000, {64, 1000});
  }
  Tensor x, y, positive, mask, row, column, images, kernel, channel, query, key, value, rows, classes, places;
};

struct Row {
  const char* name;
  Tensor (*call)(const Operands& o);
  bool integers = false;  // has them, too
};
#define CT_ROW(name, call, ...)                                 \
  Row {                                                         \
    name, [](const Operands& o) { return call; }, ##__VA_ARGS__ \
  }
constexpr bool kIntegers = true;
const Row kRows[] = {
    CT_ROW("add", o.x + o.y, kIntegers),
    CT_ROW("add_row", o.x + o.row),
    CT_ROW("add_scalar", o.x + 0.5),
    CT_ROW("mul_column", mul(o.x, o.column)),
    CT_ROW("div", o.x / o.positive),
    CT_ROW("pow", pow(o.positive, o.y)),
    CT_ROW("atan2", atan2(o.x, o.y)),
    CT_ROW("greater", o.x > o.y, kIntegers),
    CT_ROW("maximum", maximum(o.x, o.y), kIntegers),
    CT_ROW("where", where(o.mask, o.x, o.y), kIntegers),
    CT_ROW("clamp", clamp(o.x, -1.0, 1.0)),
    CT_ROW("dropout", dropout(o.x, 0.3)),
    CT_ROW("abs", abs(o.x), kIntegers),
    CT_ROW("exp", exp(o.x)),
    CT_ROW("log", log(o.positive)),
    CT_ROW("sqrt", sqrt(o.positive)),
    CT_ROW("sin", sin(o.x)),
    CT_ROW("erf", erf(o.x)),
    CT_ROW("tanh", tanh(o.x)),
    CT_ROW("sigmoid", sigmoid(o.x)),
    CT_ROW("relu", relu(o.x)),
    CT_ROW("gelu", gelu(o.x)),
    CT_ROW("silu", silu(o.x)),
    CT_ROW("softplus", softplus(o.x)),
    CT_ROW("sum", sum(o.x), kIntegers),
    CT_ROW("sum_rows", sum(o.x, {1}), kIntegers),
    CT_ROW("sum_columns", sum(o.x, {0}), kIntegers),
    CT_ROW("var", var(o.x, {1})),
    CT_ROW("amax", amax(o.x, {1}), kIntegers),
    CT_ROW("argmax", argmax(o.x, 1), kIntegers),
    CT_ROW("logsumexp", logsumexp(o.x, {1})),
    CT_ROW("cumsum", cumsum(o.x, 1), kIntegers),
    CT_ROW("softmax", softmax(o.x, 1)),
    CT_ROW("softmax_columns", softmax(o.x, 0)),
    CT_ROW("layer_norm", layer_norm(o.x, o.row, o.row)),
    CT_ROW("rms_norm", rms_norm(o.x, o.row)),
    CT_ROW("group_norm", group_norm(o.images, 4, o.channel, o.channel)),
    CT_ROW("batch_norm", batch_norm(o.images, {}, {}, o.channel, o.channel, {.training = true})),
    CT_ROW("cross_entropy", cross_entropy(o.x, o.classes)),
    CT_ROW("mse_loss", mse_loss(o.x, o.y)),
    CT_ROW("matmul", matmul(o.x, o.y.t())),
    CT_ROW("conv2d", conv2d(o.images, o.kernel, o.channel)),
    CT_ROW("max_pool2d", max_pool2d(o.images, 2)),
    CT_ROW("avg_pool2d", avg_pool2d(o.images, 2)),
    CT_ROW("attention", scaled_dot_product_attention(o.query, o.key, o.value)),
    CT_ROW("embedding", embedding(o.rows, o.x)),
    CT_ROW("gather", gather(o.x, 1, o.places), kIntegers),
    CT_ROW("index_add", index_add(o.x, 0, o.rows, o.y), kIntegers),
    CT_ROW("scatter_add", scatter_add(o.x, 1, o.places, o.y), kIntegers),
    CT_ROW("scatter_reduce", scatter_reduce(o.x, 1, o.places, o.y, ScatterReduce::amax), kIntegers),
    CT_ROW("masked_select", masked_select(o.x, o.mask), kIntegers),
    CT_ROW("concat", concat({o.x, o.y}, 1), kIntegers),
    CT_ROW("transpose", o.x.t().contiguous(), kIntegers),
    CT_ROW("roll", roll(o.x, 3, 1), kIntegers),
    CT_ROW("pad", pad(o.x, {1, 2}), kIntegers),
    CT_ROW("to_f32", o.x.to(f32), kIntegers),
    CT_ROW("sort", sort(o.x, 1).values, kIntegers),
    CT_ROW("topk", topk(o.x, 10, 1).values, kIntegers),
};

const Operands& operands(DType dtype) {
  static std::unique_ptr<Operands> all[kDTypeCount];
  auto& of_dtype = all[static_cast<int>(dtype)];
  if (!of_dtype) of_dtype = std::make_unique<Operands>(dtype);
  return *of_dtype;
}

void forward(benchmark::State& state, const Row& row, DType dtype) {
  const Operands& o = operands(dtype);
  const NoGrad guard;
  for (auto _ : state) benchmark::DoNotOptimize(row.call(o));
}

void with_backward(benchmark::State& state, const Row& row, DType dtype) {
  const Operands& o = operands(dtype);
  const Tensor result = row.call(o);
  if (!result.requires_grad()) return state.SkipWithError("no gradient");
  const Tensor cotangent = ones_like(result.detach());
  Tensor leaves[] = {o.x,      o.y,       o.positive, o.row, o.column, o.images,
                     o.kernel, o.channel, o.query,    o.key, o.value};
  for (auto _ : state) {
    row.call(o).backward(cotangent);
    for (Tensor& leaf : leaves) leaf.set_grad({});
  }
}

// ---- Optimizers ----

template <class Optimizer>
void step(benchmark::State& state, DType dtype, std::int64_t count, const Shape& shape) {
  std::vector<Tensor> parameters;
  for (std::int64_t i = 0; i < count; ++i) {
    parameters.push_back(randn(shape).to(dtype).set_requires_grad());
    parameters.back().set_grad(randn(shape).to(dtype));
  }
  Optimizer optimizer(parameters, {.lr = 1e-6});
  for (auto _ : state) optimizer.step();
}

const bool registered = [] {
  for (const DType dtype : {f32, bf16, f64, i64}) {
    const std::string type(ct::name(dtype));
    const auto add = [](const std::string& name, auto&&... call) {
      benchmark::RegisterBenchmark(name.c_str(), call...)->Apply(five_runs);
    };
    for (const Row& row : kRows) {
      const std::string name = "op/" + std::string(row.name) + '_' + type;
      if (!is_floating(dtype) && !row.integers) continue;
      add(name, forward, std::cref(row), dtype);
      if (is_floating(dtype)) add(name + "_backward", with_backward, std::cref(row), dtype);
    }
    if (dtype != f32 && dtype != bf16) continue;
    for (const auto& [name, count, shape] : {std::tuple<const char*, int, Shape>{"small", 4, {64, 64}},
                                             {"many", 400, {64, 17}},
                                             {"mlp", 1, {794, 256}},
                                             {"large", 1, {2048, 2048}}}) {
      add(std::string("optim/sgd_") + name + '_' + type, step<optim::SGD>, dtype, count, shape);
      add(std::string("optim/adamw_") + name + '_' + type, step<optim::AdamW>, dtype, count, shape);
    }
  }
  return true;
}();

}  // namespace
