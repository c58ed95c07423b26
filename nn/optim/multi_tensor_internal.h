#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/device/kernel_tables.h>
#include <cotangent/core/op/execute.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/optim/step_gate.h>

// One pass over many tensors at once. A parameter, its gradient and its moments are one entry of a table; the
// table is cut into chunks across all entries, and chunks are what threads and GPU blocks work on. The
// arithmetic of each optimizer is written once, below, for both devices.

#if defined(__CUDACC__)
#define CT_OPTIM_HD __host__ __device__ __forceinline__
#else
#define CT_OPTIM_HD inline __attribute__((always_inline))
#endif

namespace ct::optim::internal {

inline constexpr int kMaxMoments = 3;

/// One parameter of a multi-tensor call.
struct Entry {
  void* param = nullptr;  // or its f32 master
  void* grad = nullptr;
  void* copy = nullptr;  // the 16-bit parameter that is rounded from its master
  void* moments[kMaxMoments] = {};
  std::int64_t count = 0;
  double scale[2] = {1, 1};  // numbers that differ between parameters: see the rules
};

/// The element type of the moments of T parameters.
template <class T>
using moment_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// A thread's table, empty: it keeps its memory from one step to the next.
std::vector<Entry>& scratch_entries();
/// The calling thread's memory for tables of so many entries. A step asks for it before its first change: it
/// is made as a whole or not at all, also when memory runs out.
void reserve_scratch(std::size_t entries);
/// Starts of entries on the line that the CPU cuts into chunks; empty.
std::vector<std::int64_t>& scratch_starts();

// ---- The rules ------------------------------------------------------------------------------------------
// A rule holds an optimizer's numbers as they were given. constants<C>() turns them into the type that
// arithmetic is done in, once per call and not once per element. update<k>() is the step of one element:
// from the gradient g it changes the parameter p and its k moments m[]; `a` and `b` are Entry::scale.

/// a b + c. Named where the compiler must not choose which of several products is rounded on its own.
template <class C>
CT_OPTIM_HD C multiply_add(C a, C b, C c) {
#if defined(__CUDA_ARCH__) || (defined(__FP_FAST_FMA) && defined(__FP_FAST_FMAF))
  using std::fma;
  return fma(a, b, c);
#else
  return a * b + c;
#endif
}

/// Running averages: average + weight (value - average), in the form whose rounding is that of the one of the two
/// which has more weight. After a large average the other form would leave nothing of a small value.
template <class C>
struct Lerp {
  bool near;  // the average has more weight
  C step;

