#include <algorithm>
#include <cmath>
#include <limits>

#include <cotangent/core/simd/exp.h>
#include <cotangent/ops/engine/rows/operands_cpu.h>
#include <cotangent/ops/engine/rows/rows_cpu.h>
#include <cotangent/ops/loss/head/linear_cross_entropy_chunks_internal.h>
#include <cotangent/ops/loss/largest_cpu.h>
#include <cotangent/ops/loss/loss_cpu.h>

// A row of logits is worked on where it lies in the cache: its maximum, the exponentials and their sum, and,
// over them, the gradient. The space behind a row holds -inf, so that there are only whole vectors.

namespace ct::loss::head {
namespace {

template <class T>
struct Rows {
  using P = loss::Vector<T>;
  using C = compute_t<T>;
  Step step;
  const Chunk& k;

  C& log_sum(std::int64_t r) const { return static_cast<C*>(k.log_sums)[r]; }
  C& rest(std::int64_t r) const { return static_cast<C*>(k.rests)[r]; }
  C& loss_of(std::int64_t r) const { return static_cast<C*>(k.losses)[r]; }
  C scale_of(std::int64_t r) const {
    if (!k.cotangent) return C(1);
    return static_cast<const C*>(k.cotangent)[k.each ? r : 0] / *static_cast<const C*>(k.divisor);
  }

  void run() const {
    const auto body = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) row(r);
    };
    rows::for_rows(k.rows, k.classes, body, loss::kRowGrain);
  }

  void row(std::int64_t r) const {
    T* x = static_cast<T*>(k.logits) + r * k.pitch;
    const std::int64_t n = k.classes, label = k.labels[r];
    if (label == k.ignore_index) {
      if (step != Step::gradient) log_sum(r) = rest(r) = loss_of(r) = C(0);
      if (step != Step::losses) std::fill_n(x, n, T(C(0)));
      return;
    }
    std::fill(x + n, x + k.pitch, T(-std::numeric_limits<C>::infinity()));
    const C hit = static_cast<C>(x[label]), s = static_cast<C>(k.smoothing);
    // p = e^(x - shift) factor. Where nothing is rounded, the exponentials of forward are kept in the row.
    const bool kept = std::is_same_v<T, C> && step == Step::both;
    C shift = log_sum(r), factor = 1;
    if (step == Step::gradient) {
      factor = std::exp(-rest(r));
    } else {
      const Sums sums = sums_of(x, kept);
      const C log_exps = std::log(sums.exps);
      loss::exact_sum(sums.max, log_exps, log_sum(r), rest(r));
      loss_of(r) = (C(1) - s) * (log_exps - (hit - sums.max));
      if (s > 0) loss_of(r) += s * (log_exps - sums.all / static_cast<C>(n));
      shift = sums.max, factor = C(1) / sums.exps;
    }
    if (step == Step::losses) return;
    const C scale = scale_of(r), share = s / static_cast<C>(n);
    for (std::int64_t c = 0; c < k.pitch; c += P::kSize) {
      const P v = P::load(x + c), e = kept ? v : exp(v - P(shift));
      (P(scale) * (P(factor) * e - P(share))).store(x + c);
    }
    x[label] = T(scale * (factor * std::exp(hit - shift) - share - (C(1) - s)));
  }

  struct Sums {
    C max, exps, all;  // max x, sum e^(x - max), sum (x - max) if there is smoothing
  };
  // Leaves e^(x - max) in the row if `keep`.
  Sums sums_of(T* x, bool keep) const {
    Sums sums{loss::largest<P>(x, k.pitch), 0, 0};
    if (k.smoothing > 0) sums.all = sum_from(x, sums.max);
    P exps(0);
    for (std::int64_t c = 0; c < k.pitch; c += P::kSize) {
      const P e = exp(P::load(x + c) - P(sums.max));
      if (keep) e.store(x + c);
      exps = exps + e;
    }
    for (int i = 0; i < P::kSize; ++i) sums.exps += exps.v[i];
    return sums;
  }
  // sum (x - max); here the space behind the row must not take part.
  C sum_from(const T* x, C max) const {
    P lanes(0);
    std::int64_t c = 0;
    for (; c + P::kSize <= k.classes; c += P::kSize) lanes = lanes + (P::load(x + c) - P(max));
    C sum = 0;
    for (int i = 0; i < P::kSize; ++i) sum += lanes.v[i];
    for (; c < k.classes; ++c) sum += static_cast<C>(x[c]) - max;
    return sum;
  }
};

void check(const loss::Labels& labels, std::int64_t rows, std::int64_t classes, std::int64_t ignore_index) {
  loss::ClassLayout layout;
  layout.outer = rows, layout.classes = classes;
  loss::check_label_values("linear_cross_entropy", labels, layout, ignore_index);
}

void run_rows(Step step, const Chunk& chunk) {
  visit_fast("linear_cross_entropy", chunk.dtype, [&]<class T>(TypeTag<T>) { Rows<T>{step, chunk}.run(); });
}

// All that follows computes in f32, as visit_fast() knows no f64.
void reduce(const Chunk& all, Reduction reduction, void* divisor, const Tensor& out) {
  const float* losses = static_cast<const float*>(all.losses);
  float* to = out.data<float>();
  double sum = 0, count = 0;
  for (std::int64_t r = 0; r < all.rows; ++r) {
    sum += losses[r];
    count += all.labels[r] != all.ignore_index;
    if (reduction == Reduction::none) to[r] = losses[r];
  }
  const double by = reduction == Reduction::mean ? count : 1;
  *static_cast<float*>(divisor) = static_cast<float>(by);
  if (reduction != Reduction::none) *to = static_cast<float>(sum / by);
}

void scale(const Tensor& from, const Tensor& to, bool accumulate, DType, const void* cotangent,
           const void* divisor) {
  float factor = 1;
  if (cotangent) {
    const float by = *static_cast<const float*>(divisor);
    factor = by == 0 ? 0 : *static_cast<const float*>(cotangent) / by;
  }
  const rows::Source<float> source = rows::source_of<float>(from);
  const rows::Sink<float> sink = rows::sink_of<float>(to, accumulate);
  parallel_for(from.numel(), 16384, [&](std::int64_t begin, std::int64_t end) {
    float buffer[rows::kBlock], scaled[rows::kBlock];
    rows::for_blocks(end - begin, [&](std::int64_t first, int n) {
      const float* x = source.read(begin + first, 1, n, buffer);
      for (int j = 0; j < n; ++j) scaled[j] = x[j] * factor;
      sink.store(sink.values, begin + first, scaled, n, accumulate);
    });
  });
}

// 16 MiB of logits: enough rows for a product, and not much memory.
const DeviceSteps kDevice{gemm::cpu_backend, std::int64_t{1} << 24, check, run_rows, reduce, scale};

void forward_cpu(const Forward& f) { forward(f, kDevice); }
void scale_cpu(const Backward& b) { scale(b, kDevice); }
void recompute_cpu(const Backward& b) { recompute(b, kDevice); }

}  // namespace
}  // namespace ct::loss::head

CT_KERNELS(cpu, linear_cross_entropy,
           {"linear_cross_entropy", loss::head::forward_cpu, loss::head::scale_cpu},
           {"linear_cross_entropy_recompute", loss::head::forward_cpu, loss::head::recompute_cpu})
