#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/memory/pool.h>
#include <cotangent/ops/sampling/sampling_internal.h>

namespace ct::sampling {
namespace {

// A position that is still in the race.
struct Candidate {
  double x;
  std::uint64_t weight;
  std::int64_t index;
};
using Candidates = std::vector<Candidate, PoolAllocator<Candidate>>;

// Drops what is below the k-th largest.
void keep_top_k(Candidates& all, std::int64_t k) {
  if (k == 0 || k >= static_cast<std::int64_t>(all.size())) return;
  std::vector<double, PoolAllocator<double>> x;
  for (const Candidate& c : all) x.push_back(c.x);
  std::nth_element(x.begin(), x.begin() + (k - 1), x.end(), std::greater<>());
  const double last = x[static_cast<std::size_t>(k - 1)];
  std::erase_if(all, [&](const Candidate& c) { return c.x < last; });
}

// Drops what is less probable than the last that is needed for top_p. Larger ones are selected block by
// block: the most probable few have most of the mass, so that sorting them all would be a waste.
void keep_top_p(Candidates& all, double top_p) {
  if (top_p >= 1) return;
  std::uint64_t total = 0;
  for (const Candidate& c : all) total += c.weight;
  const std::uint64_t wanted = kept_mass(top_p, total);
  Candidates ranked = all;
  const auto larger = [](const Candidate& a, const Candidate& b) { return a.x > b.x; };
  std::uint64_t mass = 0;
  double last = ranked.front().x;
  for (std::size_t first = 0, size = 64; first < ranked.size() && mass < wanted; first += size, size *= 2) {
    const auto begin = ranked.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min(size, ranked.size() - first));
    std::partial_sort(begin, end, ranked.end(), larger);
    for (auto it = begin; it != end && mass < wanted; ++it) mass += it->weight, last = it->x;
  }
  std::erase_if(all, [&](const Candidate& c) { return c.x < last; });
}

template <class T>
std::int64_t sample_row(const T* row, std::int64_t n, std::int64_t r, const Attrs& attrs, Candidates& all) {
  using C = compute_t<T>;
  std::int64_t largest = 0;
  bool bad = false;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<C>(row[i]);
    bad = bad || x != x;
    if (x > static_cast<C>(row[largest])) largest = i;
  }
  const auto max = static_cast<double>(static_cast<C>(row[largest]));
  check_row(!bad && std::isfinite(max), r);
  if (attrs.temperature == 0) return largest;
  const int bits = random::weight_bits(n);
  all.clear();
  for (std::int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<double>(static_cast<C>(row[i]));
    all.push_back({x, weight_of(x, max, attrs.temperature, bits), i});
  }
  keep_top_k(all, attrs.top_k);
  keep_top_p(all, attrs.top_p);
  std::uint64_t total = 0;
  for (const Candidate& c : all) total += c.weight;
  std::uint64_t rest = random::target(attrs.draw, static_cast<std::uint64_t>(r), total);
  std::size_t at = 0;
  while (rest >= all[at].weight) rest -= all[at++].weight;
  return all[at].index;
}

void forward_cpu(const Forward& f) {
  if (f.out().numel() == 0) return;
  const Tensor& x = f.in(0);
  const std::int64_t n = x.size(-1);
  std::int64_t* out = f.out().data<std::int64_t>();
  Attrs attrs = f.attrs<Attrs>();
  attrs.draw = attrs.draw.now();
  visit_fast("sample_logits", x.dtype(), [&]<class T>(TypeTag<T>) {
    const T* from = x.data<T>();
    parallel_for(x.numel() / n, std::max<std::int64_t>(1, 2048 / n),
                 [&](std::int64_t begin, std::int64_t end) {
                   Candidates all;
                   for (std::int64_t r = begin; r < end; ++r)
                     out[r] = sample_row(from + r * n, n, r, attrs, all);
                 });
  });
}

}  // namespace
}  // namespace ct::sampling

CT_KERNELS(cpu, sampling, forward_only("sample_logits", sampling::forward_cpu))
