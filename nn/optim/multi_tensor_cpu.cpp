#include <algorithm>
#include <cmath>
#include <vector>

#include <cotangent/core/parallel.h>
#include <cotangent/nn/optim/multi_tensor_internal.h>

// CPU. All tensors are laid end to end, and that line is cut into chunks of one size, whatever the tensors:
// a hundred small ones are one chunk and wake nobody. Where the cuts are depends on nothing else, hence
// neither do the bits. The loops are plain and leave the vectors to the compiler.

namespace ct::optim::internal {
namespace {

constexpr std::int64_t kChunk = 1 << 14;
constexpr std::int64_t kAlign = 64;  // tensors start on multiples of it, so that vectors stay aligned

// Where each entry starts on the line; the last element is its length.
std::span<const std::int64_t> lay_out(std::span<const Entry> entries) {
  thread_local std::vector<std::int64_t> starts;
  starts.clear();
  std::int64_t at = 0;
  for (const Entry& e : entries) {
    starts.push_back(at);
    at += (e.count + kAlign - 1) / kAlign * kAlign;
  }
  starts.push_back(at);
  return starts;
}

// Calls body(chunk, entry, begin, end) for every piece of an entry in every chunk, chunks in parallel.
template <class Body>
void for_pieces(std::span<const Entry> entries, std::span<const std::int64_t> starts, Body body) {
  parallel_chunks(starts.back(), kChunk, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    auto k = static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end() - 1, begin) -
                                      starts.begin() - 1);
    for (; k < entries.size() && starts[k] < end; ++k) {
      const std::int64_t from = std::max(begin - starts[k], std::int64_t{0});
      const std::int64_t to = std::min(end - starts[k], entries[k].count);
      if (from < to) body(chunk, entries[k], from, to);
    }
  });
}

// One piece, with the number of moments known to the compiler, so that unused ones cost nothing. __restrict:
// the optimizer owns the moments, and a gradient is not its parameter's memory.
template <int kMoments, class T, class Constants>
void update_piece(const Entry& e, std::int64_t begin, std::int64_t end, const Constants constants) {
  using C = compute_t<T>;
  using M = moment_t<T>;
  T* __restrict p = static_cast<T*>(e.param);
  const T* __restrict g = static_cast<const T*>(e.grad);
  M* __restrict m0 = static_cast<M*>(e.moments[0]);
  M* __restrict m1 = static_cast<M*>(e.moments[1]);
  M* __restrict m2 = static_cast<M*>(e.moments[2]);
  const C a = static_cast<C>(e.scale[0]), b = static_cast<C>(e.scale[1]);
  for (std::int64_t i = begin; i < end; ++i) {
    C x = static_cast<C>(p[i]);
    C m[kMaxMoments] = {};
    if constexpr (kMoments > 0) m[0] = m0[i];
    if constexpr (kMoments > 1) m[1] = m1[i];
    if constexpr (kMoments > 2) m[2] = m2[i];
    constants.template update<kMoments>(x, static_cast<C>(g[i]), m, a, b);
    p[i] = T(x);
    if constexpr (kMoments > 0) m0[i] = m[0];
    if constexpr (kMoments > 1) m1[i] = m[1];
    if constexpr (kMoments > 2) m2[i] = m[2];
  }
}

}  // namespace

template <class Rule>
void apply_rule_cpu(const char* op, DType dtype, std::span<const Entry> entries, const Rule& rule) {
  const auto starts = lay_out(entries);
  visit_floating(op, dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto constants = rule.template constants<compute_t<T>>();
    const auto run = [&]<int kMoments>() {
      for_pieces(entries, starts, [&](std::int64_t, const Entry& e, std::int64_t begin, std::int64_t end) {
        update_piece<kMoments, T>(e, begin, end, constants);
      });
    };
    rule.moment_count() == Rule::kFewest ? run.template operator()<Rule::kFewest>()
                                         : run.template operator()<Rule::kMost>();
  });
}
template void apply_rule_cpu(const char*, DType, std::span<const Entry>, const SgdRule&);
template void apply_rule_cpu(const char*, DType, std::span<const Entry>, const AdamRule&);

