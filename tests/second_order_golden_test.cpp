#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <cotangent/cotangent.h>

#include "tests/catch.h"

// PyTorch's Hessian-vector products and third derivatives, made by tests/golden/make_second_order.py, which says
// what is computed.

using namespace ct;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using Tensors = std::vector<Tensor>;

const StateDict& golden() {
  static const StateDict file = io::load_npz(COTANGENT_SOURCE_DIR "/tests/golden/second_order.npz");
  return file;
}

Tensor numbers(const Shape& shape, std::int64_t seed) {
  Tensor t = Tensor::allocate(shape, f64, cpu);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = static_cast<double>((i * 7919 + seed * 104729 + 13) % 2003 - 1001) / 512;
  return t;
}

std::set<std::string> seen;  // the cases that have run

// The weighted sum of the derivatives of `of`, after a comparison with PyTorch's.
Tensor derivatives(const std::string& name, char letter, const Tensor& of, const Tensors& xs,
                   std::int64_t seed, Device device) {
  Tensors grads(xs.size());
  if (of.defined() && of.requires_grad())
    grads = grad({of}, xs, {}, {.allow_unused = true, .create_graph = true});
  Tensor sum_of_all = zeros({}, {.dtype = f64, .device = device});
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const std::string key = name + "." + letter + std::to_string(i);
    INFO(key << " on " << device);
    const Tensor& want = golden().at(key);
    const Tensor got = grads[i].defined() ? grads[i] : zeros_like(xs[i]);
    REQUIRE(got.shape() == want.shape());
    const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
    for (std::size_t k = 0; k < a.size(); ++k)
      if (!(std::abs(a[k] - b[k]) <= 1e-9 * (1 + std::abs(b[k]))))
        FAIL_CHECK("element " << k << " is " << a[k] << ", PyTorch has " << b[k]);
    const auto number = static_cast<std::int64_t>(i);
    sum_of_all = sum_of_all + sum(got * numbers(want.shape(), seed + number).to(device));
  }
  return sum_of_all;
}

struct Case {
  std::string name;
  std::function<Tensors(const Tensors&)> function;
  std::vector<Shape> shapes;
  bool positive = false;
};

void run(const Case& c, Device device) {
  Tensors xs;
  for (std::size_t i = 0; i < c.shapes.size(); ++i) {
    Tensor x = numbers(c.shapes[i], 11 + static_cast<std::int64_t>(i));
    if (c.positive) x = x / 4 + 1.5;
    xs.push_back(x.to(device));
    xs.back().set_requires_grad();
  }
  const Tensors ys = c.function(xs);
  Tensor loss = zeros({}, {.dtype = f64, .device = device});
  for (std::size_t k = 0; k < ys.size(); ++k) {
    const Tensor w = numbers(ys[k].shape(), 31 + static_cast<std::int64_t>(k)).to(device);
    loss = loss + sum(w * (ys[k] + ys[k] * ys[k] / 2));
  }
  Tensor of = derivatives(c.name, 'g', loss, xs, 51, device);
  of = derivatives(c.name, 'h', of, xs, 71, device);
  derivatives(c.name, 't', of, xs, 91, device);
  seen.insert(c.name);
}

// A function of the tensors in a vector, from one of one, two, ... tensors.
template <class F>
std::function<Tensors(const Tensors&)> of1(F f) {
  return [f](const Tensors& x) { return Tensors{f(x[0])}; };
}
template <class F>
std::function<Tensors(const Tensors&)> of2(F f) {
  return [f](const Tensors& x) { return Tensors{f(x[0], x[1])}; };
}

Tensor table(std::initializer_list<std::int64_t> values, const Shape& shape, const Tensor& like) {
  return from_vector(std::vector<std::int64_t>(values), shape).to(like.device());
}

