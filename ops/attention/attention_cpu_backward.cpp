#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/attention/attention_cpu.h>
#include <cotangent/ops/engine/fold/broadcast_grad.h>
#include <cotangent/ops/engine/gemm/plan_cpu.h>
#include <cotangent/ops/engine/walk/copy.h>

// Attention on the CPU, backward: a task is a key head, or a share of its keys where there are few heads. It
// takes the blocks of queries one by one and the keys in blocks of each, finds the probabilities again, and
// adds to dk and dv, which no other task touches. dq of a block is complete after its keys; where several tasks
// share a head, each has a dq of its own, and those are added up at the end in the order of the keys.

namespace ct::attention {
namespace {

constexpr std::int64_t kTasks = 16;        // as many are wanted
constexpr std::int64_t kFewestKeys = 256;  // of a task, if there are more

struct Backwards : Scores {
  Operand q, k, v, out, grad;
  const C* statistics;
  using Scores::e;

  explicit Backwards(const Backward& b)
      : Scores(Extents(b.in(0).shape(), b.in(1).shape(), b.in(2).shape()), b.attrs<Attrs>(),
               b.saved_inputs[3]),
        q(b.in(0)),
        k(b.in(1)),
        v(b.in(2)),
        out(b.out(0)),
        grad(b.grad()),
        statistics(b.out(1).data<C>()) {}
};

// A block of queries of one head, as the products want it, and of the keys that it meets.
class Block {
 public:
  const std::int64_t stride, v_stride;
  Matrix q{}, grad{};  // rows
  std::int64_t count = 0, lanes = 0;
  C* const s;   // probabilities after dropout, [n, kQueries]
  C* const ds;  // the gradient of the scores, alike

  static std::int64_t size(const Extents& e) {
    return kQueries * (3 * padded(e.dim) + 4 * padded(e.value_dim) + 3) + 3 * kKeys * kQueries + 64;
  }
  Block(const Backwards& f, Pieces& pieces)
      : stride(padded(f.e.dim)),
        v_stride(padded(f.e.value_dim)),
        s(pieces.take(kKeys * kQueries)),
        ds(pieces.take(kKeys * kQueries)),
        f_(f),
        q_rows_(pieces.take(kQueries * stride)),
        grad_rows_(pieces.take(kQueries * v_stride)),
        out_rows_(pieces.take(kQueries * v_stride)),
        qt_(pieces.take(kQueries * stride)),
        gt_(pieces.take(kQueries * v_stride)),
        tile_(pieces.take(kKeys * kQueries)),
        max_(pieces.take(kQueries)),
        log_sum_(pieces.take(kQueries)),
        delta_(pieces.take(kQueries)) {}

  void begin(std::int64_t b, std::int64_t h, std::int64_t first) {
    const Extents& e = f_.e;
    b_ = b, h_ = h, first_ = first;
    count = std::min<std::int64_t>(kQueries, e.queries - first);
    lanes = round_up(count, simd::FixedVector<C>::kSize);
    q = rows_of(f_.q, b, h, first, count, q_rows_);
    grad = rows_of(f_.grad, b, h, first, count, grad_rows_);
    const Matrix out = rows_of(f_.out, b, h, first, count, out_rows_);
    if (count < lanes) {
      for (std::int64_t d = 0; d < e.dim; ++d) std::fill_n(qt_ + d * kQueries, lanes, C(0));
      for (std::int64_t d = 0; d < e.value_dim; ++d) std::fill_n(gt_ + d * kQueries, lanes, C(0));
    }
    transpose_rows(q, count, e.dim, static_cast<C>(f_.attrs.scale), qt_);
    transpose_rows(grad, count, e.value_dim, C(1), gt_);
    std::fill_n(max_, kQueries, C(0));
    std::fill_n(log_sum_, kQueries, C(0));
    std::fill_n(delta_, kQueries, C(0));
    const C* statistics = f_.statistics + 2 * ((b * e.heads + h) * e.queries + first);
    for (std::int64_t i = 0; i < count; ++i) {
      // A query that saw nothing: exp(-inf - inf) = 0.
      max_[i] = statistics[2 * i] == kMinusInf ? -kMinusInf : statistics[2 * i];
      log_sum_[i] = statistics[2 * i + 1];
      delta_[i] = dot(grad.data + i * grad.stride, out.data + i * out.stride, e.value_dim);
    }
    diagonal_ = f_.attrs.causal ? first + f_.attrs.causal_offset : e.keys;
  }

