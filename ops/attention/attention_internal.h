#pragma once

#include <algorithm>
#include <cstdint>

#include <cotangent/core/base/philox.h>
#include <cotangent/core/op/op_def.h>

namespace ct::attention {

inline constexpr const char* kName = "scaled_dot_product_attention";

struct Attrs {
  double scale;
  double dropout_p;
  bool causal;
  std::int64_t causal_offset;
  GeneratorState draw;
};

/// Inputs: 0 q, 1 k, 2 v, 3 mask (may be undefined). Outputs: 0 the result, 1 log(sum(exp(scores))) per
/// query, [B, H, Tq] in f32 (f64 for f64); -inf for a query that sees nothing.

struct Extents {
  std::int64_t batch, heads, kv_heads, queries, keys, dim, value_dim;

  Extents(const Shape& q, const Shape& k, const Shape& v)
      : batch(q[0]), heads(q[1]), kv_heads(k[1]), queries(q[2]), keys(k[2]), dim(q[3]), value_dim(v[3]) {}
  /// Query heads per key head.
  std::int64_t group() const { return kv_heads > 0 ? heads / kv_heads : 1; }
};

/// The keys that query i sees are those below this number, as far as causality goes.
CT_HD inline std::int64_t causal_end(std::int64_t i, std::int64_t keys, bool causal, std::int64_t offset) {
  if (!causal) return keys;
  const std::int64_t end = i + offset + 1;
  return end < 0 ? 0 : end < keys ? end : keys;
}

/// Operands that the tensor cores' kernels can read: rows of whole 16-byte chunks of 16-bit elements.
inline bool in_chunks(const Tensor& x) {
  if (x.stride(3) != 1 || reinterpret_cast<std::uintptr_t>(x.raw_data()) % 16 != 0) return false;
  for (int axis = 0; axis < 3; ++axis)
    if (x.size(axis) > 1 && x.stride(axis) % 8 != 0) return false;
  return true;
}
/// Whether some kernel reads x in place, as it does views of a packed projection. The other kernels read any strides, but
/// more slowly than from a copy in chunks.
inline bool readable(const Tensor& x) {
  const bool for_tensor_cores = x.is_cuda() && is_low_precision(x.dtype()) && x.size(3) % 8 == 0;
  return !for_tensor_cores || in_chunks(x);
}

/// Dropped probabilities: those with philox_word(draw, element) < threshold; the others are
/// multiplied by `keep`.
struct DropRule {
  GeneratorState draw;
  std::uint64_t threshold;
  double keep;

  explicit DropRule(const Attrs& attrs)
      : draw(attrs.draw),
        threshold(bernoulli_threshold(attrs.dropout_p)),
        keep(attrs.dropout_p < 1 ? 1 / (1 - attrs.dropout_p) : 0) {}
};

}  // namespace ct::attention
