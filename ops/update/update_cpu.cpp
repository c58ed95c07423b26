#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include <cotangent/core/base/function_ref.h>
#include <cotangent/core/base/per_thread.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/update/many_cpu.h>
#include <cotangent/ops/update/rules_internal.h>

namespace ct::update {
namespace {

using namespace update::many;

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
void update_all(const Elements<C>& elements, std::span<const Entry> entries, float scale, double clip,
                Step<C> step) {
  const auto starts = lay_out(entries);
  for_pieces(
      entries, starts,
      [&](std::int64_t, const Entry& e, std::int64_t begin, std::int64_t end) {
        if (clip != 1)
          change_piece(elements, e, begin, end, [c = static_cast<C>(clip)](C x) { return x * c; });
        update_piece(elements, e, begin, end, scale, step);
      },
      update_chunk(starts.back()));
}

double norm_factor(double max_norm, const Tensor& norm) {
  if (!norm.defined()) return 1;
  return clip_factor(max_norm, norm.raw_data(), norm.dtype() == DType::f64);
}

template <class Rule, class Attrs>
void step_cpu(const Forward& call) {
  const float* const found_inf = optional_number(call, kFoundInf);
  if (found_inf && *found_inf != 0) return;
  const float* const inverse_scale = optional_number(call, kInverseScale);
  const Rule rule = at_rate(Rule{call.attrs<Attrs>()}, optional_number<double>(call, kLr));
  const double clip = norm_factor(rule.max_norm, *call.inputs[kNorm]);
  std::vector<Entry>& entries = step_entries(call, rule);
  for (Entry *e = entries.data(), *end = e + entries.size(), *before = nullptr; e != end; before = e++) {
    // Nearly always the parameter before has made as many steps.
    if (before && (!e->step || *e->step == *before->step))
      std::copy_n(before->scale, 2, e->scale);
    else
      next_scales(rule, e->step, e->scale);
  }
  visit_elements(call.op.name, step_dtype<Rule>(call), [&]<class C>(const Elements<C>& elements) {
    const auto constants = rule.template constants<C>();
    const auto run = [&]<int kMoments>() {
      const auto step = [&](const Entry& e, C* params, const C* grads, std::int64_t at, std::int64_t n) {
        const auto moment = [&](int k) {
          return k < kMoments ? static_cast<C*>(e.moments[k]) + at : nullptr;
        };
        update_run<kMoments>(params, grads, moment(0), moment(1), moment(2), n, e, constants);
      };
      update_all<C>(elements, entries, inverse_scale ? *inverse_scale : 1, clip, step);
    };
    rule.moment_count() == Rule::kFewest ? run.template operator()<Rule::kFewest>()
                                         : run.template operator()<Rule::kMost>();
  });
  for (const Entry& e : entries)
    if (e.step) ++*e.step;
}
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

void norm_cpu(const Forward& call) {
  const double p = call.attrs<NormAttrs>().p;
  auto& partial = per_thread<std::vector<double>, struct NormPartials>();
  double total = 0;
  by_dtype(call.inputs, [&](DType dtype, std::span<const Entry> entries) {
    const auto starts = lay_out(entries);
    partial.assign(static_cast<std::size_t>(chunk_count(starts.back(), kChunk)), 0.0);
    double* const partials = partial.data();  // the pool's threads have a `partial` of their own
    visit_elements(call.op.name, dtype, [&](const auto& elements) {
      for_pieces(entries, starts,
                 [&](std::int64_t chunk, const Entry& e, std::int64_t begin, std::int64_t end) {
                   double& sum = partials[chunk];
                   for_blocks(elements, e.grad, begin, end,
                              [&](const auto* g, std::int64_t n) { sum = add_to_norm(sum, g, n, p); });
                 });
    });
    for (const double s : partial) total = std::isinf(p) ? larger(s, total) : total + s;
  });
  const double norm = p == 2 ? std::sqrt(total) : p == 1 || std::isinf(p) ? total : std::pow(total, 1 / p);
  if (call.out().dtype() == DType::f64) {
    *call.out().data<double>() = norm;
  } else {
    *call.out().data<float>() = static_cast<float>(norm);
  }
}

void clip_to_norm_cpu(const Forward& call) {
  const double factor = norm_factor(call.attrs<ClipAttrs>().max_norm, call.in(0));
  if (factor == 1) return;
  by_dtype(call.inputs.subspan(1), [&](DType dtype, std::span<const Entry> entries) {
    change_all(call.op.name, dtype, entries,
               [factor](auto x) { return x * static_cast<decltype(x)>(factor); });
  });
}

void clip_values_cpu(const Forward& call) {
  by_dtype(call.inputs,
           [&, limit = call.attrs<ClampAttrs>().limit](DType dtype, std::span<const Entry> entries) {
             change_all(call.op.name, dtype, entries, [limit](auto x) {
               const auto l = static_cast<decltype(x)>(limit);
               return x < -l ? -l : x > l ? l : x;
             });
           });
}

template <class C>
bool any_bad(const Elements<C>& elements, std::span<const Entry> entries) {
  std::atomic<bool> found{false};
  for_pieces(entries, lay_out(entries),
             [&](std::int64_t, const Entry& e, std::int64_t begin, std::int64_t end) {
               for_blocks(elements, e.grad, begin, end, [&](const C* g, std::int64_t n) {
                 int bad = 0;
                 for (std::int64_t i = 0; i < n; ++i)
                   bad |= !(std::abs(g[i]) <= std::numeric_limits<C>::max());
                 if (bad) found.store(true, std::memory_order_relaxed);
               });
             });
  return found;
}

void unscale_cpu(const Forward& call) {
  float& found_inf = *call.in(0).data<float>();
  const float* const factor = optional_number(call, 1);
  by_dtype(call.inputs.subspan(2), [&](DType dtype, std::span<const Entry> entries) {
    visit_elements(call.op.name, dtype, [&](const auto& elements) {
      if (any_bad(elements, entries)) found_inf = 1;
    });
    if (factor && *factor != 1)
      change_all(call.op.name, dtype, entries,
                 [f = *factor](auto x) { return x * static_cast<decltype(x)>(f); });
  });
}

void update_scale_cpu(const Forward& call) {
  ScaleRule{call.attrs<ScaleAttrs>()}.update(call.in(0).data<float>(), *call.in(1).data<float>() != 0);
}

void average_cpu(const Forward& call) {
  const auto entries = average_entries(call);
  const auto starts = lay_out(entries);
  auto* const updates = optional_number<std::int64_t>(call, 0);
  const double weight = next_weight(call.attrs<AverageAttrs>(), updates);
  visit_elements(call.op.name, call.in(2).dtype(), [&]<class C>(const Elements<C>& elements) {
    const Lerp<C> lerp(weight);
    for_pieces(entries, starts, [&](std::int64_t, const Entry& e, std::int64_t begin, std::int64_t end) {
      C* average = static_cast<C*>(e.param) + begin;
      for_blocks(elements, e.grad, begin, end, [&](const C* values, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) average[i] = lerp(average[i], values[i]);
        average += n;
      });
    });
  });
  if (updates) ++*updates;
}

void round_cpu(const Forward& call) {
  const Elements<float> elements{call.in(1).dtype()};
  const auto entries = round_entries(call);
  for_pieces(entries, lay_out(entries),
             [&](std::int64_t, const Entry& e, std::int64_t begin, std::int64_t end) {
               elements.round(static_cast<const float*>(e.grad) + begin, end - begin, e.param, begin);
             });
}

}  // namespace
}  // namespace ct::update

