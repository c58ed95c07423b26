#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include <cotangent/core/base/function_ref.h>
#include <cotangent/core/base/per_thread.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/nn/optim/multi_tensor_internal.h>
#include <cotangent/ops/engine/walk/copy.h>

// CPU. All tensors are laid end to end, and that line is cut into chunks of one size, whatever the tensors:
// a hundred small ones are one chunk and wake no thread. Sums per chunk are cut at the same places for any number of
// threads, hence have the same bits. The loops are plain and leave the vectors to the compiler.

namespace ct::optim::internal {
namespace {

constexpr std::int64_t kChunk = 1 << 14;
constexpr std::int64_t kAlign = 64;  // tensors start on multiples of it, so that vectors stay aligned

// Start of each entry on the line; the last element is its length.
std::span<const std::int64_t> lay_out(std::span<const Entry> entries) {
  std::vector<std::int64_t>& starts = scratch_starts();
  std::int64_t at = 0;
  for (const Entry& e : entries) {
    starts.push_back(at);
    at += (e.count + kAlign - 1) / kAlign * kAlign;
  }
  starts.push_back(at);
  return starts;
}

// Cut of updates, which sum nothing: into as many chunks for each thread, so that a thread that is done sooner takes
// little from the part of another, whose core has it in its cache from the backward pass before, and for the forward pass
// after. The cuts move with the number of threads, the bits do not: at multiples of kAlign every vector holds the same
// elements.
std::int64_t update_chunk(std::int64_t size) {
  constexpr int kChunksPerThread = 8;
  const int threads = num_threads();
  if (size <= kChunk || threads == 1) return kChunk;
  const std::int64_t chunk = size / (threads * kChunksPerThread) / kAlign * kAlign + kAlign;
  return std::clamp(chunk, kChunk / 4, kChunk);
}

// Calls body(chunk, entry, begin, end) for every piece of an entry in every chunk, chunks in parallel.
template <class Body>
void for_pieces(std::span<const Entry> entries, std::span<const std::int64_t> starts, Body body,
                std::int64_t chunk_size = kChunk) {
  parallel_chunks(starts.back(), chunk_size, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
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
template <int kMoments, class C, class Constants>
[[gnu::noinline]] void update_run(C* __restrict p, const C* __restrict g, C* __restrict m0, C* __restrict m1,
                                  C* __restrict m2, std::int64_t n, const Entry& e,
                                  const Constants constants) {
  const C a = static_cast<C>(e.scale[0]), b = static_cast<C>(e.scale[1]);
  for (std::int64_t i = 0; i < n; ++i) {
    C m[kMaxMoments] = {};
    if constexpr (kMoments > 0) m[0] = m0[i];
    if constexpr (kMoments > 1) m[1] = m1[i];
    if constexpr (kMoments > 2) m[2] = m2[i];
    C x = p[i];
    constants.template update<kMoments>(x, g[i], m, a, b);
    p[i] = x;
    if constexpr (kMoments > 0) m0[i] = m[0];
    if constexpr (kMoments > 1) m1[i] = m[1];
    if constexpr (kMoments > 2) m2[i] = m[2];
  }
}

constexpr std::int64_t kBlock = 1024;  // 16-bit elements that are f32 for a while, in the first cache

// Elements of a dtype that is calculated with in C: 16-bit ones in f32, whose code serves them, too.
template <class C>
struct Elements {
  DType dtype;

  bool narrow() const { return dtype != dtype_of<C>; }
  // Elements from number `at` on, as they are calculated with, and back.
  void widen(const void* from, std::int64_t at, std::int64_t n, C* to) const {
    convert_elements_cpu(to, dtype_of<C>, static_cast<const std::uint16_t*>(from) + at, dtype, n);
  }
  void round(const C* from, std::int64_t n, void* to, std::int64_t at) const {
    convert_elements_cpu(static_cast<std::uint16_t*>(to) + at, dtype, from, dtype_of<C>, n);
  }
};

// Calls f(Elements<double>) or f(Elements<float>).
template <class F>
void visit_elements(const char* op, DType dtype, const F& f) {
  visit_floating(op, dtype, [&]<class T>(TypeTag<T>) { f(Elements<compute_t<T>>{dtype}); });
}

// A rule's step of elements [at, at + n) of an entry, of which these are the parameters and gradients. The walk to them is
// the same for all rules.
template <class C>
using Step = FunctionRef<void(const Entry& e, C* params, const C* grads, std::int64_t at, std::int64_t n)>;

template <class C>
void update_piece(const Elements<C>& elements, const Entry& e, std::int64_t begin, std::int64_t end,
                  float scale, Step<C> step) {
  alignas(64) C params[kBlock], grads[kBlock];
  if (!elements.narrow()) {
    const C* const g = static_cast<const C*>(e.grad);
    C* const p = static_cast<C*>(e.param);
    if (scale == 1) return step(e, p + begin, g + begin, begin, end - begin);
    for (std::int64_t at = begin; at < end; at += kBlock) {
      const std::int64_t n = std::min(kBlock, end - at);
      for (std::int64_t i = 0; i < n; ++i) grads[i] = g[at + i] * static_cast<C>(scale);
      step(e, p + at, grads, at, n);
    }
    return;
  }
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t n = std::min(kBlock, end - at);
    elements.widen(e.grad, at, n, grads);
    if (scale != 1)
      for (std::int64_t i = 0; i < n; ++i) grads[i] *= static_cast<C>(scale);
    C* values = e.copy ? static_cast<C*>(e.param) + at : params;
    if (!e.copy) elements.widen(e.param, at, n, params);
    step(e, values, grads, at, n);
    elements.round(values, n, e.copy ? e.copy : e.param, at);
  }
}

template <class C>
void update_all(const Elements<C>& elements, std::span<const Entry> entries, const StepGate& gate,
                Step<C> step) {
  const float scale = gate.scale ? *gate.scale : 1;
  const auto starts = lay_out(entries);
  for_pieces(
      entries, starts,
      [&](std::int64_t, const Entry& e, std::int64_t begin, std::int64_t end) {
        update_piece(elements, e, begin, end, scale, step);
      },
      update_chunk(starts.back()));
}

// Calls f(values, n) for blocks of a gradient's elements as they are calculated with.
template <class C, class F>
void for_blocks(const Elements<C>& elements, const void* g, std::int64_t begin, std::int64_t end, F f) {
  if (!elements.narrow()) return f(static_cast<const C*>(g) + begin, end - begin);
  alignas(64) C values[kBlock];
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t n = std::min(kBlock, end - at);
    elements.widen(g, at, n, values);
    f(values, n);
  }
}

}  // namespace

template <class Rule>
void apply_rule_cpu(const char* op, DType dtype, std::span<const Entry> entries, const Rule& rule,
                    const StepGate& gate) {
  if (gate.found_inf && *gate.found_inf != 0) return;
  visit_elements(op, dtype, [&]<class C>(const Elements<C>& elements) {
    const auto constants = rule.template constants<C>();
    const auto run = [&]<int kMoments>() {
      const auto step = [&](const Entry& e, C* params, const C* grads, std::int64_t at, std::int64_t n) {
        const auto moment = [&](int k) {
          return k < kMoments ? static_cast<C*>(e.moments[k]) + at : nullptr;
        };
        update_run<kMoments>(params, grads, moment(0), moment(1), moment(2), n, e, constants);
      };
      update_all<C>(elements, entries, gate, step);
    };
    rule.moment_count() == Rule::kFewest ? run.template operator()<Rule::kFewest>()
                                         : run.template operator()<Rule::kMost>();
  });
}
#define CT_APPLY(rule, table) \
  template void apply_rule_cpu(const char*, DType, std::span<const Entry>, const rule&, const StepGate&);
CT_OPTIM_RULES(CT_APPLY)
#undef CT_APPLY

namespace {

// Sums f(x) in lanes of their own, so that the additions of neighbours are independent: that is what lets
// them become vectors without changing their order.
template <class C, class F>
double sum_run(const C* g, std::int64_t n, F f) {
  constexpr int kLanes = 32;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] += f(static_cast<double>(g[i + k]));
  for (int k = 0; i + k < n; ++k) lanes[k] += f(static_cast<double>(g[i + k]));
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) lanes[k] += lanes[k + width];
  return lanes[0];
}