std::vector<Case> elementwise_cases() {
  const Shape m{3, 4}, row{4};
  std::vector<Case> all;
  const auto one = [&](const char* name, auto f, bool positive = false) {
    all.push_back({name, of1(f), {m}, positive});
  };
  const auto two = [&](const char* name, auto f, const Shape& second, bool positive = false) {
    all.push_back({name, of2(f), {m, second}, positive});
  };
  using T = const Tensor&;
  one("neg", [](T x) { return -x; });
  one("abs", [](T x) { return abs(x); });
  one("sign", [](T x) { return sign(x); });
  one("exp", [](T x) { return exp(x); });
  one(
      "log", [](T x) { return log(x); }, true);
  one(
      "sqrt", [](T x) { return sqrt(x); }, true);
  one(
      "rsqrt", [](T x) { return rsqrt(x); }, true);
  one("square", [](T x) { return square(x); });
  one("cube", [](T x) { return pow(x, 3); });
  one(
      "reciprocal", [](T x) { return reciprocal(x); }, true);
  one("sin", [](T x) { return sin(x); });
  one("cos", [](T x) { return cos(x); });
  one("tanh", [](T x) { return tanh(x); });
  one("sigmoid", [](T x) { return sigmoid(x); });
  one("relu", [](T x) { return relu(x); });
  one("leaky_relu", [](T x) { return leaky_relu(x, 0.1); });
  one("gelu", [](T x) { return gelu(x); });
  one("gelu_tanh", [](T x) { return gelu(x, Gelu::tanh); });
  one("silu", [](T x) { return silu(x); });
  one("softplus", [](T x) { return softplus(x, 1.5, 20); });
  one("erf", [](T x) { return erf(x); });
  one("clamp", [](T x) { return clamp(x, -0.5, 0.75); });
  two(
      "add", [](T a, T b) { return a + b; }, row);
  two("add_scaled", [](T a, T b) { return add(a, b, 2.5); }, {3, 1});
  two(
      "sub", [](T a, T b) { return a - b; }, row);
  two(
      "mul", [](T a, T b) { return a * b; }, row);
  two(
      "div", [](T a, T b) { return a / b; }, row, true);
  two(
      "pow", [](T a, T b) { return pow(a, b); }, row, true);
  two(
      "maximum", [](T a, T b) { return maximum(a, b); }, row);
  two(
      "minimum", [](T a, T b) { return minimum(a, b); }, row);
  one("add_scalar", [](T x) { return x + 2.5; });
  one("rsub_scalar", [](T x) { return 2.5 - x; });
  one("mul_scalar", [](T x) { return x * 2.5; });
  one("div_scalar", [](T x) { return x / 2.5; });
  one(
      "rdiv_scalar", [](T x) { return 2.5 / x; }, true);
  one(
      "pow_scalar", [](T x) { return pow(x, 2.5); }, true);
  one("rpow_scalar", [](T x) { return pow(2.5, x); });
  one("maximum_scalar", [](T x) { return maximum(x, 0.25); });
  one("minimum_scalar", [](T x) { return minimum(x, 0.25); });
  two(
      "where", [](T a, T b) { return where(a > b, a * a, b); }, row);
  one("where_scalar", [](T a) { return where(a > 0, a * a, 0.5); });
  two(
      "swiglu", [](T a, T b) { return swiglu(a, b); }, m);
  two(
      "geglu", [](T a, T b) { return geglu(a, b); }, m);
  two(
      "geglu_tanh", [](T a, T b) { return geglu(a, b, Gelu::tanh); }, m);
  return all;
}

