#include <cotangent/ops/attention/attention.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/attention/attention_internal.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/dropout.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/engine/random/with_draw.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/rules_internal.h>
#include <cotangent/ops/softmax/softmax.h>

namespace ct {
CT_KERNEL_TABLES(attention)
namespace {

using attention::Attrs;
using attention::Extents;
using attention::kName;

constexpr double kInf = std::numeric_limits<double>::infinity();

void infer(Infer& in) {
  const Tensor &q = in.in(0), &k = in.in(1), &v = in.in(2), &mask = in.in(3);
  const Attrs& attrs = in.attrs<Attrs>();
  CT_CHECK(q.dim() == 4, ShapeError, kName, "q is ", describe(q),
           "; it must be [batch, heads, queries, dim]");
  CT_CHECK(k.dim() == 4, ShapeError, kName, "k is ", describe(k), "; it must be [batch, heads, keys, dim]");
  CT_CHECK(v.dim() == 4, ShapeError, kName, "v is ", describe(v), "; it must be [batch, heads, keys, dim]");
  CT_CHECK(k.size(0) == q.size(0) && v.size(0) == q.size(0), ShapeError, kName, "q is ", describe(q),
           ", k is ", describe(k), ", v is ", describe(v), "; their batch sizes must be equal");
  CT_CHECK(v.size(1) == k.size(1) && v.size(2) == k.size(2), ShapeError, kName, "k is ", describe(k),
           ", v is ", describe(v), "; they must have as many heads and keys");
  CT_CHECK(k.size(3) == q.size(3), ShapeError, kName, "q is ", describe(q), ", k is ", describe(k),
           "; q.size(-1) must equal k.size(-1)");
  CT_CHECK(k.size(1) == q.size(1) || (k.size(1) > 0 && q.size(1) % k.size(1) == 0), ShapeError, kName,
           "q has ", q.size(1), " heads and k has ", k.size(1),
           "; the heads of q must be a multiple of those of k, each of which then serves a group");
  if (mask.defined()) {
    CT_CHECK(mask.dtype() == DType::boolean || is_floating(mask.dtype()), DTypeError, kName, "the mask is ",
             describe(mask), "; it must be bool (true: seen) or floating (added to the scores)");
    const Shape scores{q.size(0), q.size(1), q.size(2), k.size(2)};
    bool fits = mask.dim() <= 4;
    for (int i = 1; fits && i <= mask.dim(); ++i) fits = mask.size(-i) == 1 || mask.size(-i) == scores[4 - i];
    CT_CHECK(fits, ShapeError, kName, "the mask is ", describe(mask), ", the scores are ", scores,
             "; the mask must broadcast to them");
  }
  CT_CHECK(attrs.dropout_p >= 0 && attrs.dropout_p <= 1, ValueError, kName, "dropout_p is ", attrs.dropout_p,
           "; it must lie in [0, 1]");
  CT_CHECK(std::isfinite(attrs.scale), ValueError, kName, "scale is ", attrs.scale, "; it must be finite");
  // In the order in which the next projection takes the heads side by side: [batch, queries, heads, dim].
  const std::int64_t row = v.size(3), position = q.size(1) * row;
  in.output_strided({q.size(0), q.size(1), q.size(2), row}, {q.size(2) * position, row, position, 1});
  in.output({q.size(0), q.size(1), q.size(2), 2}, accumulate_type(q.dtype()));
}

// Size of a full matrix of scores, or of its lower half where causality leaves only that.
Cost cost(std::span<const TensorMeta> in, std::span<const TensorMeta>, AttrsView attrs) {
  const Extents e(in[0].shape, in[1].shape, in[2].shape);
  const double scores = static_cast<double>(e.batch * e.heads * e.queries) * static_cast<double>(e.keys);
  const bool half = static_cast<const Attrs*>(attrs.data)->causal && e.queries > 1;
  return {.flops = (half ? 1 : 2) * scores * static_cast<double>(e.dim + e.value_dim)};
}

// Through the whole matrix of probabilities p, with d = p after dropout and s the scores:
// dv = d^T g, dd = g v^T, ds_ij = p_ij (dp_ij - sum_j p_ij dp_ij), dq = scale ds k, dk = scale ds^T q. Heads
// of k and v that serve a group get the sum over it.
void rule(const Backward& b) {
  const Attrs& attrs = b.attrs<Attrs>();
  const Extents e(b.in_meta(0).shape, b.in_meta(1).shape, b.in_meta(2).shape);
  const auto each_head = [&](const Tensor& t) {  // [B, Hkv, T, D] to [B, H, T, D]
    if (e.group() == 1) return t;
    return t.unsqueeze(2)
        .expand({-1, -1, e.group(), -1, -1})
        .reshape({e.batch, e.heads, t.size(2), t.size(3)});
  };
  const auto shared = [&](const Tensor& t) {  // and back
    if (e.group() == 1) return t;
    return sum(t.reshape({e.batch, e.kv_heads, e.group(), t.size(2), t.size(3)}), {2});
  };
  const Tensor &q = b.in(0), &g = b.grad(), &mask = b.saved_inputs[3];
  const Tensor k = each_head(b.in(1)), v = each_head(b.in(2));
  Tensor s = matmul(q, k.transpose(-1, -2)) * attrs.scale;
  // A hidden score is -inf even where k is NaN.
  if (mask.defined())
    s = is_floating(mask.dtype()) ? where(eq(mask, -kInf), -kInf, s + mask.to(s.dtype()))
                                  : where(mask, s, -kInf);
  if (attrs.causal) {
    const Tensor i = arange(e.queries, {.device = q.device()}).unsqueeze(-1);
    s = where(le(arange(e.keys, {.device = q.device()}), i + attrs.causal_offset), s, -kInf);
  }
  // A query that sees nothing has probabilities of 0.
  const Tensor seen = ne(s, -kInf);  // so is a NaN
  const Tensor p = where(seen, softmax(where(any(seen, {-1}, true), s, 0), -1), 0);
  const auto drop = [&](const Tensor& t) {
    return attrs.dropout_p > 0 ? dropout(t, attrs.dropout_p, attrs.draw) : t;
  };
  if (b.needs(2)) b.set_grad_in(2, shared(matmul(drop(p).transpose(-1, -2), g)));
  const Tensor dp = drop(matmul(g, v.transpose(-1, -2)));
  const Tensor ds = p * (dp - sum(p * dp, {-1}, true));
  if (b.needs(0)) b.set_grad_in(0, matmul(ds, k) * attrs.scale);
  if (b.needs(1)) b.set_grad_in(1, shared(matmul(ds.transpose(-1, -2), q)) * attrs.scale);
  if (b.needs(3)) b.set_grad_in(3, rules::unbroadcast(ds, b.in_meta(3).shape).to(b.in_meta(3).dtype));
}

// q, k and v are all that is kept besides the result and two numbers per query: probabilities are computed
// again.
constexpr const char* kAll = "q k v mask y statistics";
constexpr InputDef kInputs[] = {
    {.name = "q", .needs = kAll, .contiguous = true, .readable = attention::readable},
    {.name = "k", .needs = kAll, .contiguous = true, .readable = attention::readable},
    {.name = "v", .needs = kAll, .contiguous = true, .readable = attention::readable},
    {.name = "mask", .needs = kAll, .optional = true, .any_dtype = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true, .readable = attention::readable},
                                  {.name = "statistics", .gradient = false}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, scale), CT_ATTRIBUTE(Attrs, dropout_p),
                                   CT_ATTRIBUTE(Attrs, causal), CT_ATTRIBUTE(Attrs, causal_offset),
                                   CT_ATTRIBUTE(Attrs, draw)};

constexpr OpDef k_attention = checked({
    .name = attention::kName,
    .formula = "y = softmax(scale q k^T + mask) v",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = infer,
    .kernels = &kernel_tables::attention,
    .rule = rule,
    .autocast = AutocastPolicy::lower,
    .cost = cost,
});

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  Attrs attrs{1, options.dropout_p, options.causal, options.causal_offset, {}};
  if (options.scale) {
    attrs.scale = *options.scale;
  } else if (q.defined() && q.dim() == 4 && q.size(3) > 0) {
    attrs.scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  }
  // Offsets beyond all positions mean the same as the nearest of these, and can be added to.
  if (q.defined() && k.defined() && q.dim() == 4 && k.dim() == 4)
    attrs.causal_offset = std::clamp(options.causal_offset, -q.size(2), k.size(2));
  const auto run = [&](const GeneratorState& draw) {
    attrs.draw = draw;
    return dispatch(k_attention, {q, k, v, options.mask}, attrs);
  };
  return options.dropout_p > 0 ? with_draw(options.generator, run) : run({});
}

CT_ROOM(attention, &k_attention)
}  // namespace ct
