#include <algorithm>

#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/attention/attention_internal.h>
#include <cotangent/ops/attention/attention_plain.h>
#include <cotangent/ops/engine/fold/broadcast_grad.h>
#include <cotangent/ops/engine/walk/copy.h>

// The plain kernels: every head by attention_plain.h, some of its queries at a time, so that no whole matrix of scores is
// kept.

namespace ct::attention {
namespace {

using namespace plain;

/// Queries at a time: their scores stay in the cache.
std::int64_t queries_of(const Extents& e) {
  return std::clamp<std::int64_t>(8192 / std::max<std::int64_t>(1, e.keys), 1, 64);
}
constexpr double kHidden = -std::numeric_limits<double>::infinity();

// Rows [first, first + count) of head h of batch b.
MutableMatrix rows(const Tensor& t, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count) {
  const Strides& s = t.strides();
  return matrix(t, b * s[0] + h * s[1] + first * s[2], count, t.shape()[3], s[2], s[3]);
}
ConstMatrix read(const Tensor& t, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count) {
  return plain::read(rows(t, b, h, first, count));
}

// Inputs of the scores besides q and k.
class Call {
 public:
  const Extents e;
  const Attrs& attrs;
  Strides mask_strides{0, 0, 0, 0};

  Call(const Extents& e, const Attrs& attrs, const Tensor& mask) : e(e), attrs(attrs), rule_(attrs) {
    rule_.draw = rule_.draw.now();
    if (!mask.defined()) return;
    hides_ = mask.dtype() == DType::boolean;
    mask_ = converted(mask, f64);
    mask_strides = broadcast_strides(mask_.shape(), mask_.strides(), {e.batch, e.heads, e.queries, e.keys});
  }
  /// Keys that some query of [first, first + count) sees, as far as causality goes, and one at least.
  std::int64_t keys(std::int64_t first, std::int64_t count) const {
    const std::int64_t last = first + count - 1;
    return std::max<std::int64_t>(1, causal_end(last, e.keys, attrs.causal, attrs.causal_offset));
  }
  std::int64_t mask_at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const Strides& s = mask_strides;
    return b * s[0] + h * s[1] + i * s[2] + j * s[3];
  }

  /// Addend of the scores of queries [first, first + count): the mask, and -inf for hidden keys.
  Matrix mask(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count) const {
    Matrix added = Matrix::Zero(count, keys(first, count));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t end = causal_end(first + i, e.keys, attrs.causal, attrs.causal_offset);
      for (std::int64_t j = end; j < added.cols(); ++j) added(i, j) = kHidden;
      if (!mask_.defined()) continue;
      const double* const x = mask_.data<double>() + mask_at(b, h, first + i, 0);
      for (std::int64_t j = 0; j < end; ++j) {
        const double m = x[j * mask_strides[3]];
        added(i, j) = !hides_ ? m : m == 0 ? kHidden : 0;
      }
    }
    return added;
  }
  /// Dropout's factors: 0, or 1 / (1 - p).
  Matrix kept(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count) const {
    Matrix m = Matrix::Ones(count, keys(first, count));
    if (rule_.threshold == 0) return m;
    const std::int64_t row = (b * e.heads + h) * e.queries + first;
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t j = 0; j < m.cols(); ++j) {
        const auto element = static_cast<std::uint64_t>((row + i) * e.keys + j);
        m(i, j) = philox_word(rule_.draw, element) < rule_.threshold ? 0 : rule_.keep;
      }
    return m;
  }

 private:
  DropRule rule_;
  Tensor mask_;
  bool hides_ = false;
};