  /// The keys seen by the last query, and so by any.
  std::int64_t end() const { return f_.end(first_ + count - 1); }

  /// The probabilities of n keys from j0 on, and with `gradients` also those of the scores, times `factor`.
  void meet(std::int64_t j0, std::int64_t n, const Matrix& k, const Matrix& v, bool gradients, C factor) {
    using V = simd::FixedVector<C>;
    const Extents& e = f_.e;
    j0_ = j0, n_ = n;
    const auto lanes_of = [&](std::int64_t key, std::int64_t) { return Range{skipped(key), lanes}; };
    product<true>(n, k.data, k.stride, qt_, kQueries, false, s, kQueries, lanes_of, all(e.dim));
    if (gradients)
      product<true>(n, v.data, v.stride, gt_, kQueries, false, ds, kQueries, lanes_of, all(e.value_dim));
    const auto query = [&](std::int64_t lane) { return Query{h_, first_ + lane}; };
    f_.hide(b_, j0, n, count, query, s, tile_);
    const bool drops = f_.drops();
    if (drops) f_.kept(b_, j0, n, count, query, tile_);
    for (std::int64_t lane = 0; lane < lanes; lane += V::kSize) {
      const auto max = V::load(max_ + lane), log_sum = V::load(log_sum_ + lane),
                 delta = V::load(delta_ + lane);
      const std::int64_t seen =
          std::clamp<std::int64_t>(diagonal_ + lane + V::kSize - j0, 0, n);  // by any of these
      for (std::int64_t j = seen; j < n; ++j) {
        V(C(0)).store(s + j * kQueries + lane);
        if (gradients) V(C(0)).store(ds + j * kQueries + lane);
      }
      for (std::int64_t j = 0; j < seen; ++j) {
        const std::int64_t at = j * kQueries + lane;
        // One after the other: a sum of the two would lose the logarithm where scores are large.
        const V p = exp_nonpositive(V::load(s + at) - max - log_sum);
        const V kept = drops ? V::load(tile_ + at) : V(C(1));
        if (gradients) {
          const V dp = p * (V::load(ds + at) * kept - delta) * factor;
          where(p == C(0), 0, dp).store(ds + at);  // where nothing was computed, too
        }
        (p * kept).store(s + at);
      }
    }
  }
  /// The queries that count for the keys from `key` of the block on: a range for sums over queries.
  Range queries_of(std::int64_t key) const { return {std::min(skipped(key), count), count}; }
  /// The keys of the block that query `row` and those before it see.
  Range keys_of(std::int64_t row) const {
    return {0, std::clamp<std::int64_t>(diagonal_ + row + 1 - j0_, 0, n_)};
  }

 private:
  // The lanes before this one do not see the key; whole vectors.
  std::int64_t skipped(std::int64_t key) const {
    return std::clamp<std::int64_t>(j0_ + key - diagonal_, 0, lanes) / simd::FixedVector<C>::kSize *
           simd::FixedVector<C>::kSize;
  }

