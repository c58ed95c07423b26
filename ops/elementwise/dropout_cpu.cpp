#include <algorithm>

#include <cotangent/core/parallel.h>
#include <cotangent/core/rng.h>
#include <cotangent/ops/elementwise/dropout_internal.h>

// dropout on the CPU: words are drawn a kilobyte or four at a time and compared in the cache. Backward is
// forward with the cotangent in place of x.

namespace ct::dropout_kernels {
namespace {

constexpr std::int64_t kGrain = 16384;
constexpr int kBlock = 1024;

// Words up to `last` are dropped.
template <class T>
void apply_block(const T* __restrict x, T* __restrict y, const std::uint32_t* __restrict words, int n,
                 std::uint32_t last, compute_t<T> scale) {
  using C = compute_t<T>;
  for (int j = 0; j < n; ++j) {
    const C kept = static_cast<C>(x[j]) * scale;
    y[j] = T(words[j] <= last ? C(0) : kept);
  }
}

template <class T>
void apply(const T* x, T* y, std::int64_t n, const Rule& rule) {
  const auto scale = static_cast<compute_t<T>>(rule.scale);
  parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t words[kBlock];
    std::fill_n(words, kBlock, ~std::uint32_t{0});
    for (std::int64_t i = begin; i < end; i += kBlock) {
      const int m = static_cast<int>(std::min<std::int64_t>(kBlock, end - i));
      if (rule.threshold > 0) {
        fill_words(rule.draw, static_cast<std::uint64_t>(i), m, words);
        apply_block(x + i, y + i, words, m, static_cast<std::uint32_t>(rule.threshold - 1), scale);
      } else {
        apply_block(x + i, y + i, words, m, 0, scale);  // no word of these is dropped
      }
    }
  });
}

}  // namespace

void apply_cpu(const Tensor& x, const Tensor& y, const Rule& rule) {
  visit_fast("dropout", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    apply(x.data<T>(), y.data<T>(), y.numel(), rule);
  });
}

void forward_cpu(const Forward& f) { apply_cpu(f.in(0), f.out(), Rule(f.attrs<Attrs>())); }

// y is linear in x: dx is the cotangent, dropped and scaled as x was.
void backward_cpu(const Backward& b) {
  if (!b.needs(0)) return;
  apply_cpu(b.grad(), b.grad_in(0), Rule(b.attrs<Attrs>()));
}

}  // namespace ct::dropout_kernels

CT_KERNELS(cpu, dropout, {"dropout", dropout_kernels::forward_cpu, dropout_kernels::backward_cpu})
