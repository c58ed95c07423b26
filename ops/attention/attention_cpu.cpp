#include <cmath>
#include <limits>
#include <vector>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/parallel.h>
#include <cotangent/ops/attention/attention_kernels.h>
#include <cotangent/ops/copy/copy_kernels.h>

namespace ct::attention {
namespace {

// One row of scores at a time.
template <class C>
struct Rows {
  Extents e;
  Attrs attrs;
  DropRule rule;
  Tensor q, k, v, mask;
  const C *qs, *ks, *vs, *masks = nullptr;
  Strides mask_strides{0, 0, 0, 0};
  bool additive = false;

  Rows(const Tensor& q_, const Tensor& k_, const Tensor& v_, const Tensor& mask_, const Attrs& attrs)
      : e(q_.shape(), k_.shape(), v_.shape()),
        attrs(attrs),
        rule(attrs),
        q(packed(q_, dtype_of<C>)),
        k(packed(k_, dtype_of<C>)),
        v(packed(v_, dtype_of<C>)),
        qs(q.data<C>()),
        ks(k.data<C>()),
        vs(v.data<C>()) {
    if (!mask_.defined()) return;
    additive = is_floating(mask_.dtype());
    mask = packed(mask_, dtype_of<C>);
    masks = mask.data<C>();
    mask_strides = broadcast_strides(mask.shape(), mask.strides(), {e.batch, e.heads, e.queries, e.keys});
  }
  std::int64_t mask_at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return b * mask_strides[0] + h * mask_strides[1] + i * mask_strides[2] + j * mask_strides[3];
  }
  void scores(std::int64_t row, std::int64_t kv, C* s) const {
    const std::int64_t i = row % e.queries, h = row / e.queries % e.heads, b = row / e.queries / e.heads;
    const std::int64_t end = causal_end(i, e.keys, attrs.causal, attrs.causal_offset);
    for (std::int64_t j = 0; j < e.keys; ++j) {
      s[j] = -std::numeric_limits<C>::infinity();
      if (j >= end) continue;
      C dot = 0;
      for (std::int64_t d = 0; d < e.dim; ++d) dot += qs[row * e.dim + d] * ks[(kv * e.keys + j) * e.dim + d];
      dot *= static_cast<C>(attrs.scale);
      if (masks == nullptr) {
        s[j] = dot;
      } else {
        const C m = masks[mask_at(b, h, i, j)];
        if (additive)
          s[j] = dot + m;
        else if (m != 0)
          s[j] = dot;
      }
    }
  }
  C kept(std::int64_t row, std::int64_t j) const {
    if (rule.threshold == 0) return 1;
    return philox_word(rule.draw, static_cast<std::uint64_t>(row * e.keys + j)) < rule.threshold
               ? C(0)
               : static_cast<C>(rule.keep);
  }
};

template <class C>
void forward(const Forward& f) {
  const Rows<C> rows(f.in(0), f.in(1), f.in(2), f.in(3), f.attrs<Attrs>());
  const Extents& e = rows.e;
  const Tensor out = Tensor::allocate(f.out(0).shape(), dtype_of<C>, cpu);
  C* y = out.data<C>();
  C* lse = f.out(1).data<C>();
  parallel_for(e.batch * e.heads * e.queries, 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> s(static_cast<std::size_t>(e.keys));
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t kv = row / e.queries / e.heads * e.kv_heads + row / e.queries % e.heads / e.group();
      rows.scores(row, kv, s.data());
      C max = -std::numeric_limits<C>::infinity(), sum = 0;
      for (const C x : s) max = !(x <= max) ? x : max;
      std::fill_n(y + row * e.value_dim, e.value_dim, C(0));
      lse[row] = max;
      if (max == -std::numeric_limits<C>::infinity()) continue;
      for (C& x : s) sum += x = std::exp(x - max);
      lse[row] = max + std::log(sum);
      for (std::int64_t j = 0; j < e.keys; ++j) {
        const C p = s[static_cast<std::size_t>(j)] / sum * rows.kept(row, j);
        for (std::int64_t d = 0; d < e.value_dim; ++d)
          y[row * e.value_dim + d] += p * rows.vs[(kv * e.keys + j) * e.value_dim + d];
      }
    }
  });
  copy_kernel(f.out(0), out);
}