CT_KERNELS(cpu, sgd_step, forward_only("sgd_step", update::step_cpu<update::SgdRule, update::SgdAttrs>))
CT_KERNELS(cpu, adam_step, forward_only("adam_step", update::step_cpu<update::AdamRule, update::AdamAttrs>))
CT_KERNELS(cpu, rmsprop_step,
           forward_only("rmsprop_step", update::step_cpu<update::RmspropRule, update::RmspropAttrs>))
CT_KERNELS(cpu, adagrad_step,
           forward_only("adagrad_step", update::step_cpu<update::AdagradRule, update::AdagradAttrs>))
CT_KERNELS(cpu, lion_step, forward_only("lion_step", update::step_cpu<update::LionRule, update::LionAttrs>))
CT_KERNELS(cpu, gradients, forward_only("total_norm", update::norm_cpu),
           forward_only("clip_to_norm", update::clip_to_norm_cpu),
           forward_only("clip_values", update::clip_values_cpu))
CT_KERNELS(cpu, loss_scale, forward_only("unscale", update::unscale_cpu),
           forward_only("update_scale", update::update_scale_cpu))
CT_KERNELS(cpu, average_step, forward_only("average_step", update::average_cpu))
CT_KERNELS(cpu, round_all, forward_only("round_all", update::round_cpu))
