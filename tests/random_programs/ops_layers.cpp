#include "tests/random_programs/program.h"

// Products, losses, norms, convolutions, attention.

namespace ct::random_programs {
namespace {

Reduction reduction(Draw& d) {
  const std::int64_t which = d.choice("reduction", {"none", "mean", "sum"});
  return which == 0 ? Reduction::none : which == 1 ? Reduction::mean : Reduction::sum;
}

}  // namespace

void add_layers(std::vector<Op>& ops) {
  const auto add = [&](const char* name, std::function<Results(Draw&)> run) {
    ops.push_back({name, std::move(run)});
  };

  add("matmul", [](Draw& d) {
    const Tensor x = d.x(1);
    return ct::matmul(x, d.leaf({x.size(-1), d.number(1, 3)}));
  });
  add("linear", [](Draw& d) {
    const Tensor x = d.x(1);
    const std::int64_t out = d.number(1, 4);
    const Tensor weight = d.leaf({out, x.size(-1)});
    return ct::linear(x, weight, d.leaf({out}));
  });
  add("addmm", [](Draw& d) {
    const Tensor a = d.x(2, 2);
    const std::int64_t out = d.number(1, 3);
    const Tensor b = d.leaf({a.size(1), out}), x = d.leaf({out});
    const double beta = d.real("beta", {1, -.5}), alpha = d.real("alpha", {1, 2});
    return ct::addmm(x, a, b, {.beta = beta, .alpha = alpha});
  });
  add("bmm", [](Draw& d) {
    const Tensor a = d.x(3, 3);
    return ct::bmm(a, d.leaf({a.size(0), a.size(2), 2}));
  });
  add("outer", [](Draw& d) {
    const Tensor a = d.x(1, 1);
    return ct::outer(a, d.x(1, 1));
  });
  add("dot", [](Draw& d) {
    const Tensor a = d.x(1, 1);
    return ct::dot(a, d.like(a));
  });
  for (const char* equation : {"ij,kj->ik", "ij,jk->ki", "ij,ij->j", "ij,ik->ijk", "ij,ij->"})
    add((std::string("einsum ") + equation).c_str(), [equation](Draw& d) {
      const Tensor a = d.x(2, 2);
      return ct::einsum(equation, {a, d.any([&](const Tensor& t) {
                                     if (t.dtype() != f64 || t.dim() != 2) return false;
                                     for (int i = 0; i < 2; ++i)
                                       for (int j = 0; j < 2; ++j)
                                         if (equation[i] == equation[3 + j] && a.size(i) != t.size(j))
                                           return false;
                                     return true;
                                   })});
    });
  add("tensordot", [](Draw& d) {
    const Tensor a = d.x(2, 3);
    return ct::tensordot(a, d.leaf({a.size(-1), 2}), d.whole("dims", 1, 1));
  });
  add("cdist", [](Draw& d) {
    const Tensor a = d.distinct(2);
    return ct::cdist(a, d.leaf({2, a.size(-1)}), d.real("p", {1, 2, 3}));
  });
  add("bilinear", [](Draw& d) {
    const Tensor a = d.x(2, 2);
    const Tensor b = d.leaf({a.size(0), 2});
    return ct::bilinear(a, b, d.leaf({2, a.size(1), 2}));
  });

  // Losses.
  add("mse_loss", [](Draw& d) {
    const Tensor x = d.x();
    const Tensor t = d.like(x);
    return ct::mse_loss(x, t, {.reduction = reduction(d)});
  });
  add("l1_loss", [](Draw& d) {
    const Tensor x = d.distinct();
    const Tensor t = d.leaf(x.shape());
    return ct::l1_loss(x, t, {.reduction = reduction(d)});
  });
  add("smooth_l1_loss", [](Draw& d) {
    const Tensor x = d.distinct();
    const Tensor t = d.leaf(x.shape());
    const double beta = d.real("beta", {1, .5});
    return ct::smooth_l1_loss(x, t, {.reduction = reduction(d), .beta = beta});
  });
  add("huber_loss", [](Draw& d) {
    const Tensor x = d.distinct();
    const Tensor t = d.leaf(x.shape());
    const double delta = d.real("delta", {1, .5});
    return ct::huber_loss(x, t, {.reduction = reduction(d), .delta = delta});
  });
  add("binary_cross_entropy", [](Draw& d) {
    const Tensor x = d.within(.02, .98);
    // PyTorch has no gradient of this target.
    const Tensor t = d.any([&](const Tensor& o) {
      return o.dtype() == f64 && o.shape() == x.shape() &&
             ct::all(ct::logical_and(o >= 0, o <= 1)).item<bool>();
    });
    return ct::binary_cross_entropy(x, t.detach(), {.reduction = reduction(d)});
  });
  add("binary_cross_entropy_with_logits", [](Draw& d) {
    const Tensor x = d.x();
    const Tensor t = d.leaf(x.shape());
    return ct::bce_with_logits(x, t, {.reduction = reduction(d)});
  });
  add("kl_div", [](Draw& d) {
    const Tensor x = d.x();
    const Tensor t = d.leaf(x.shape());
    const bool log_target = d.whole("log_target", 1, 1) == 1;
    return ct::kl_div(x, t, {.reduction = reduction(d), .log_target = log_target});
  });
  add("cross_entropy", [](Draw& d) {
    const Tensor x = d.x(2, 2);
    const Tensor t = d.indices({x.size(0)}, x.size(1));
    const double smoothing = d.real("label_smoothing", {0, .1});
    return ct::cross_entropy(x, t, {.reduction = reduction(d), .label_smoothing = smoothing});
  });
  add("nll_loss", [](Draw& d) {
    const Tensor x = d.x(2, 2);
    const Tensor t = d.indices({x.size(0)}, x.size(1));
    return ct::nll_loss(x, t, {.reduction = reduction(d)});
  });
  add("gaussian_nll_loss", [](Draw& d) {
    const Tensor v = d.within(.1, 50);
    const Tensor x = d.leaf(v.shape()), t = d.leaf(v.shape());
    const bool full = d.flag("full");
    if (v.dim() == 0) throw Skip{};
    return ct::gaussian_nll_loss(x, t, v, {.reduction = reduction(d), .full = full});
  });
  add("cosine_similarity", [](Draw& d) {
    const Tensor x = d.away({0});
    if (x.dim() == 0) throw Skip{};
    const Tensor t = d.leaf(x.shape());
    return ct::cosine_similarity(x, t, {.axis = d.dim("dim", x)});
  });
  add("pairwise_distance", [](Draw& d) {
    const Tensor x = d.distinct(2);
    const Tensor t = d.leaf(x.shape());
    return ct::pairwise_distance(x, t, {.p = d.real("p", {2, 3})});
  });

  // Norms.
  add("layer_norm", [](Draw& d) {
    const Tensor x = d.distinct(1);
    if (x.size(-1) < 2) throw Skip{};
    const Tensor w = d.leaf({x.size(-1)});
    return ct::layer_norm(x, w, d.leaf({x.size(-1)}), d.real("eps", {1e-5, 1e-2}));
  });
  add("rms_norm", [](Draw& d) {
    const Tensor x = d.away({0});
    if (x.dim() == 0) throw Skip{};
    const Tensor w = d.leaf({x.size(-1)});
    return ct::rms_norm(x, w, d.real("eps", {1e-5, 1e-2}));
  });
  add("group_norm", [](Draw& d) {
    const Tensor x = d.distinct(3);
    if (x.numel() == x.size(0)) throw Skip{};  // PyTorch refuses groups of one value
    const Tensor w = d.leaf({x.size(1)}), b = d.leaf({x.size(1)});
    return ct::group_norm(x, d.whole("num_groups", 1, 1), w, b);
  });
  add("batch_norm", [](Draw& d) {
    const Tensor x = d.distinct(2);
    if (x.numel() / x.size(1) < 2) throw Skip{};
    const Tensor w = d.leaf({x.size(1)}), b = d.leaf({x.size(1)});
    d.whole("training", 1, 1);
    return ct::batch_norm(x, {}, {}, w, b, {.training = true});
  });

  // Windows. Images are new inputs: three axes of some size are rare otherwise.
  add("conv2d", [](Draw& d) {
    const std::int64_t groups = d.whole("groups", 1, 2), stride = d.whole("stride", 1, 2);
    const Tensor x = d.leaf({d.number(1, 2), 2, d.number(3, 4), 4});
    const Tensor w = d.leaf({2, 2 / groups, d.number(1, 3), 2}), b = d.leaf({2});
    const std::int64_t padding = d.whole("padding", 0, 1);
    return ct::conv2d(x, w, b, {.stride = stride, .padding = padding, .groups = groups});
  });
  add("conv1d", [](Draw& d) {
    const Tensor x = d.x(3, 3);
    const Tensor w = d.leaf({2, x.size(1), d.number(1, 2)}), b = d.leaf({2});
    const std::int64_t padding = d.whole("padding", 1, 2), dilation = d.whole("dilation", 1, 2);
    return ct::conv1d(x, w, b, {.padding = padding, .dilation = dilation});
  });
  add("conv_transpose2d", [](Draw& d) {
    const Tensor x = d.leaf({1, 2, 3, d.number(2, 3)});
    const Tensor w = d.leaf({2, 2, 2, 3}), b = d.leaf({2});
    const std::int64_t stride = d.whole("stride", 1, 2), padding = d.whole("padding", 0, 1);
    return ct::conv_transpose2d(x, w, b, {.stride = stride, .padding = padding});
  });
  add("max_pool1d", [](Draw& d) {
    const Tensor x = d.distinct(3);
    if (x.dim() != 3 || x.size(2) < 2) throw Skip{};
    const std::int64_t kernel = d.whole("kernel_size", 1, 2);
    return ct::max_pool1d(x, kernel, {.stride = d.whole("stride", 1, 2)});
  });
  add("avg_pool2d", [](Draw& d) {
    const Tensor x = d.leaf({1, 2, 4, d.number(3, 4)});
    const std::int64_t kernel = d.whole("kernel_size", 2, 3), padding = d.whole("padding", 0, 1);
    return ct::avg_pool2d(x, kernel, {.padding = padding, .ceil_mode = d.flag("ceil_mode")});
  });
  add("max_pool2d", [](Draw& d) {
    const Tensor x = d.leaf({1, 2, 4, d.number(3, 4)});
    const std::int64_t kernel = d.whole("kernel_size", 2, 3), padding = d.whole("padding", 0, 1);
    return ct::max_pool2d(x, kernel, {.padding = padding});
  });
  add("adaptive_avg_pool1d", [](Draw& d) {
    const Tensor x = d.x(3, 3);
    return ct::adaptive_avg_pool1d(x, d.whole("output_size", 1, x.size(2)));
  });
  add("scaled_dot_product_attention", [](Draw& d) {
    const std::int64_t queries = d.number(1, 3), keys = d.number(1, 3);
    const Tensor q = d.leaf({1, 2, queries, 3}), k = d.leaf({1, 2, keys, 3}), v = d.leaf({1, 2, keys, 2});
    return ct::scaled_dot_product_attention(q, k, v, {.causal = d.flag("is_causal")});
  });
}

}  // namespace ct::random_programs