  const Backwards& f_;
  C *const q_rows_, *const grad_rows_,
                        *const out_rows_,
                            *const qt_, *const gt_, *const tile_, *const max_, *const log_sum_, *const delta_;
  std::int64_t b_ = 0, h_ = 0, first_ = 0, j0_ = 0, n_ = 0, diagonal_ = 0;
};

// Where the gradients of q, k and v are gathered: in the results themselves if those are of type C.
struct Sums {
  Tensor dq, dk, dv;  // undefined where not wanted; dq is [shares, B, H, Tq, D] where keys are shared out
};

void gather(const Backwards& f, const Sums& sums, std::int64_t b, std::int64_t kv, std::int64_t share,
            std::int64_t key_begin, std::int64_t key_end) {
  const Extents& e = f.e;
  const std::int64_t keys = key_end - key_begin, stride = padded(e.dim), v_stride = padded(e.value_dim);
  Pieces pieces(0, Block::size(e) + kQueries * stride);
  Block block(f, pieces);
  Pieces key_pieces(1, (f.k.direct ? 0 : keys * stride) + (f.v.direct ? 0 : keys * v_stride) + 16);
  C* const k_buffer = key_pieces.take(f.k.direct ? 0 : keys * stride);
  C* const v_buffer = key_pieces.take(f.v.direct ? 0 : keys * v_stride);
  const Matrix k = rows_of(f.k, b, kv, key_begin, keys, k_buffer);
  const Matrix v = rows_of(f.v, b, kv, key_begin, keys, v_buffer);
  const std::int64_t first_row = (b * e.kv_heads + kv) * e.keys + key_begin;
  C* const dk = sums.dk.defined() ? sums.dk.data<C>() + first_row * e.dim : nullptr;
  C* const dv = sums.dv.defined() ? sums.dv.data<C>() + first_row * e.value_dim : nullptr;
  if (dk != nullptr) std::fill_n(dk, keys * e.dim, C(0));
  if (dv != nullptr) std::fill_n(dv, keys * e.value_dim, C(0));
  const bool gradients = dk != nullptr || sums.dq.defined();

  for (std::int64_t h = kv * e.group(); h < (kv + 1) * e.group(); ++h)
    for (std::int64_t first = 0; first < e.queries; first += kQueries) {
      C* dq = nullptr;
      const std::int64_t count = std::min<std::int64_t>(kQueries, e.queries - first);
      if (sums.dq.defined()) {
        dq = sums.dq.data<C>() + (((share * e.batch + b) * e.heads + h) * e.queries + first) * e.dim;
        std::fill_n(dq, count * e.dim, C(0));
      }
      const std::int64_t end = std::min(f.end(first + count - 1), key_end);
      if (end <= key_begin) continue;
      block.begin(b, h, first);
      for (std::int64_t j0 = key_begin; j0 < end; j0 += kKeys) {
        const std::int64_t n = std::min<std::int64_t>(kKeys, end - j0), at = j0 - key_begin;
        const Matrix ks{k.data + at * k.stride, k.stride}, vs{v.data + at * v.stride, v.stride};
        block.meet(j0, n, ks, vs, gradients, static_cast<C>(f.attrs.scale));
        const auto queries_of = [&](std::int64_t key, std::int64_t) { return block.queries_of(key); };
        const auto keys_of = [&](std::int64_t, std::int64_t row) { return block.keys_of(row); };
        if (dv != nullptr)
          product<true>(n, block.s, kQueries, block.grad.data, block.grad.stride, true, dv + at * e.value_dim,
                        e.value_dim, all(e.value_dim), queries_of);
        if (dk != nullptr)
          product<true>(n, block.ds, kQueries, block.q.data, block.q.stride, true, dk + at * e.dim, e.dim,
                        all(e.dim), queries_of);
        if (dq != nullptr)
          product<false>(count, block.ds, kQueries, ks.data, ks.stride, true, dq, e.dim, all(e.dim), keys_of);
      }
    }
}

void query_key_value(const Backward& call, const Backwards& f) {
  const Extents& e = f.e;
  const std::int64_t heads = e.batch * e.kv_heads;
  const std::int64_t shares = std::clamp<std::int64_t>(heads > 0 ? (kTasks + heads - 1) / heads : 1, 1,
                                                       std::max<std::int64_t>(e.keys / kFewestKeys, 1));
  const std::int64_t share_keys = round_up((e.keys + shares - 1) / shares, kKeys);
  const auto place = [&](int i) {
    if (!call.needs(i)) return Tensor{};
    const TensorMeta& meta = call.in_meta(i);
    if (i == 0 && shares > 1) {
      Shape shape = meta.shape;
      shape.insert(0, shares);
      return Tensor::allocate(shape, dtype_of<C>, cpu);
    }
    return meta.dtype == dtype_of<C> ? call.grad_in(i) : Tensor::allocate(meta.shape, dtype_of<C>, cpu);
  };
  const Sums sums{place(0), place(1), place(2)};
  if (e.keys == 0 && sums.dq.defined()) fill_kernel(sums.dq, 0);
  const double macs = 5 * static_cast<double>(e.group() * e.queries) * static_cast<double>(e.dim) *
                      static_cast<double>(std::min(share_keys, e.keys));
  if (e.keys > 0)
    parallel_for(heads * shares, gemm::grain_of(macs), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t share = t % shares, head = t / shares;
        const std::int64_t from = std::min(share * share_keys, e.keys),
                           to = std::min(from + share_keys, e.keys);
        gather(f, sums, head / e.kv_heads, head % e.kv_heads, share, from, to);
      }
    });
  if (sums.dq.defined() && shares > 1) {
    const std::int64_t n = e.batch * e.heads * e.queries * e.dim;
    C* const data = sums.dq.data<C>();
    parallel_for(n, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t s = 1; s < shares; ++s)
        for (std::int64_t i = begin; i < end; ++i) data[i] += data[s * n + i];
    });
    copy_kernel(call.grad_in(0), sums.dq.select(0, 0));
  } else if (sums.dq.defined() && call.in_meta(0).dtype != dtype_of<C>) {
    copy_kernel(call.grad_in(0), sums.dq);
  }
  if (sums.dk.defined() && call.in_meta(1).dtype != dtype_of<C>) copy_kernel(call.grad_in(1), sums.dk);
  if (sums.dv.defined() && call.in_meta(2).dtype != dtype_of<C>) copy_kernel(call.grad_in(2), sums.dv);
}