std::vector<Case> layout_cases() {
  using T = const Tensor&;
  const Shape m{3, 4};
  return {
      {"view",
       of1([](T x) {
         return x.view({2, 6});
       }),
       {m}},
      {"permute",
       of1([](T x) {
         return x.permute({2, 0, 1});
       }),
       {{2, 3, 4}}},
      {"slice", of1([](T x) { return x.slice(1, 1, 8, 3); }), {{2, 9}}},
      {"select", of1([](T x) { return x.select(1, 2); }), {{2, 3, 4}}},
      {"unbind", [](const Tensors& x) { return x[0].unbind(1); }, {{4, 3}}},
      {"expand",
       of1([](T x) {
         return x.expand({3, 4});
       }),
       {{3, 1}}},
      {"squeeze", of1([](T x) { return x.squeeze(1); }), {{3, 1, 2}}},
      {"unsqueeze", of1([](T x) { return x.unsqueeze(1); }), {m}},
      {"copy", of1([](T x) { return x.clone(); }), {m}},
      {"assign",
       of2([](T x, T z) {
         Tensor y = x * 2;
         return y.copy_(z);
       }),
       {m, m}},
      {"fill",
       of1([](T x) {
         Tensor y = x * 2;
         return y.fill_(0.5) + x;
       }),
       {m}},
      {"concat",
       of2([](T a, T b) {
         return concat(Tensors{a, b}, 1);
       }),
       {{2, 3}, {2, 2}}},
      {"stack",
       of2([](T a, T b) {
         return stack(Tensors{a, b}, 1);
       }),
       {m, m}},
  };
}

std::vector<Case> reduction_cases() {
  using T = const Tensor&;
  const Shape m{3, 4};
  return {
      {"sum",
       of1([](T x) {
         return sum(x, {0, 2});
       }),
       {{2, 3, 4}}},
      {"mean", of1([](T x) { return mean(x, {1}, true); }), {m}},
      {"prod", of1([](T x) { return prod(x, {1}); }), {m}},
      {"prod_zeros",
       of1([](T x) {
         std::vector<double> keep(12, 1.0);
         keep[1] = keep[4] = keep[6] = 0;
         return prod(x * from_vector(keep, {3, 4}).to(x.device()), {1});
       }),
       {m}},
      {"amax", of1([](T x) { return amax(x, {1}); }), {m}},
      {"amin",
       of1([](T x) {
         return amin(x, {0, 1});
       }),
       {m}},
      {"max", of1([](T x) { return max(x, 1).values; }), {m}},
      {"min", of1([](T x) { return min(x, 0).values; }), {m}},
      {"var", of1([](T x) { return var(x, {1}); }), {m}},
      {"std", of1([](T x) { return stddev(x, {1}); }), {m}},
      {"norm1", of1([](T x) { return norm(x, 1, {1}); }), {m}},
      {"norm2", of1([](T x) { return norm(x, 2, {1}); }), {m}},
      {"norm3", of1([](T x) { return norm(x, 3, {1}); }), {m}},
      {"norminf", of1([](T x) { return norm(x, kInf, {1}); }), {m}},
      {"logsumexp", of1([](T x) { return logsumexp(x, {1}); }), {m}},
      {"topk", of1([](T x) { return topk(x, 2, 1).values; }), {{3, 5}}},
  };
}

std::vector<Case> layer_cases() {
  using T = const Tensor&;
  const Shape m{3, 4}, row{4};
  const auto index = [](T like) { return table({0, 2, 1, 2, 2, 4}, {2, 3}, like); };
  const auto mask = [](T like) {
    return table({1, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1}, {3, 4}, like).to(boolean);
  };
  const auto matmul_of = of2([](T a, T b) { return matmul(a, b); });
  return {
      {"matmul", matmul_of, {{3, 4}, {4, 2}}},
      {"matmul_vectors", matmul_of, {{4}, {4}}},
      {"matmul_row", matmul_of, {{4}, {2, 4, 3}}},
      {"matmul_column", matmul_of, {{2, 3, 4}, {4}}},
      {"matmul_stacks", matmul_of, {{2, 1, 3, 4}, {3, 4, 2}}},
      {"linear",
       [](const Tensors& x) { return Tensors{linear(x[0], x[1], x[2])}; },
       {{2, 3, 4}, {5, 4}, {5}}},
      {"embedding", of1([=](T w) { return embedding(index(w), w); }), {{5, 3}}},
      {"embedding_padding", of1([=](T w) { return embedding(index(w), w, 2); }), {{5, 3}}},
      {"softmax", of1([](T x) { return softmax(x, 1); }), {{2, 3, 4}}},
      {"log_softmax", of1([](T x) { return log_softmax(x, -1); }), {m}},
      {"masked_softmax", of1([=](T x) { return masked_softmax(x, mask(x), 0.5); }), {m}},
      {"masked_softmax_additive", of2([](T x, T z) { return masked_softmax(x, z, 0.5); }), {m, row}},
      {"layer_norm",
       [](const Tensors& x) { return Tensors{layer_norm(x[0], x[1], x[2], 1e-3)}; },
       {m, row, row}},
      {"rms_norm", of2([](T x, T w) { return rms_norm(x, w, 1e-3); }), {m, row}},
      {"add_layer_norm",
       [](const Tensors& x) {
         const auto both = add_layer_norm(x[0], x[1], x[2], x[3], 1e-3);
         return Tensors(both.begin(), both.end());
       },
       {m, m, row, row}},
      {"add_rms_norm",
       [](const Tensors& x) {
         const auto both = add_rms_norm(x[0], x[1], x[2], 1e-3);
         return Tensors(both.begin(), both.end());
       },
       {m, m, row}},
      {"rotary_embedding",
       of1([](T x) {
         return rotary_embedding(x, table({0, 1, 2}, {3}, x), {.interleaved = true});
       }),
       {{2, 3, 4}}},
      {"attention",
       [](const Tensors& x) {
         return Tensors{scaled_dot_product_attention(
             x[0], x[1], x[2], {.mask = x[3], .causal = true, .causal_offset = 1, .scale = 0.5})};
       },
       {{1, 2, 3, 2}, {1, 1, 4, 2}, {1, 1, 4, 3}, {3, 4}}},
  };
}

