#include <algorithm>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/parallel.h>
#include <cotangent/core/rng.h>
#include <cotangent/ops/dropout/dropout_kernels.h>

// dropout on the CPU: words are drawn a kilobyte or four at a time and compared in the cache. Backward is
// forward with the cotangent in place of x.

namespace ct::dropout_kernels {
namespace {

constexpr std::int64_t kGrain = 16384;
constexpr int kBlock = 1024;

template <class T>
void apply(const T* x, T* y, std::int64_t n, const Rule& rule) {
  using C = compute_t<T>;
  const C scale = static_cast<C>(rule.scale);
  // Words up to `last` are dropped. A threshold of 0 drops nothing and has no last word.
  const bool some = rule.threshold > 0;
  const std::uint32_t last = static_cast<std::uint32_t>(some ? rule.threshold - 1 : 0);
  parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t words[kBlock];
    for (std::int64_t i = begin; i < end; i += kBlock) {
      const int m = static_cast<int>(std::min<std::int64_t>(kBlock, end - i));
      fill_words(rule.draw, static_cast<std::uint64_t>(i), m, words);
      const T* from = x + i;
      T* to = y + i;
      for (int j = 0; j < m; ++j) {
        const C kept = static_cast<C>(from[j]) * scale;
        to[j] = T(some && words[j] <= last ? C(0) : kept);
      }
    }
  });
}

}  // namespace

void apply_cpu(const Tensor& x, const Tensor& y, const Rule& rule) {
  visit_floating("dropout", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    apply(x.data<T>(), y.data<T>(), y.numel(), rule);
  });
}

void forward_cpu(const Forward& f) {
  NoGrad guard;
  apply_cpu(f.in(0).contiguous(), f.out(), Rule(f.attrs<Attrs>()));
}

// y is linear in x: dx is the cotangent, dropped and scaled as x was.
void backward_cpu(const Backward& b) {
  if (!b.needs(0)) return;
  NoGrad guard;
  apply_cpu(b.grad().contiguous(), b.grad_in(0), Rule(b.attrs<Attrs>()));
}

}  // namespace ct::dropout_kernels
