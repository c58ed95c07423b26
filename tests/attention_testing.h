#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <cotangent/ops/attention/attention.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/dropout.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/softmax/softmax.h>

// Calls of attention, and of the ops that it is made of, for the tests of both.

namespace ct::testing::attention {

struct Sizes {
  std::int64_t batch, heads, kv_heads, queries, keys, dim;
};

struct Inputs {
  Tensor q, k, v;
  Inputs(const Sizes& s, DType dtype, std::uint64_t seed = 3) {
    Generator generator(seed);
    q = randn({s.batch, s.heads, s.queries, s.dim}, {.dtype = f64}, generator).to(dtype);
    k = randn({s.batch, s.kv_heads, s.keys, s.dim}, {.dtype = f64}, generator).to(dtype);
    v = randn({s.batch, s.kv_heads, s.keys, s.dim}, {.dtype = f64}, generator).to(dtype);
  }
};

// true where query i sees key j <= i + offset.
inline Tensor lower_triangle(std::int64_t queries, std::int64_t keys, std::int64_t offset) {
  const Tensor t = Tensor::allocate({queries, keys}, boolean, cpu);
  for (std::int64_t i = 0; i < queries; ++i)
    for (std::int64_t j = 0; j < keys; ++j) t.data<bool>()[i * keys + j] = j <= i + offset;
  return t;
}

// The same by other ops, with the whole matrix.
inline Tensor composite(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  const std::int64_t group = q.size(1) / k.size(1);
  const auto spread = [&](const Tensor& t) {
    const Shape s = t.shape();
    return t.unsqueeze(2).expand({s[0], s[1], group, s[2], s[3]}).reshape({s[0], s[1] * group, s[2], s[3]});
  };
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))));
  Tensor scores = matmul(q, spread(k).transpose(2, 3)) * scale;
  if (o.mask.defined())
    scores = o.mask.dtype() == boolean
                 ? where(o.mask, scores, Scalar(-std::numeric_limits<double>::infinity()))
                 : scores + o.mask;
  if (o.causal)
    scores = where(lower_triangle(q.size(2), k.size(2), o.causal_offset), scores,
                   Scalar(-std::numeric_limits<double>::infinity()));
  return matmul(dropout(softmax(scores, -1), o.dropout_p, true, o.generator), spread(v));
}

// Result and gradients of q, k, v and, if it wants one, the mask.
using Attend = std::function<Tensor(const Tensor&, const Tensor&, const Tensor&, const AttentionOptions&)>;
inline std::vector<Tensor> run(const Attend& attend, const Inputs& in, const AttentionOptions& o) {
  std::vector<Tensor> leaves{in.q.detach(), in.k.detach(), in.v.detach()};
  Tensor mask = o.mask.defined() ? o.mask.detach() : Tensor{};
  if (mask.defined() && is_floating(mask.dtype())) leaves.push_back(mask);
  for (Tensor& t : leaves) t.set_requires_grad();
  const AttentionOptions options{mask, o.causal, o.causal_offset, o.dropout_p, o.scale, o.generator};
  std::vector<Tensor> results{attend(leaves[0], leaves[1], leaves[2], options)};
  Generator generator(17);
  results[0].backward(
      randn(results[0].shape(), {.dtype = f64}, generator).to(results[0].device(), results[0].dtype()));
  for (const Tensor& t : leaves) results.push_back(t.grad());
  return results;
}

}  // namespace ct::testing::attention