// Once it is NaN it stays NaN: a comparison with NaN is false.
double larger(double x, double largest) { return x <= largest || std::isnan(largest) ? largest : x; }

template <class C>
double largest_of_run(const C* g, std::int64_t n) {
  constexpr int kLanes = 32;
  C lanes[kLanes] = {};
  C nans[kLanes] = {};  // a NaN does not survive the comparison with the largest one
  const auto take = [&](int k, C x) {
    const C magnitude = std::abs(x);
    lanes[k] = magnitude > lanes[k] ? magnitude : lanes[k];
    nans[k] = magnitude == magnitude ? nans[k] : magnitude;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int k = 0; k < kLanes; ++k) take(k, g[i + k]);
  for (int k = 0; i + k < n; ++k) take(k, g[i + k]);
  double largest = 0;
  for (int k = 0; k < kLanes; ++k) largest = larger(lanes[k] + nans[k], largest);
  return largest;
}

// `sum` with what n elements add to the p-th power of the norm; for p infinite the largest so far.
template <class C>
[[gnu::noinline]] double add_to_norm(double sum, const C* g, std::int64_t n, double p) {
  if (p == 2) return sum + sum_run(g, n, [](double x) { return x * x; });
  if (p == 1) return sum + sum_run(g, n, [](double x) { return std::abs(x); });
  if (std::isinf(p)) return larger(largest_of_run(g, n), sum);
  return sum + sum_run(g, n, [p](double x) { return std::pow(std::abs(x), p); });
}

}  // namespace