namespace {

// Sums f(x) over a piece in lanes of its own, so that the additions of neighbours are independent: that is
// what lets them become vectors without changing their order.
template <class T, class F>
double sum_piece(const T* g, std::int64_t begin, std::int64_t end, F f) {
  constexpr int kLanes = 32;
  double lanes[kLanes] = {};
  const auto term = [&](std::int64_t i) { return f(static_cast<double>(static_cast<compute_t<T>>(g[i]))); };
  std::int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] += term(i + k);
  for (int k = 0; i + k < end; ++k) lanes[k] += term(i + k);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) lanes[k] += lanes[k + width];
  return lanes[0];
}

// Once it is NaN it stays NaN: a comparison with NaN is false.
double larger(double x, double largest) { return x <= largest || std::isnan(largest) ? largest : x; }

template <class T>
double largest_of_piece(const T* g, std::int64_t begin, std::int64_t end) {
  constexpr int kLanes = 32;
  using C = compute_t<T>;
  C lanes[kLanes] = {};
  C nans[kLanes] = {};  // a NaN does not survive the comparison with the largest one
  const auto take = [&](int k, C x) {
    const C magnitude = std::abs(x);
    lanes[k] = magnitude > lanes[k] ? magnitude : lanes[k];
    nans[k] = magnitude == magnitude ? nans[k] : magnitude;
  };
  std::int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes)
    for (int k = 0; k < kLanes; ++k) take(k, static_cast<C>(g[i + k]));
  for (int k = 0; i + k < end; ++k) take(k, static_cast<C>(g[i + k]));
  double largest = 0;
  for (int k = 0; k < kLanes; ++k) largest = larger(lanes[k] + nans[k], largest);
  return largest;
}

}  // namespace

Tensor norm_cpu(std::span<const Batch> batches, double p, DType dtype) {
  thread_local std::vector<double> partial;
  double total = 0;
  for (const Batch& batch : batches) {
    const auto starts = lay_out(batch.entries);
    partial.assign(static_cast<std::size_t>(chunk_count(starts.back(), kChunk)), 0.0);
    double* const partials = partial.data();  // the pool's threads have a `partial` of their own
    visit_floating("clip_grad_norm_", batch.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for_pieces(batch.entries, starts,
                 [&](std::int64_t chunk, const Entry& e, std::int64_t begin, std::int64_t end) {
                   const T* g = static_cast<const T*>(e.grad);
                   double& sum = partials[chunk];
                   if (p == 2) {
                     sum += sum_piece(g, begin, end, [](double x) { return x * x; });
                   } else if (p == 1) {
                     sum += sum_piece(g, begin, end, [](double x) { return std::abs(x); });
                   } else if (std::isinf(p)) {
                     sum = larger(largest_of_piece(g, begin, end), sum);
                   } else {
                     sum += sum_piece(g, begin, end, [p](double x) { return std::pow(std::abs(x), p); });
                   }
                 });
    });
    for (const double s : partial) total = std::isinf(p) ? larger(s, total) : total + s;
  }
  const double norm = p == 2 ? std::sqrt(total) : p == 1 || std::isinf(p) ? total : std::pow(total, 1 / p);
  Tensor result = Tensor::allocate({}, dtype, cpu);
  if (dtype == DType::f64) {
    *result.data<double>() = norm;
  } else {
    *result.data<float>() = static_cast<float>(norm);
  }
  return result;
}

namespace {

template <class F>
void change_grads(const char* op, const Batch& batch, F f) {
  const auto starts = lay_out(batch.entries);
  visit_floating(op, batch.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = compute_t<T>;
    for_pieces(batch.entries, starts,
               [&](std::int64_t, const Entry& e, std::int64_t begin, std::int64_t end) {
                 T* g = static_cast<T*>(e.grad);
                 for (std::int64_t i = begin; i < end; ++i) g[i] = T(f(static_cast<C>(g[i])));
               });
  });
}

}  // namespace

void scale_cpu(const Batch& batch, const Tensor& norm, double max_norm) {
  const double length = norm.dtype() == DType::f64 ? *norm.data<double>() : *norm.data<float>();
  const double factor = max_norm / (length + 1e-6);
  if (factor >= 1) return;  // not so for NaN
  change_grads("clip_grad_norm_", batch, [factor](auto x) { return x * static_cast<decltype(x)>(factor); });
}

void clamp_cpu(const Batch& batch, double limit) {
  change_grads("clip_grad_value_", batch, [limit](auto x) {
    const auto l = static_cast<decltype(x)>(limit);
    return x < -l ? -l : x > l ? l : x;
  });
}

}  // namespace ct::optim::internal
