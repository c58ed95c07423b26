#include <algorithm>
#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/memory/pool.h>
#include <cotangent/ops/engine/random/draw.h>
#include <cotangent/ops/sampling/multinomial_internal.h>

namespace ct::sampling::weighted {
namespace {

using Weights = std::vector<std::uint64_t, PoolAllocator<std::uint64_t>>;

// The weights of a row as integers; their sum.
template <class T>
std::uint64_t integers(const T* row, std::int64_t n, std::int64_t r, Weights& weights) {
  using C = compute_t<T>;
  const double top = check_weights(row, n, r);
  const int bits = random::weight_bits(n);
  std::uint64_t total = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    weights[static_cast<std::size_t>(i)] =
        random::weight(static_cast<double>(static_cast<C>(row[i])), top, bits);
    total += weights[static_cast<std::size_t>(i)];
  }
  return total;
}

template <class T>
void forward(const T* w, std::int64_t* out, std::int64_t rows, std::int64_t n, const Attrs& attrs) {
  const GeneratorState draw = attrs.draw.now();
  const std::int64_t work = n + attrs.count * (attrs.replacement ? 16 : n);
  parallel_for(rows, std::max<std::int64_t>(1, 32768 / work), [&](std::int64_t begin, std::int64_t end) {
    Weights weights(static_cast<std::size_t>(n));
    for (std::int64_t r = begin; r < end; ++r) {
      std::uint64_t total = integers(w + r * n, n, r, weights);
      // With replacement positions are looked up in running sums.
      if (attrs.replacement)
        for (std::size_t i = 1; i < weights.size(); ++i) weights[i] += weights[i - 1];
      for (std::int64_t j = 0; j < attrs.count; ++j) {
        if (total == 0) fail_empty(r, j, attrs.count);
        const std::uint64_t at = random::target(draw, static_cast<std::uint64_t>(r * attrs.count + j), total);
        std::int64_t& id = out[r * attrs.count + j];
        if (attrs.replacement) {
          id = std::upper_bound(weights.begin(), weights.end(), at) - weights.begin();
        } else {
          id = random::walk(weights.data(), at);
          total -= std::exchange(weights[static_cast<std::size_t>(id)], 0);
        }
      }
    }
  });
}

void forward_cpu(const Forward& f) {
  if (f.out().numel() == 0) return;
  const Tensor& w = f.in(0);
  const std::int64_t n = w.size(-1);
  visit_fast("multinomial", w.dtype(), [&]<class T>(TypeTag<T>) {
    forward(static_cast<const T*>(w.data<T>()), f.out().data<std::int64_t>(), w.numel() / n, n,
            f.attrs<Attrs>());
  });
}

}  // namespace
}  // namespace ct::sampling::weighted

CT_KERNELS(cpu, multinomial, forward_only("multinomial", sampling::weighted::forward_cpu))
