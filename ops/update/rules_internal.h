#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <cotangent/ops/update/many_internal.h>
#include <cotangent/ops/update/update.h>

// The rules of optimizers: the arithmetic of one element, written once for both devices. update_plain.h has each in its
// plainest form, which a learner reads and tests hold these to.

#if defined(__CUDACC__)
#define CT_UPDATE_HD __host__ __device__ __forceinline__
#define CT_UPDATE_APART __host__ __device__ __noinline__ inline
#else
#define CT_UPDATE_HD inline __attribute__((always_inline))
#define CT_UPDATE_APART inline __attribute__((noinline))
#endif

namespace ct::update {

using update::many::kMaxMoments;

/// The element type of the moments of T parameters.
template <class T>
using moment_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

// A rule is an op's attributes, and how to compute with them. constants<C>() turns them into the type that arithmetic is
// done in, once per call and not once per element. scales() gives the numbers that differ between parameters, which have
// made different numbers of steps. update<k>() is the step of one element: from the gradient g it changes the parameter
// p and its k moments m[]; `a` and `b` are those numbers.

/// a b + c. Named where the compiler must not choose which of several products is rounded on its own.
template <class C>
CT_UPDATE_HD C multiply_add(C a, C b, C c) {
#if defined(__CUDA_ARCH__) || (defined(__FP_FAST_FMA) && defined(__FP_FAST_FMAF))
  using std::fma;
  return fma(a, b, c);
#else
  return a * b + c;
#endif
}

/// a b, and base^t by squaring. Functions apart, so that no product becomes part of an FMA: every device and every level of
/// the processor has the same bits.
CT_UPDATE_APART double product(double a, double b) { return a * b; }
CT_UPDATE_APART double power(double base, std::int64_t t) {
  double result = 1;
  for (; t > 0; t >>= 1, base *= base)
    if (t & 1) result *= base;
  return result;
}

/// Running averages: average + weight (value - average), in the form whose rounding is that of the one of the two
/// which has more weight. After a large average the other form would leave nothing of a small value.
template <class C>
struct Lerp {
  bool near;  // the average has more weight
  C step;