std::vector<Case> loss_cases() {
  using T = const Tensor&;
  const Shape m{3, 4};
  const auto labels = [](T like) { return table({2, -100, 3}, {3}, like); };
  const auto weight = [](T like) { return from_vector<double>({0.5, 1, 2, 0.25}, {4}).to(like.device()); };
  std::vector<Case> all;
  for (const Reduction r : {Reduction::none, Reduction::mean, Reduction::sum}) {
    const std::string end = "_" + std::string(name(r));
    all.push_back({"mse" + end, of2([=](T x, T t) { return mse_loss(x, t, {.reduction = r}); }), {m, m}});
    all.push_back({"bce" + end,
                   of2([=](T x, T t) {
                     return bce_with_logits(
                         x, t, {.weight = weight(x), .pos_weight = 2 * weight(x), .reduction = r});
                   }),
                   {m, m}});
    all.push_back({"nll" + end,
                   of1([=](T x) { return nll_loss(x, labels(x), {.weight = weight(x), .reduction = r}); }),
                   {m}});
    const auto options = [=](T x) {
      return CrossEntropyOptions{.weight = weight(x), .reduction = r, .label_smoothing = 0.1};
    };
    all.push_back(
        {"cross_entropy" + end, of1([=](T x) { return cross_entropy(x, labels(x), options(x)); }), {m}});
    all.push_back(
        {"cross_entropy_soft" + end, of2([=](T x, T t) { return cross_entropy(x, t, options(x)); }), {m, m}});
    all.push_back({"linear_cross_entropy" + end,
                   of2([=](T x, T w) {
                     return linear_cross_entropy(x, w, labels(x),
                                                 {.reduction = r, .label_smoothing = 0.1, .recompute = true});
                   }),
                   {{3, 2}, {4, 2}}});
  }
  return all;
}

void run_all(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    run(c, cpu);
    if (cuda_is_available()) run(c, cuda(0));
  }
}

}  // namespace

TEST_CASE("second and third derivatives of elementwise ops as PyTorch's", "[golden][second_order]") {
  run_all(elementwise_cases());
}
TEST_CASE("second and third derivatives of views and copies as PyTorch's", "[golden][second_order]") {
  run_all(layout_cases());
}
TEST_CASE("second and third derivatives of reductions as PyTorch's", "[golden][second_order]") {
  run_all(reduction_cases());
}
TEST_CASE("second and third derivatives of layers as PyTorch's", "[golden][second_order]") {
  run_all(layer_cases());
}
TEST_CASE("second and third derivatives of losses as PyTorch's", "[golden][second_order]") {
  run_all(loss_cases());
}