// The mask's gradient is that of the scores, summed over what the mask was broadcast along. A task is a block
// of queries of one of the mask's matrices, or all queries where the mask has one row.
void mask_gradient(const Backward& call, const Backwards& f) {
  const Extents& e = f.e;
  const TensorMeta& meta = call.in_meta(3);
  Shape sizes = meta.shape;
  while (sizes.size() < 4) sizes.insert(0, 1);
  const Tensor sums = whole_grad(call, 3, meta.shape, dtype_of<C>);
  fill_kernel(sums, 0);
  C* const data = sums.data<C>();
  const bool every_b = sizes[0] == 1, every_h = sizes[1] == 1, one_row = sizes[2] == 1,
             one_column = sizes[3] == 1;
  const std::int64_t blocks = one_row ? 1 : (e.queries + kQueries - 1) / kQueries;
  parallel_for(sizes[0] * sizes[1] * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t stride = padded(e.dim), v_stride = padded(e.value_dim);
    Pieces pieces(0, Block::size(e) + kKeys * (stride + v_stride));
    Block block(f, pieces);
    C* const k_buffer = pieces.take(kKeys * stride);
    C* const v_buffer = pieces.take(kKeys * v_stride);
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t mb = t / blocks / sizes[1], mh = t / blocks % sizes[1];
      C* const matrix = data + (mb * sizes[1] + mh) * sizes[2] * sizes[3];
      const std::int64_t first = t % blocks * kQueries,
                         last = one_row ? e.queries : std::min(first + kQueries, e.queries);
      for (std::int64_t b = every_b ? 0 : mb; b < (every_b ? e.batch : mb + 1); ++b)
        for (std::int64_t h = every_h ? 0 : mh; h < (every_h ? e.heads : mh + 1); ++h)
          for (std::int64_t i0 = first; i0 < last; i0 += kQueries) {
            block.begin(b, h, i0);
            for (std::int64_t j0 = 0, stop = block.end(); j0 < stop; j0 += kKeys) {
              const std::int64_t n = std::min<std::int64_t>(kKeys, stop - j0), kv = h / e.group();
              block.meet(j0, n, rows_of(f.k, b, kv, j0, n, k_buffer), rows_of(f.v, b, kv, j0, n, v_buffer),
                         true, C(1));
              for (std::int64_t i = 0; i < block.count; ++i)
                for (std::int64_t j = 0; j < n; ++j)
                  matrix[(one_row ? 0 : i0 + i) * sizes[3] + (one_column ? 0 : j0 + j)] +=
                      block.ds[j * kQueries + i];
            }
          }
    }
  });
  set_summed_grad(call, 3, sums);
}

void backward(const Backward& call) {
  const Backwards f(call);
  if (call.needs(0) || call.needs(1) || call.needs(2)) query_key_value(call, f);
  if (call.needs(3)) mask_gradient(call, f);
}

}  // namespace

void backward_cpu(const Backward& b) {
  NoGrad guard;
  backward(b);
}

}  // namespace ct::attention