  Lerp() = default;  // for shared memory
  CT_UPDATE_HD explicit Lerp(double weight)
      : near(weight < 0.5), step(static_cast<C>(near ? weight : weight - 1)) {}
  CT_UPDATE_HD C operator()(C average, C value) const {
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
  CT_UPDATE_HD void update(C& p, C g, C (&m)[kMaxMoments], C a, C) const {
    g = weight_decay != C(0) ? g + weight_decay * p : g;
    if constexpr (kMoments > 0) {
      m[0] = a != C(0) ? g : momentum * m[0] + undamped * g;
      g = nesterov ? g + momentum * m[0] : m[0];
    }
    p = p - lr * g;
  }
};

struct SgdRule : SgdAttrs {
  template <class C>
  CT_UPDATE_HD SgdConstants<C> constants() const {
    return {static_cast<C>(lr), static_cast<C>(momentum), static_cast<C>(1 - dampening),
            static_cast<C>(weight_decay), nesterov};
  }
  static constexpr int kFewest = 0, kMost = 1;  // moments
  int moment_count() const { return momentum != 0 ? 1 : 0; }
  CT_UPDATE_HD void scales(std::int64_t t, double (&scale)[2]) const { scale[0] = t == 1 ? 1 : 0; }
};

/// Square root and quotient as the language has them. A kernel may bring others.
struct Exact {
  template <class C>
  CT_UPDATE_HD static C root(C v) {
    using std::sqrt;
    return sqrt(v);
  }
  template <class C>
  CT_UPDATE_HD static C quotient(C a, C b) {
    return a / b;
  }
};

template <class C>
struct AdamConstants {
  static constexpr bool kOften = true;
  Lerp<C> first;
  C beta2, rate2, eps, weight_decay, keep;
  // a: lr / (1 - beta1^t);  b: 1 / sqrt(1 - beta2^t)
  template <int kMoments, class Math = Exact>
  CT_UPDATE_HD void update(C& p, C g, C (&m)[kMaxMoments], C a, C b) const {
    p = p * keep;
    g = weight_decay != C(0) ? g + weight_decay * p : g;
    m[0] = first(m[0], g);
    m[1] = m[1] * beta2 + rate2 * g * g;
    C v = m[1];
    if constexpr (kMoments > 2) v = m[2] = m[2] > v ? m[2] : v;
    // The decayed p is rounded, as in PyTorch: it differs from p by so little that the roundings of many
    // steps lean to one side.
    p = multiply_add(-a, Math::quotient(m[0], Math::root(v) * b + eps), p);
  }
};

struct AdamRule : AdamAttrs {
  template <class C>
  CT_UPDATE_HD AdamConstants<C> constants() const {
    return {Lerp<C>(1 - beta1),
            static_cast<C>(beta2),
            static_cast<C>(1 - beta2),
            static_cast<C>(eps),
            static_cast<C>(decoupled ? 0 : weight_decay),
            static_cast<C>(decoupled ? 1 - product(lr, weight_decay) : 1)};
  }
  static constexpr int kFewest = 2, kMost = 3;
  int moment_count() const { return amsgrad ? 3 : 2; }
  CT_UPDATE_HD void scales(std::int64_t t, double (&scale)[2]) const {
    scale[0] = lr / (1 - power(beta1, t));
    using std::sqrt;
    scale[1] = 1 / sqrt(1 - power(beta2, t));
  }
};

template <class C>
struct RmspropConstants {
  static constexpr bool kOften = false;
  Lerp<C> average;
  C alpha, rate, eps, weight_decay, momentum;
  bool centered;
  // a: lr
  template <int kMoments>
  CT_UPDATE_HD void update(C& p, C g, C (&m)[kMaxMoments], C a, C) const {
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

struct RmspropRule : RmspropAttrs {
  template <class C>
  CT_UPDATE_HD RmspropConstants<C> constants() const {
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
  CT_UPDATE_HD void scales(std::int64_t, double (&scale)[2]) const { scale[0] = lr; }
};

template <class C>
struct AdagradConstants {
  static constexpr bool kOften = false;
  C eps, weight_decay;
  // a: lr / (1 + (t - 1) lr_decay);  b: what the sum begins with, in the first step, then 0
  template <int>
  CT_UPDATE_HD void update(C& p, C g, C (&m)[kMaxMoments], C a, C b) const {
    using std::sqrt;
    g = weight_decay != C(0) ? g + weight_decay * p : g;
    m[0] = multiply_add(g, g, m[0] + b);
    p = p - a * (g / (sqrt(m[0]) + eps));
  }
};

struct AdagradRule : AdagradAttrs {
  template <class C>
  CT_UPDATE_HD AdagradConstants<C> constants() const {
    return {static_cast<C>(eps), static_cast<C>(weight_decay)};
  }
  static constexpr int kFewest = 1, kMost = 1;
  int moment_count() const { return 1; }
  CT_UPDATE_HD void scales(std::int64_t t, double (&scale)[2]) const {
    scale[0] = lr / (1 + product(static_cast<double>(t - 1), lr_decay));
    scale[1] = t == 1 ? initial_accumulator_value : 0;
  }
};

template <class C>
struct LionConstants {
  static constexpr bool kOften = false;
  Lerp<C> direction, average;
  C keep;
  // a: lr
  template <int>
  CT_UPDATE_HD void update(C& p, C g, C (&m)[kMaxMoments], C a, C) const {
    const C d = direction(m[0], g);
    m[0] = average(m[0], g);
    const C sign = d > C(0) ? C(1) : d < C(0) ? C(-1) : d;  // a NaN stays one
    p = multiply_add(-a, sign, p * keep);
  }
};

struct LionRule : LionAttrs {
  template <class C>
  CT_UPDATE_HD LionConstants<C> constants() const {
    return {Lerp<C>(1 - beta1), Lerp<C>(1 - beta2), static_cast<C>(1 - product(lr, weight_decay))};
  }
  static constexpr int kFewest = 1, kMost = 1;
  int moment_count() const { return 1; }
  CT_UPDATE_HD void scales(std::int64_t, double (&scale)[2]) const { scale[0] = lr; }
};

/// The rules, for what is made of each, with their ops.
#define CT_UPDATE_RULES(X) \
  X(SgdRule, sgd_step)     \
  X(AdamRule, adam_step) X(RmspropRule, rmsprop_step) X(AdagradRule, adagrad_step) X(LionRule, lion_step)

struct ScaleRule : ScaleAttrs {
  /// The scale after a step: smaller if an infinity was found, larger after `interval` steps without one.
  CT_UPDATE_HD void update(float* numbers, bool found_inf) const {
    if (found_inf) {
      // Not below the smallest normal number, whose inverse is finite.
      const float reduced = numbers[kScale] * static_cast<float>(backoff);
      numbers[kScale] = reduced > 1.17549435e-38f ? reduced : 1.17549435e-38f;
      numbers[kGoodSteps] = 0;
    } else if (numbers[kGoodSteps] + 1 >= static_cast<float>(interval)) {
      const float grown = numbers[kScale] * static_cast<float>(growth);
      if (grown <= 3.4028235e38f) numbers[kScale] = grown;
      numbers[kGoodSteps] = 0;
    } else {
      numbers[kGoodSteps] += 1;
    }
    numbers[kInverse] = static_cast<float>(1.0 / static_cast<double>(numbers[kScale]));
  }
};

// ---- Inputs of a step: the shared ones, then each parameter with its own ---------------------------------

inline constexpr std::size_t kFoundInf = 0, kInverseScale = 1, kLr = 2, kSteps = 3, kNorm = 4, kShared = 5;
/// Places in a parameter's turn.
inline constexpr std::size_t kParam = 0, kGrad = 1, kMaster = 2, kFirstMoment = 3;
/// Inputs that each parameter has; moments that a rule's attributes do without are undefined.
template <class Rule>
inline constexpr std::size_t kTurn = kFirstMoment + Rule::kMost;

/// A number that the kernel reads where it lies, or null.
template <class T = float>
T* optional_number(const Forward& call, std::size_t i) {
  return call.inputs[i]->defined() ? static_cast<T*>(call.inputs[i]->raw_data()) : nullptr;
}

/// The entries of a step, all of one dtype. Those of 16 bits have a master each, or none has. Parameters that sit it out are
/// undefined.
template <class Rule>
std::vector<update::many::Entry>& step_entries(const Forward& call, const Rule& rule) {
  std::vector<update::many::Entry>& entries = update::many::scratch_entries();
  std::int64_t* step = optional_number<std::int64_t>(call, kSteps);
  for (std::size_t at = kShared; at < call.inputs.size(); at += kTurn<Rule>, step += step != nullptr) {
    const Tensor* const* const turn = &call.inputs[at];
    const Tensor &param = *turn[kParam], &master = *turn[kMaster];
    if (!param.defined()) continue;
    update::many::Entry& e = entries.emplace_back();
    e.param = (master.defined() ? master : param).raw_data();
    if (master.defined()) e.copy = param.raw_data();
    e.grad = turn[kGrad]->raw_data();
    e.count = param.numel();
    e.step = step;
    for (int m = 0; m < rule.moment_count(); ++m) e.moments[m] = turn[kFirstMoment + m]->raw_data();
  }
  return entries;
}
template <class Rule>
DType step_dtype(const Forward& call) {
  std::size_t at = kShared + kParam;
  while (!call.inputs[at]->defined()) at += kTurn<Rule>;
  return call.inputs[at]->dtype();
}
/// The rule with the learning rate of the moment: the factor `lr` of the attributes on what lies in memory.
template <class Rule>
CT_UPDATE_HD Rule at_rate(Rule rule, const double* lr) {
  if (lr) rule.lr *= *lr;
  return rule;
}
/// The factor that clips gradients of a norm, in memory, to max_norm: at most 1, which no norm gives, too. NaN for a NaN.
CT_UPDATE_HD double clip_factor(double max_norm, const void* norm, bool f64) {
  if (!norm) return 1;
  const double length =
      f64 ? *static_cast<const double*>(norm) : static_cast<double>(*static_cast<const float*>(norm));
  const double factor = max_norm / (length + 1e-6);
  return factor >= 1 ? 1 : factor;
}
/// Numbers of a parameter's next step.
template <class Rule>
CT_UPDATE_HD void next_scales(const Rule& rule, const std::int64_t* step, double (&scale)[2]) {
  scale[0] = scale[1] = 1;
  rule.scales(step ? *step + 1 : 1, scale);
}

/// The new values' share in an average, after so many updates.
CT_UPDATE_HD double next_weight(const AverageAttrs& o, const std::int64_t* updates) {
  const double t = static_cast<double>(updates ? *updates + 1 : 1), first = (1 + t) / (10 + t);
  return 1 - (o.warmup && first < o.decay ? first : o.decay);
}

/// The entries of average_step: `param` is the average, `grad` the values that go into it.
inline std::span<const update::many::Entry> average_entries(const Forward& call) {
  std::vector<update::many::Entry>& entries = update::many::scratch_entries();
  for (std::size_t at = 1; at < call.inputs.size(); at += 2) {
    update::many::Entry& e = entries.emplace_back();
    e.param = call.inputs[at]->raw_data();
    e.grad = call.inputs[at + 1]->raw_data();
    e.count = call.inputs[at]->numel();
  }
  return entries;
}

/// The entries of round_all: `param` is the target, `grad` the source.
inline std::span<const update::many::Entry> round_entries(const Forward& call) {
  std::vector<update::many::Entry>& entries = update::many::scratch_entries();
  for (std::size_t at = 0; at < call.inputs.size(); at += 2) {
    update::many::Entry& e = entries.emplace_back();
    e.grad = call.inputs[at]->raw_data();
    e.param = call.inputs[at + 1]->raw_data();
    e.count = call.inputs[at]->numel();
  }
  return entries;
}

}  // namespace ct::update
