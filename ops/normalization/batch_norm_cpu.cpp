#include <cmath>

#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/normalization/batch_norm_internal.h>

// Channel by channel: sums of runs in lanes of their own, so that they can be vectors, added up in double precision.

namespace ct::normalization::batch {
namespace {

// The sum of f(i) over [first, first + n).
template <class C, class F>
double sum(std::int64_t first, std::int64_t n, const F& f) {
  constexpr std::int64_t kLanes = 16;
  C lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += f(first + i + l);
  double total = 0;
  for (; i < n; ++i) total += static_cast<double>(f(first + i));
  for (const C lane : lanes) total += static_cast<double>(lane);
  return total;
}
template <class C, class F>
C channel_sum(const Call& c, std::int64_t channel, const F& f) {
  double total = 0;
  each_run(c, channel, [&](std::int64_t first) { total += sum<C>(first, c.pixels, f); });
  return static_cast<C>(total);
}

// Calls f(channel, memory of x as T) for each channel, with T and the type C of its sums.
template <class F>
void each_channel(const Call& c, const F& f) {
  const std::int64_t elements = c.images * c.pixels;
  visit_fast(c.op, c.x.dtype(), [&]<class T>(TypeTag<T> tag) {
    parallel_for(c.channels, 1 + (1 << 14) / (1 + elements), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t channel = begin; channel < end; ++channel) f(tag, channel);
    });
  });
}

void forward_cpu(const Call& c) {
  each_channel(c, [&]<class T>(TypeTag<T>, std::int64_t channel) {
    using C = compute_t<T>;
    const C count = static_cast<C>(c.images * c.pixels);
    const T* const x = static_cast<const T*>(c.x.raw_data());
    T* const y = static_cast<T*>(c.y.raw_data());
    C& mean = c.mean.data<C>()[channel];
    C& var = c.var.data<C>()[channel];
    if (c.training) {
      mean = channel_sum<C>(c, channel, [x](std::int64_t i) { return static_cast<C>(x[i]); }) / count;
      var = channel_sum<C>(c, channel,
                           [x, m = mean](std::int64_t i) {
                             const C d = static_cast<C>(x[i]) - m;
                             return d * d;
                           }) /
            count;
    }
    const C scale = number(c.weight, channel, C(1)) / std::sqrt(var + static_cast<C>(c.eps));
    const C shift = number(c.bias, channel, C(0));
    each_run(c, channel, [&, m = mean](std::int64_t first) {
      for (std::int64_t i = first; i < first + c.pixels; ++i)
        y[i] = static_cast<T>((static_cast<C>(x[i]) - m) * scale + shift);
    });
  });
}

void backward_cpu(const Call& c) {
  each_channel(c, [&]<class T>(TypeTag<T>, std::int64_t channel) {
    using C = compute_t<T>;
    const C count = static_cast<C>(c.images * c.pixels);
    const T* const x = static_cast<const T*>(c.x.raw_data());
    const T* const g = static_cast<const T*>(c.g.raw_data());
    const C mean = c.mean.data<C>()[channel];
    const C r = 1 / std::sqrt(c.var.data<C>()[channel] + static_cast<C>(c.eps));
    const C db = channel_sum<C>(c, channel, [g](std::int64_t i) { return static_cast<C>(g[i]); });
    const C dw = r * channel_sum<C>(c, channel, [g, x, mean](std::int64_t i) {
                   return static_cast<C>(g[i]) * (static_cast<C>(x[i]) - mean);
                 });
    put(c.dbias, channel, db), put(c.dweight, channel, dw);
    if (!c.dx.defined()) return;
    T* const dx = static_cast<T*>(c.dx.raw_data());
    const C scale = number(c.weight, channel, C(1)) * r;
    const C flat = c.training ? db / count : 0, slope = c.training ? r * dw / count : 0;
    each_run(c, channel, [&](std::int64_t first) {
      for (std::int64_t i = first; i < first + c.pixels; ++i)
        dx[i] = static_cast<T>(scale * (static_cast<C>(g[i]) - flat - (static_cast<C>(x[i]) - mean) * slope));
    });
  });
}

}  // namespace
}  // namespace ct::normalization::batch

CT_KERNELS(cpu, batch_norm,
           CT_BATCH_NORM_KERNELS(normalization::batch::forward_cpu, normalization::batch::backward_cpu))