Tensor norm_cpu(std::span<const Batch> batches, double p, DType dtype) {
  auto& partial = per_thread<std::vector<double>, struct NormPartials>();
  double total = 0;
  for (const Batch& batch : batches) {
    const auto starts = lay_out(batch.entries);
    partial.assign(static_cast<std::size_t>(chunk_count(starts.back(), kChunk)), 0.0);
    double* const partials = partial.data();  // the pool's threads have a `partial` of their own
    visit_elements("clip_grad_norm_", batch.dtype, [&](const auto& elements) {
      for_pieces(batch.entries, starts,
                 [&](std::int64_t chunk, const Entry& e, std::int64_t begin, std::int64_t end) {
                   double& sum = partials[chunk];
                   for_blocks(elements, e.grad, begin, end,
                              [&](const auto* g, std::int64_t n) { sum = add_to_norm(sum, g, n, p); });
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
  visit_elements(op, batch.dtype, [&]<class C>(const Elements<C>& elements) {
    for_pieces(batch.entries, starts,
               [&](std::int64_t, const Entry& e, std::int64_t begin, std::int64_t end) {
                 alignas(64) C values[kBlock];
                 for (std::int64_t at = begin; at < end; at += kBlock) {
                   const std::int64_t n = std::min(kBlock, end - at);
                   C* x = elements.narrow() ? values : static_cast<C*>(e.grad) + at;
                   if (elements.narrow()) elements.widen(e.grad, at, n, x);
                   for (std::int64_t i = 0; i < n; ++i) x[i] = f(x[i]);
                   if (elements.narrow()) elements.round(x, n, e.grad, at);
                 }
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

void unscale_cpu(const Batch& batch, const float* factor, float* found_inf) {
  const auto starts = lay_out(batch.entries);
  std::atomic<bool> found{false};
  visit_elements("GradScaler", batch.dtype, [&]<class C>(const Elements<C>& elements) {
    for_pieces(batch.entries, starts,
               [&](std::int64_t, const Entry& e, std::int64_t begin, std::int64_t end) {
                 for_blocks(elements, e.grad, begin, end, [&](const C* g, std::int64_t n) {
                   int bad = 0;
                   for (std::int64_t i = 0; i < n; ++i)
                     bad |= !(std::abs(g[i]) <= std::numeric_limits<C>::max());
                   if (bad) found.store(true, std::memory_order_relaxed);
                 });
               });
  });
  if (found) *found_inf = 1;
  if (factor && *factor != 1)
    change_grads("GradScaler", batch, [f = *factor](auto x) { return x * static_cast<decltype(x)>(f); });
}

void lerp_cpu(const char* op, DType dtype, std::span<const Entry> entries, double weight) {
  const auto starts = lay_out(entries);
  visit_elements(op, dtype, [&]<class C>(const Elements<C>& elements) {
    const Lerp<C> lerp(weight);
    for_pieces(entries, starts, [&](std::int64_t, const Entry& e, std::int64_t begin, std::int64_t end) {
      C* average = static_cast<C*>(e.param) + begin;
      for_blocks(elements, e.grad, begin, end, [&](const C* values, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) average[i] = lerp(average[i], values[i]);
        average += n;
      });
    });
  });
}

}  // namespace ct::optim::internal

CT_CPU_TABLE(OptimCpu, optim, optim::internal::norm_cpu, optim::internal::scale_cpu,
             optim::internal::clamp_cpu, optim::internal::unscale_cpu, optim::internal::lerp_cpu)
CT_CPU_TABLE(SgdRuleCpu, sgd_rule, optim::internal::apply_rule_cpu<optim::internal::SgdRule>)
CT_CPU_TABLE(AdamRuleCpu, adam_rule, optim::internal::apply_rule_cpu<optim::internal::AdamRule>)
CT_CPU_TABLE(RmspropRuleCpu, rmsprop_rule, optim::internal::apply_rule_cpu<optim::internal::RmspropRule>)
CT_CPU_TABLE(AdagradRuleCpu, adagrad_rule, optim::internal::apply_rule_cpu<optim::internal::AdagradRule>)
CT_CPU_TABLE(LionRuleCpu, lion_rule, optim::internal::apply_rule_cpu<optim::internal::LionRule>)