  explicit Lerp(double weight) : near(weight < 0.5), step(static_cast<C>(near ? weight : weight - 1)) {}
  CT_OPTIM_HD C operator()(C average, C value) const {
    return multiply_add(step, value - average, near ? average : value);
  }
};

template <class C>
struct SgdConstants {
  static constexpr bool kOften = true;  // worth kernels for tables of many tensors
  C lr, momentum, undamped, weight_decay;
  bool nesterov;
  // a: 1 at a parameter's first step (the buffer starts as the gradient), else 0
  template <int kMoments>
  CT_OPTIM_HD void update(C& p, C g, C (&m)[kMaxMoments], C a, C) const {
    g = weight_decay != C(0) ? g + weight_decay * p : g;
    if constexpr (kMoments > 0) {
      m[0] = a != C(0) ? g : momentum * m[0] + undamped * g;
      g = nesterov ? g + momentum * m[0] : m[0];
    }
    p = p - lr * g;
  }
};

struct SgdRule {
  double lr, momentum, dampening, weight_decay;
  bool nesterov;
  template <class C>
  SgdConstants<C> constants() const {
    return {static_cast<C>(lr), static_cast<C>(momentum), static_cast<C>(1 - dampening),
            static_cast<C>(weight_decay), nesterov};
  }
  static constexpr int kFewest = 0, kMost = 1;  // moments
  int moment_count() const { return momentum != 0 ? 1 : 0; }
};

template <class C>
struct AdamConstants {
  static constexpr bool kOften = true;
  Lerp<C> first;
  C beta2, rate2, eps, weight_decay, keep;
  // a: lr / (1 - beta1^t);  b: 1 / sqrt(1 - beta2^t)
  template <int kMoments>
  CT_OPTIM_HD void update(C& p, C g, C (&m)[kMaxMoments], C a, C b) const {
    p = p * keep;
    g = weight_decay != C(0) ? g + weight_decay * p : g;
    m[0] = first(m[0], g);
    m[1] = m[1] * beta2 + rate2 * g * g;
    C v = m[1];
    if constexpr (kMoments > 2) v = m[2] = m[2] > v ? m[2] : v;
    using std::sqrt;
    // The decayed p is rounded, as in PyTorch: it differs from p by so little that the roundings of many
    // steps lean to one side.
    p = multiply_add(-a, m[0] / (sqrt(v) * b + eps), p);
  }
};

struct AdamRule {
  double beta1, beta2, eps, weight_decay, lr;
  bool decoupled, amsgrad;
  template <class C>
  AdamConstants<C> constants() const {
    return {Lerp<C>(1 - beta1),
            static_cast<C>(beta2),
            static_cast<C>(1 - beta2),
            static_cast<C>(eps),
            static_cast<C>(decoupled ? 0 : weight_decay),
            static_cast<C>(decoupled ? 1 - lr * weight_decay : 1)};
  }
  static constexpr int kFewest = 2, kMost = 3;
  int moment_count() const { return amsgrad ? 3 : 2; }
};

template <class C>
struct RmspropConstants {
  static constexpr bool kOften = false;
  Lerp<C> average;
  C alpha, rate, eps, weight_decay, momentum;
  bool centered;
  // a: lr
  template <int kMoments>
  CT_OPTIM_HD void update(C& p, C g, C (&m)[kMaxMoments], C a, C) const {
    using std::sqrt;
    g = weight_decay != C(0) ? g + weight_decay * p : g;
    m[0] = alpha * m[0] + rate * g * g;
    C v = m[0];
    if constexpr (kMoments > 1) {
      m[2] = centered ? average(m[2], g) : m[2];
      v = centered ? v - m[2] * m[2] : v;
      v = v < C(0) ? C(0) : v;  // by rounding
    }
    g = g / (sqrt(v) + eps);
    if constexpr (kMoments > 1) g = m[1] = momentum * m[1] + g;
    p = p - a * g;
  }
};

struct RmspropRule {
  double alpha, eps, weight_decay, momentum;
  bool centered;
  template <class C>
  RmspropConstants<C> constants() const {
    return {Lerp<C>(1 - alpha),
            static_cast<C>(alpha),
            static_cast<C>(1 - alpha),
            static_cast<C>(eps),
            static_cast<C>(weight_decay),
            static_cast<C>(momentum),
            centered};
  }
  static constexpr int kFewest = 1, kMost = 3;
  int moment_count() const { return momentum != 0 || centered ? 3 : 1; }
};

template <class C>
struct AdagradConstants {
  static constexpr bool kOften = false;
  C eps, weight_decay;
  // a: lr / (1 + (t - 1) lr_decay);  b: what the sum begins with, in the first step, then 0
  template <int>
  CT_OPTIM_HD void update(C& p, C g, C (&m)[kMaxMoments], C a, C b) const {
    using std::sqrt;
    g = weight_decay != C(0) ? g + weight_decay * p : g;
    m[0] = multiply_add(g, g, m[0] + b);
    p = p - a * (g / (sqrt(m[0]) + eps));
  }
};

struct AdagradRule {
  double eps, weight_decay;
  template <class C>
  AdagradConstants<C> constants() const {
    return {static_cast<C>(eps), static_cast<C>(weight_decay)};
  }
  static constexpr int kFewest = 1, kMost = 1;
  int moment_count() const { return 1; }
};

template <class C>
struct LionConstants {
  static constexpr bool kOften = false;
  Lerp<C> direction, average;
  C keep;
  // a: lr
  template <int>
  CT_OPTIM_HD void update(C& p, C g, C (&m)[kMaxMoments], C a, C) const {
    const C d = direction(m[0], g);
    m[0] = average(m[0], g);
    const C sign = d > C(0) ? C(1) : d < C(0) ? C(-1) : d;  // a NaN stays one
    p = multiply_add(-a, sign, p * keep);
  }
};

struct LionRule {
  double beta1, beta2, lr, weight_decay;
  template <class C>
  LionConstants<C> constants() const {
    return {Lerp<C>(1 - beta1), Lerp<C>(1 - beta2), static_cast<C>(1 - lr * weight_decay)};
  }
  static constexpr int kFewest = 1, kMost = 1;
  int moment_count() const { return 1; }
};

/// The rules, for what is made of each, and the name of a rule's table of the CPU. A table for each, so that a program links
/// only those of its optimizers.
#define CT_OPTIM_RULES(X) \
  X(SgdRule, sgd_rule)    \
  X(AdamRule, adam_rule) X(RmspropRule, rmsprop_rule) X(AdagradRule, adagrad_rule) X(LionRule, lion_rule)

/// Applies a rule to all entries, whose gradients have one dtype, on `device`. All entries of a 16-bit dtype
/// have a master, or none has.
template <class Rule>
void apply_rule(const char* op, Device device, DType dtype, std::span<const Entry> entries, const Rule& rule,
                const StepGate& gate);

template <class Rule>
void apply_rule_cpu(const char* op, DType dtype, std::span<const Entry> entries, const Rule& rule,
                    const StepGate& gate);
template <class Rule>
void apply_rule_cuda(const char* op, DType dtype, std::span<const Entry> entries, const Rule& rule,
                     const StepGate& gate);

/// A step of some members of an optimizer's group by a rule; scales(state, scale) sets a parameter's Entry::scale.
template <class Group, class Rule, class Scales>
void step(const char* op, const Group& g, std::span<const int> members, const Rule& rule,
          const StepGate& gate, const Scales& scales) {
  std::vector<Entry>& entries = scratch_entries();
  for (const int member : members) {
    const auto i = static_cast<std::size_t>(member);
    const auto& state = g.states[i];
    Entry& e = entries.emplace_back();
    e.param = (state.master.defined() ? state.master : g.params[i]).raw_data();
    if (state.master.defined()) e.copy = g.params[i].raw_data();
    e.grad = g.grads[i].raw_data();
    e.count = g.params[i].numel();
    for (int m = 0; m < rule.moment_count(); ++m) e.moments[m] = state.moments[m].raw_data();
    scales(state, e.scale);
  }
  const Tensor& first = g.params[static_cast<std::size_t>(members[0])];
  const auto tensors = [&] {
    std::vector<Tensor> list;
    for (const int member : members) {
      const auto i = static_cast<std::size_t>(member);
      const auto& state = g.states[i];
      for (const Tensor& t : {g.params[i], g.grads[i], state.master}) list.push_back(t);
      for (int m = 0; m < rule.moment_count(); ++m) list.push_back(state.moments[m]);
    }
    std::erase_if(list, [](const Tensor& t) { return !t.defined(); });
    return list;
  };
  ct::detail::work(op, tensors, [&] { apply_rule(op, first.device(), first.dtype(), entries, rule, gate); });
}

// ---- Clipping -------------------------------------------------------------------------------------------
// Reads only `grad` and `count` of an entry.

/// Entries of one dtype.
struct Batch {
  DType dtype = DType::f32;
  std::vector<Entry> entries;
};

/// The p-norm of all elements of all gradients, as a 0-dim tensor of `dtype` (f32 or f64) on the device. It
/// is summed in f64. p may be infinity.
Tensor norm_cpu(std::span<const Batch> batches, double p, DType dtype);
Tensor norm_cuda(const char* op, std::span<const Batch> batches, double p, DType dtype);

/// grad <- grad * min(1, max_norm / (norm + 1e-6)), the norm read from the device's memory. A norm that is
/// NaN makes all gradients NaN.
void scale_cpu(const Batch& batch, const Tensor& norm, double max_norm);
void scale_cuda(const char* op, const Batch& batch, const Tensor& norm, double max_norm);

/// grad <- clamp(grad, -limit, limit); NaN stays NaN.
void clamp_cpu(const Batch& batch, double limit);
void clamp_cuda(const char* op, const Batch& batch, double limit);

// ---- Loss scaling ---------------------------------------------------------------------------------------

/// Sets *found_inf to 1 if a gradient holds an infinity or a NaN, and multiplies the gradients by *factor
/// unless it is null. Both numbers are in the memory of the gradients' device.
void unscale_cpu(const Batch& batch, const float* factor, float* found_inf);
void unscale_cuda(const char* op, const Batch& batch, const float* factor, float* found_inf);

/// The numbers of a GradScaler, f32 in the memory of its device.
enum ScalerNumber : int { kScale, kInverse, kGoodSteps, kScalerNumbers };
struct ScaleRule {
  float growth, backoff;
  float interval;
  /// The scale after a step: smaller if an infinity was found, larger after `interval` steps without one.
  CT_OPTIM_HD void update(float* numbers, bool found_inf) const {
    if (found_inf) {
      // Not below the smallest normal number, whose inverse is finite.
      const float reduced = numbers[kScale] * backoff;
      numbers[kScale] = reduced > 1.17549435e-38f ? reduced : 1.17549435e-38f;
      numbers[kGoodSteps] = 0;
    } else if (numbers[kGoodSteps] + 1 >= interval) {
      const float grown = numbers[kScale] * growth;
      if (grown <= 3.4028235e38f) numbers[kScale] = grown;
      numbers[kGoodSteps] = 0;
    } else {
      numbers[kGoodSteps] += 1;
    }
    numbers[kInverse] = static_cast<float>(1.0 / static_cast<double>(numbers[kScale]));
  }
};
void update_scale_cuda(const char* op, float* numbers, const float* found_inf, const ScaleRule& rule);

// ---- Averages -------------------------------------------------------------------------------------------

/// param <- param + weight (grad - param): of an entry `param` is the average (f32 or f64), `grad` the values
/// that go into it, of dtype `dtype`.
void lerp_cpu(const char* op, DType dtype, std::span<const Entry> entries, double weight);
void lerp_cuda(const char* op, DType dtype, std::span<const Entry> entries, double weight);

}  // namespace ct::optim::internal

namespace ct {
struct OptimCpu {
  decltype(&optim::internal::norm_cpu) norm;
  decltype(&optim::internal::scale_cpu) scale;
  decltype(&optim::internal::clamp_cpu) clamp;
  decltype(&optim::internal::unscale_cpu) unscale;
  decltype(&optim::internal::lerp_cpu) lerp;
};
CT_CPU_TABLES(OptimCpu, optim)
#define CT_RULE_TABLES(rule, table)                                          \
  struct rule##Cpu {                                                         \
    decltype(&optim::internal::apply_rule_cpu<optim::internal::rule>) apply; \
  };                                                                         \
  CT_CPU_TABLES(rule##Cpu, table)
CT_OPTIM_RULES(CT_RULE_TABLES)
#undef CT_RULE_TABLES
}  // namespace ct
