#include <cotangent/nn/attention.h>

#include <cmath>
#include <limits>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/base/error.h>
#include <cotangent/nn/init.h>
#include <cotangent/ops/attention/attention.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/dropout.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/linear/linear.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/softmax/masked_softmax.h>
#include <cotangent/ops/softmax/softmax.h>

namespace ct::nn {
namespace {

constexpr char kOp[] = "MultiheadAttention";

// One mask out of two, broadcastable to [B, H, Tq, Tk]: bool (true: see) if both are, else added to scores.
Tensor merge(const AttentionMasks& masks, const Tensor& q, const Tensor& k) {
  const std::int64_t batch = q.size(0), heads = q.size(1), tq = q.size(2), tk = k.size(2);
  Tensor padding = masks.key_padding_mask, mask = masks.attn_mask;
  for (const Tensor& t : {padding, mask})
    CT_CHECK(!t.defined() || t.dtype() == boolean || is_floating(t.dtype()), DTypeError, kOp, "a mask is ",
             describe(t),
             "; it must be bool (true: not seen) or floating (added): convert with .to(boolean)");
  if (padding.defined()) {
    if (padding.dim() == 1) padding = padding.unsqueeze(0);
    CT_CHECK((padding.shape() == Shape{batch, tk}), ShapeError, kOp, "key_padding_mask is ",
             describe(masks.key_padding_mask), "; it must be ", Shape{batch, tk}, ": [batch, keys]");
    padding = padding.view({batch, 1, 1, tk});
  }
  if (mask.defined()) {
    const bool per_head = mask.dim() == 3;
    CT_CHECK((mask.shape() == Shape{tq, tk} || mask.shape() == Shape{batch * heads, tq, tk}), ShapeError, kOp,
             "attn_mask is ", describe(mask), "; it must be ", Shape{tq, tk}, " or ",
             Shape{batch * heads, tq, tk}, ": [queries, keys] or [batch * heads, queries, keys]");
    if (per_head) mask = mask.reshape({batch, heads, tq, tk});
  }
  const auto is_bool = [](const Tensor& t) { return !t.defined() || t.dtype() == boolean; };
  if (is_bool(padding) && is_bool(mask)) {
    const Tensor hidden = !padding.defined() ? mask : !mask.defined() ? padding : logical_or(padding, mask);
    return hidden.defined() ? logical_not(hidden) : Tensor();
  }
  const auto added = [&](const Tensor& t) {
    if (t.dtype() != boolean) return t.to(q.dtype());
    return where(t, -std::numeric_limits<double>::infinity(),
                 zeros({}, {.dtype = q.dtype(), .device = q.device()}));
  };
  return !padding.defined() ? added(mask) : !mask.defined() ? added(padding) : added(padding) + added(mask);
}

// Checks before members are made, as making out_proj_ takes random numbers.
std::int64_t checked_width(std::int64_t embed, std::int64_t heads, const MultiheadAttentionOptions& options) {
  CT_CHECK(embed > 0 && heads > 0, ValueError, kOp, "embed_dim is ", embed, ", num_heads ", heads,
           "; they must be positive");
  CT_CHECK(embed % heads == 0, ValueError, kOp, "embed_dim is ", embed, ", num_heads ", heads,
           "; embed_dim must be a multiple of num_heads");
  CT_CHECK(options.kdim >= 0 && options.vdim >= 0, ValueError, kOp, "kdim is ", options.kdim, ", vdim ",
           options.vdim, "; they must be positive, or 0 for embed_dim");
  ct::detail::check_probability(kOp, "dropout", options.dropout);
  return embed;
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       MultiheadAttentionOptions options)
    : embed_(checked_width(embed_dim, num_heads, options)),
      heads_(num_heads),
      kdim_(options.kdim > 0 ? options.kdim : embed_dim),
      vdim_(options.vdim > 0 ? options.vdim : embed_dim),
      dropout_(options.dropout),
      batch_first_(options.batch_first),
      out_proj_(
          add("out_proj", Linear(embed_dim, embed_dim, {options.bias, options.dtype, options.device}))) {
  describe_as(kOp,
              ct::detail::cat(embed_, ", heads=", heads_, ", dropout=", dropout_,
                              options.bias ? "" : ", bias=false", batch_first_ ? ", batch_first=true" : ""));
  const auto weight = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    return parameter(name, Tensor::allocate({rows, columns}, options.dtype, options.device));
  };
  if (kdim_ == embed_ && vdim_ == embed_) {
    in_proj_weight_ = weight("in_proj_weight", 3 * embed_, embed_);
  } else {
    q_proj_weight_ = weight("q_proj_weight", embed_, embed_);
    k_proj_weight_ = weight("k_proj_weight", embed_, kdim_);
    v_proj_weight_ = weight("v_proj_weight", embed_, vdim_);
  }
  in_proj_bias_ =
      parameter("in_proj_bias",
                options.bias ? Tensor::allocate({3 * embed_}, options.dtype, options.device) : Tensor());
  reset_parameters();
}

void MultiheadAttention::reset_parameters() {
  for (const Parameter* w : {&in_proj_weight_, &q_proj_weight_, &k_proj_weight_, &v_proj_weight_})
    if (w->defined()) init::xavier_uniform_(*w);
  out_proj_.reset_parameters();
  if (in_proj_bias_.defined()) {
    init::zeros_(in_proj_bias_);
    init::zeros_(out_proj_.bias());
  }
}

// The three projections, one product for those of the same input.
std::array<Tensor, 3> MultiheadAttention::project(const Tensor& query, const Tensor& key,
                                                  const Tensor& value) const {
  const auto bias = [&](std::int64_t first, std::int64_t parts) {
    return in_proj_bias_.defined() ? in_proj_bias_->narrow(0, first * embed_, parts * embed_) : Tensor();
  };
  if (!in_proj_weight_.defined())
    return {linear(query, q_proj_weight_, bias(0, 1)), linear(key, k_proj_weight_, bias(1, 1)),
            linear(value, v_proj_weight_, bias(2, 1))};
  const auto part = [&](const Tensor& x, std::int64_t first, std::int64_t parts) {
    return linear(x, in_proj_weight_->narrow(0, first * embed_, parts * embed_), bias(first, parts));
  };
  const auto parts_of = [&](const Tensor& packed, std::int64_t n) {  // n times [.., .., embed]
    return packed.view({packed.size(0), packed.size(1), n, embed_}).unbind(2);
  };
  if (!key.is_same(value)) return {part(query, 0, 1), part(key, 1, 1), part(value, 2, 1)};
  if (!query.is_same(key)) {
    const std::vector<Tensor> kv = parts_of(part(key, 1, 2), 2);
    return {part(query, 0, 1), kv[0], kv[1]};
  }
  const std::vector<Tensor> qkv = parts_of(linear(query, in_proj_weight_, in_proj_bias_), 3);
  return {qkv[0], qkv[1], qkv[2]};
}

std::array<Tensor, 2> MultiheadAttention::attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                                 const AttentionMasks& masks, bool weights) const {
  if (query.dim() == 2 && key.dim() == 2 && value.dim() == 2) {
    const int axis = batch_first_ ? 0 : 1;
    const Tensor q = query.unsqueeze(axis), k = key.is_same(query) ? q : key.unsqueeze(axis),
                 v = value.is_same(key) ? k : value.unsqueeze(axis);
    const auto [y, w] = attend(q, k, v, masks, weights);
    return {y.squeeze(axis), w.defined() ? w.squeeze(0) : w};
  }
  const int batch_axis = batch_first_ ? 0 : 1;
  const auto fits = [&](const Tensor& t, std::int64_t width) {
    return t.dim() == 3 && t.size(2) == width && t.size(batch_axis) == query.size(batch_axis);
  };
  CT_CHECK(fits(query, embed_) && fits(key, kdim_) && fits(value, vdim_) &&
               key.size(1 - batch_axis) == value.size(1 - batch_axis),
           ShapeError, kOp, "query is ", describe(query), ", key ", describe(key), ", value ",
           describe(value), "; they must be ",
           batch_first_ ? "[batch, length, width]" : "[length, batch, width]", " with widths ", embed_, ", ",
           kdim_, ", ", vdim_, ", one batch, and keys as long as values");
  const auto split_heads = [&](const Tensor& x) {  // -> [B, H, T, D]
    const Tensor y = x.reshape({x.size(0), x.size(1), heads_, embed_ / heads_});
    return batch_first_ ? y.transpose(1, 2) : y.permute({1, 2, 0, 3});
  };
  const auto [qx, kx, vx] = project(query, key, value);
  const Tensor q = split_heads(qx), k = split_heads(kx), v = split_heads(vx);
  const Tensor mask = merge(masks, q, k);
  const double dropout_p = is_training() ? dropout_ : 0;

  Tensor y, average;
  if (weights) {
    const double inf = std::numeric_limits<double>::infinity();
    const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
    Tensor all = mask;
    if (masks.is_causal) {
      const TensorOptions options{.dtype = i64, .device = q.device()};
      const Tensor seen = arange(k.size(2), options) <= arange(q.size(2), options).unsqueeze(1);
      all = !mask.defined()           ? seen
            : mask.dtype() == boolean ? logical_and(seen, mask)
                                      : where(seen, mask, -inf);
    }
    const Tensor scores = matmul(q, k.transpose(2, 3));
    const Tensor p = ct::dropout(
        all.defined() ? masked_softmax(scores, all, scale) : softmax(scores * scale, -1), dropout_p);
    y = matmul(p, v);
    average = mean(p, {1});
  } else {
    y = scaled_dot_product_attention(q, k, v,
                                     {.mask = mask, .causal = masks.is_causal, .dropout_p = dropout_p});
  }
  // [B, T, H, D] is how attention leaves its result. [T, B, H, D] is copied once, here, and not by each of
  // the products in which out_proj takes it.
  y = batch_first_ ? y.transpose(1, 2) : y.permute({2, 0, 1, 3}).contiguous();
  return {out_proj_(y.flatten(2)), average};
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMasks& masks) const {
  return attend(query, key, value, masks, false)[0];
}

std::array<Tensor, 2> MultiheadAttention::forward_with_weights(const Tensor& query, const Tensor& key,
                                                               const Tensor& value,
                                                               const AttentionMasks& masks) const {
  return attend(query, key, value, masks, true);
}

}  // namespace ct::nn