void forward_plain(const Forward& f) {
  const Extents e(f.in(0).shape(), f.in(1).shape(), f.in(2).shape());
  if (e.keys == 0) {
    fill_kernel(f.out(0), 0);
    return fill_kernel(f.out(1), kHidden);
  }
  const Call call(e, f.attrs<Attrs>(), f.in(3));
  const Tensor &q = f.in(0), &k = f.in(1), &v = f.in(2);
  const std::int64_t step = queries_of(e), blocks = (e.queries + step - 1) / step;
  parallel_for(e.batch * e.heads * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t head = t / blocks, b = head / e.heads, h = head % e.heads, kv = h / e.group();
      const std::int64_t i = t % blocks * step, n = std::min(step, e.queries - i), keys = call.keys(i, n);
      Matrix statistics;
      const Matrix p = probabilities(read(q, b, h, i, n), read(k, b, kv, 0, keys), call.mask(b, h, i, n),
                                     call.attrs.scale, statistics);
      rows(f.out(0), b, h, i, n) = plain::attention(p, call.kept(b, h, i, n), read(v, b, kv, 0, keys));
      std::copy_n(statistics.data(), 2 * n, f.out(1).data<double>() + 2 * (head * e.queries + i));
    }
  });
}

void backward_plain(const Backward& b) {
  const Extents e(b.in_meta(0).shape, b.in_meta(1).shape, b.in_meta(2).shape);
  const Call call(e, b.attrs<Attrs>(), b.saved_inputs[3]);
  const Tensor &queries = b.in(0), &keys = b.in(1), &values = b.in(2), &cotangent = b.grad();
  for (int i = 0; i < 3; ++i)
    if (b.needs(i)) fill_kernel(b.grad_in(i), 0);
  const Tensor dmask = b.needs(3) ? whole_grad(b, 3, b.in_meta(3).shape, f64) : Tensor{};
  if (b.needs(3)) fill_kernel(dmask, 0);
  // A key head hears of all queries of its group, a mask perhaps of all heads: one thread for each sum.
  const std::int64_t step = queries_of(e),
                     key_heads = e.keys == 0 || e.queries == 0 ? 0 : e.batch * e.kv_heads;
  parallel_for(
      key_heads, b.needs(3) ? std::max<std::int64_t>(1, key_heads) : 1,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
          const std::int64_t n = t / e.kv_heads, kv = t % e.kv_heads;
          for (std::int64_t h = kv * e.group(); h < (kv + 1) * e.group(); ++h)
            for (std::int64_t i = 0; i < e.queries; i += step) {
              const std::int64_t count = std::min(step, e.queries - i), seen = call.keys(i, count);
              const ConstMatrix k = read(keys, n, kv, 0, seen), v = read(values, n, kv, 0, seen);
              const ConstMatrix q = read(queries, n, h, i, count), g = read(cotangent, n, h, i, count);
              const Matrix m = call.kept(n, h, i, count);
              Matrix statistics;
              const Matrix p = probabilities(q, k, call.mask(n, h, i, count), call.attrs.scale, statistics);
              if (b.needs(2)) rows(b.grad_in(2), n, kv, 0, seen) += value_gradient(p, m, g);
              if (!b.needs(0) && !b.needs(1) && !b.needs(3)) continue;
              const Matrix ds = score_gradient(p, m, g, v);
              if (b.needs(0)) rows(b.grad_in(0), n, h, i, count) = query_gradient(ds, k, call.attrs.scale);
              if (b.needs(1)) rows(b.grad_in(1), n, kv, 0, seen) += key_gradient(ds, q, call.attrs.scale);
              if (!b.needs(3)) continue;
              for (std::int64_t r = 0; r < count; ++r) {
                double* const dm = dmask.data<double>() + call.mask_at(n, h, i + r, 0);
                for (std::int64_t j = 0; j < seen; ++j) dm[j * call.mask_strides[3]] += ds(r, j);
              }
            }
        }
      });
  if (b.needs(3)) set_summed_grad(b, 3, dmask);
}

}  // namespace
}  // namespace ct::attention

CT_KERNELS(plain, attention, {attention::kName, attention::forward_plain, attention::backward_plain})