template <class C>
void backward(const Backward& b) {
  const Rows<C> rows(b.in(0), b.in(1), b.in(2), b.saved_inputs[3], b.attrs<Attrs>());
  const Extents& e = rows.e;
  const Tensor grad = packed(b.grad(), dtype_of<C>), out = packed(b.out(0), dtype_of<C>);
  const C *g = grad.data<C>(), *y = out.data<C>(), *lse = b.out(1).data<C>();
  const auto zeros = [](const Tensor& like) {
    Tensor t = Tensor::allocate(like.shape(), dtype_of<C>, cpu);
    fill_kernel(t, 0);
    return t;
  };
  const Tensor dq = zeros(rows.q), dk = zeros(rows.k), dv = zeros(rows.v);
  const bool wants_mask = b.needs(3);
  const Tensor dm = wants_mask ? zeros(rows.mask) : Tensor{};
  C *dqs = dq.data<C>(), *dks = dk.data<C>(), *dvs = dv.data<C>();
  C* dms = wants_mask ? dm.data<C>() : nullptr;
  // The mask's gradient sums over heads: then all is done by one thread.
  const std::int64_t work = e.batch * e.kv_heads;
  parallel_for(work, wants_mask ? work : 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> s(static_cast<std::size_t>(e.keys));
    for (std::int64_t kv = begin; kv < end; ++kv)
      for (std::int64_t r = 0; r < e.group() * e.queries; ++r) {
        const std::int64_t row = kv * e.group() * e.queries + r;
        const std::int64_t i = row % e.queries, h = row / e.queries % e.heads,
                           batch = row / e.queries / e.heads;
        rows.scores(row, kv, s.data());
        C delta = 0;
        for (std::int64_t d = 0; d < e.value_dim; ++d)
          delta += g[row * e.value_dim + d] * y[row * e.value_dim + d];
        for (std::int64_t j = 0; j < e.keys; ++j) {
          const C x = s[static_cast<std::size_t>(j)];
          if (x == -std::numeric_limits<C>::infinity()) continue;
          const C p = std::exp(x - lse[row]), kept = rows.kept(row, j);
          C dp = 0;
          const std::int64_t key = kv * e.keys + j;
          for (std::int64_t d = 0; d < e.value_dim; ++d) {
            dvs[key * e.value_dim + d] += p * kept * g[row * e.value_dim + d];
            dp += g[row * e.value_dim + d] * rows.vs[key * e.value_dim + d];
          }
          const C ds = p * (dp * kept - delta);
          if (wants_mask) dms[rows.mask_at(batch, h, i, j)] += ds;
          const C scaled = ds * static_cast<C>(rows.attrs.scale);
          for (std::int64_t d = 0; d < e.dim; ++d) {
            dqs[row * e.dim + d] += scaled * rows.ks[key * e.dim + d];
            dks[key * e.dim + d] += scaled * rows.qs[row * e.dim + d];
          }
        }
      }
  });
  const Tensor* results[] = {&dq, &dk, &dv, &dm};
  for (int i = 0; i < 4; ++i)
    if (b.needs(i)) copy_kernel(b.grad_in(i), *results[i]);
}

}  // namespace

void forward_cpu(const Forward& f) {
  NoGrad guard;
  f.in(0).dtype() == f64 ? forward<double>(f) : forward<float>(f);
}

void backward_cpu(const Backward& b) {
  NoGrad guard;
  b.in(0).dtype() == f64 ? backward<double>(b) : backward<float>(b);
}

}  // namespace ct::attention
