#include <functional>
#include <string>
#include <vector>

#include <cotangent/cotangent.h>

#include "tests/catch.h"

// PyTorch's values, made by tests/golden/make_losses.py.

using namespace ct;

namespace {

Tensor numbers(const Shape& shape, std::int64_t seed) {
  Tensor t = Tensor::allocate(shape, f64, cpu);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = static_cast<double>((i * 7919 + seed * 104729 + 13) % 2003 - 1001) / 512;
  return t;
}

int cases_run = 0;

// f(inputs) and its gradients for the cotangent numbers(y.shape, 99) are those of the file.
void check(const std::string& name, const std::function<Tensor(const std::vector<Tensor>&)>& f,
           const std::vector<Tensor>& inputs) {
  static const StateDict golden = io::load_npz(COTANGENT_SOURCE_DIR "/tests/golden/losses.npz");
  INFO(name);
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs) leaves.push_back(x.clone().requires_grad_());
  const Tensor y = f(leaves);
  const auto is_golden = [&](const std::string& what, const Tensor& got) {
    INFO(what);
    const Tensor& want = golden.at(name + "." + what);
    REQUIRE(got.shape() == want.shape());
    CHECK(allclose(got, want, 1e-12, 1e-13));
  };
  is_golden("y", y);
  y.backward(numbers(y.shape(), 99));
  for (std::size_t k = 0; k < leaves.size(); ++k) is_golden("d" + std::to_string(k), leaves[k].grad());
  ++cases_run;
}

using Inputs = const std::vector<Tensor>&;

}  // namespace

TEST_CASE("losses and distributions are PyTorch's", "[losses][golden]") {
  Tensor x = numbers({6, 5}, 1);
  const Tensor t = numbers({6, 5}, 2);
  x.view({-1})[7] = t.view({-1})[7];
  const Tensor p = 0.5 + numbers({6, 5}, 3) / 8, q = 0.5 + numbers({6, 5}, 4) / 8;
  const Tensor w = abs(numbers({5}, 5)), var = abs(numbers({6, 5}, 6)) + 0.25;
  const Tensor log_p = log_softmax(numbers({6, 5}, 7), -1);
  const Tensor a = numbers({6, 4}, 8), b = numbers({6, 4}, 9), c = numbers({6, 4}, 10);
  const Tensor sign = tensor({1., -1., 1., -1., -1., 1.}), classes = tensor({0, 4, 2, -100, 1, 3});

  for (const auto& [r, reduction] :
       {std::pair{"mean", Reduction::mean}, {"sum", Reduction::sum}, {"none", Reduction::none}}) {
    const auto named = [r = std::string(r)](const char* name) { return name + ("." + r); };
    const Reduction how = reduction;
    check(named("l1"), [&](Inputs in) { return l1_loss(in[0], in[1], {.reduction = how}); }, {x, t});
    check(named("mse"), [&](Inputs in) { return mse_loss(in[0], in[1], {.reduction = how}); }, {x, t});
    check(named("huber"),
          [&](Inputs in) { return huber_loss(in[0], in[1], {.reduction = how, .delta = 0.75}); }, {x, t});
    check(named("smooth_l1"),
          [&](Inputs in) { return smooth_l1_loss(in[0], in[1], {.reduction = how, .beta = 0.5}); }, {x, t});
    check(named("bce"),
          [&](Inputs in) { return binary_cross_entropy(in[0], q, {.weight = w, .reduction = how}); }, {p});
    check(named("bce_with_logits"),
          [&](Inputs in) {
            return bce_with_logits(in[0], q, {.weight = w, .pos_weight = w + 1, .reduction = how});
          },
          {x});
    check(named("kl_div"), [&](Inputs in) { return kl_div(in[0], in[1], {.reduction = how}); }, {log_p, q});
    check(named("gaussian_nll"),
          [&](Inputs in) { return gaussian_nll_loss(in[0], in[1], in[2], {.reduction = how, .full = true}); },
          {x, t, var});
    check(named("cosine_embedding"),
          [&](Inputs in) {
            return cosine_embedding_loss(in[0], in[1], sign, {.margin = 0.25, .reduction = how});
          },
          {a, b});
    check(
        named("triplet"),
        [&](Inputs in) { return triplet_margin_loss(in[0], in[1], in[2], {.margin = 2, .reduction = how}); },
        {a, b, c});
    check(named("triplet_swap"),
          [&](Inputs in) {
            return triplet_margin_loss(in[0], in[1], in[2], {.p = 1, .swap = true, .reduction = how});
          },
          {a, b, c});
    check(named("nll"), [&](Inputs in) { return nll_loss(in[0], classes, {.weight = w, .reduction = how}); },
          {log_p});
    check(named("cross_entropy"),
          [&](Inputs in) {
            return cross_entropy(in[0], classes, {.weight = w, .reduction = how, .label_smoothing = 0.125});
          },
          {x});
    check(named("cross_entropy_probs"),
          [&](Inputs in) { return cross_entropy(in[0], in[1], {.weight = w, .reduction = how}); }, {x, q});
  }
  check("kl_div.batchmean", [](Inputs in) { return kl_div(in[0], in[1], {.batch_mean = true}); }, {log_p, q});
  check("kl_div.log_target",
        [](Inputs in) { return kl_div(in[0], in[1], {.reduction = Reduction::sum, .log_target = true}); },
        {log_p, numbers({6, 5}, 11)});
  check("cosine_similarity", [](Inputs in) { return cosine_similarity(in[0], in[1], {.axis = 0}); }, {a, b});
  check("pairwise_distance",
        [](Inputs in) { return pairwise_distance(in[0], in[1], {.p = 3, .keepdim = true}); }, {a, b});

  using namespace distributions;
  const Tensor index = tensor({0, 4, 2, 2, 1, 3}), bits = (t > 0).to(f64);
  check("categorical.log_prob", [&](Inputs in) { return Categorical(in[0]).log_prob(index); }, {x});
  check("categorical.entropy", [](Inputs in) { return Categorical(in[0]).entropy(); }, {x});
  check("categorical.kl", [](Inputs in) { return kl_divergence(Categorical(in[0]), Categorical(in[1])); },
        {x, t});
  check("bernoulli.log_prob", [&](Inputs in) { return Bernoulli(in[0]).log_prob(bits); }, {x});
  check("bernoulli.entropy", [](Inputs in) { return Bernoulli(in[0]).entropy(); }, {x});
  check("normal.log_prob", [](Inputs in) { return Normal(in[1], in[2]).log_prob(in[0]); }, {t, x, var});
  check("normal.entropy", [](Inputs in) { return Normal(zeros_like(in[0]), in[0]).entropy(); }, {var});
  check("normal.kl", [](Inputs in) { return kl_divergence(Normal(in[0], in[1]), Normal(in[2], in[3])); },
        {x, var, t, var + 0.5});
  CHECK(cases_run == 54);
}
