#pragma once

#include <cotangent/core/simd/exp.h>
#include <cotangent/ops/engine/fold/sum_fold_cpu.h>

// Folds that carry several numbers: variance, norms, log-sum-exp. They read their elements once, in blocks that
// are gone over twice while they are in the cache, and merge blocks by exact formulas.

namespace ct::fold {

/// Mean and sum of squared deviations. A block: two passes, with the rounding of the mean taken back. Merging
/// is the formula of Chan, Golub and LeVeque (1979): with d the difference of the means,
///     m2 = m2_a + m2_b + d^2 n_a n_b / n,   mean = mean_a + d n_b / n
template <class Element>
struct VarFold {
  using C = Element;
  struct Acc {
    double n, mean, m2;
  };
  using Second = C;
  static constexpr bool kPositions = false;

  double correction = 1;
  bool root = false;

  static Acc identity() { return {0, 0, 0}; }
  void block(Acc& acc, const C* x, int n, std::int64_t) const {
    const C guess = static_cast<C>(fold_vectors(x, n, C(0), kSame, kPlus) / static_cast<double>(n));
    const auto from_guess = [guess](const auto& v) { return v - guess; };
    const auto squared = [guess](const auto& v) { return (v - guess) * (v - guess); };
    const double d = fold_vectors(x, n, C(0), from_guess, kPlus, guess);
    const double squares = fold_vectors(x, n, C(0), squared, kPlus, guess);
    // The root may lie in the range of C where the squares do not.
    if (std::is_same_v<C, float> && root && !(squares > 1e-30 * n && squares < 1e30))
      return block_in_f64(acc, x, n);
    merge(acc, {static_cast<double>(n), guess + d / n, squares - d * d / n});
  }
  void block_in_f64(Acc& acc, const C* x, int n) const {
    double sum = 0, squares = 0;
    for (int i = 0; i < n; ++i) sum += x[i];
    for (int i = 0; i < n; ++i) squares += (x[i] - sum / n) * (x[i] - sum / n);
    merge(acc, {static_cast<double>(n), sum / n, squares});
  }
  void lanes(Acc* __restrict acc, const C* __restrict x, int n, std::int64_t) const {
    const double inverse = 1 / (acc[0].n + 1);  // all lanes have seen the same number
    for (int j = 0; j < n; ++j) {
      const double d = x[j] - acc[j].mean;
      acc[j].n += 1;
      acc[j].mean += d * inverse;
      acc[j].m2 += d * (x[j] - acc[j].mean);
    }
  }
  void merge(Acc& acc, const Acc& later) const {
    if (later.n == 0) return;
    const double n = acc.n + later.n, d = later.mean - acc.mean;
    acc.m2 += later.m2 + d * d * (acc.n * later.n / n);
    acc.mean += d * (later.n / n);
    acc.n = n;
  }
  void finish(const Acc& acc, C& value, Second& mean) const {
    const double freedom = acc.n > correction ? acc.n - correction : 0;
    const double var = (acc.m2 < 0 ? 0 : acc.m2) / freedom;
    value = static_cast<C>(root ? std::sqrt(var) : var);
    mean = static_cast<C>(acc.n > 0 ? acc.mean : std::numeric_limits<double>::quiet_NaN());
  }
};

/// The standard deviation in f64, whose squares nothing wider holds; see Deviations.
struct DeviationFold {
  using C = double;
  using Acc = Moments<double>;
  using Second = C;
  static constexpr bool kPositions = false;

  Deviations<double> deviations;

  static Acc identity() { return {}; }
  void block(Acc& acc, const C* x, int n, std::int64_t) const {
    const C guess = fold_vectors(x, n, C(0), kSame, kPlus) / n;
    const auto from_guess = [guess](const auto& v) { return v - guess; };
    const auto squared = [guess](const auto& v) { return (v - guess) * (v - guess); };
    const double d = fold_vectors(x, n, C(0), from_guess, kPlus, guess);
    const C squares = fold_vectors(x, n, C(0), squared, kPlus, guess);
    if (!Powers<C>::in_range(squares)) return scaled_block(acc, x, n);
    merge(acc, {static_cast<double>(n), guess + d / n, {squares - d * d / n, 1}});
  }
  void lanes(Acc* __restrict acc, const C* __restrict x, int n, std::int64_t) const {
    const double inverse = 1 / (acc[0].n + 1);  // all lanes have seen the same number
    std::int64_t odd = 0;                       // as wide as the elements: the loop becomes vectors
    for (int j = 0; j < n; ++j) {
      const double d = x[j] - acc[j].mean, square = d * (d - d * inverse);
      odd |= (acc[j].squares.scale != 1) | (!Powers<double>::in_range(square) & (d != 0));
    }
    if (odd) {
      for (int j = 0; j < n; ++j) merge(acc[j], {1, x[j], {}});
      return;
    }
    for (int j = 0; j < n; ++j) {
      const double d = x[j] - acc[j].mean;
      acc[j].n += 1;
      acc[j].mean += d * inverse;
      acc[j].squares.sum += d * (x[j] - acc[j].mean);
    }
  }
  void merge(Acc& acc, const Acc& later) const { deviations.merge(acc, later); }
  void finish(const Acc& acc, C& value, Second& mean) const {
    value = static_cast<C>(deviations.result(acc));
    mean = static_cast<C>(acc.n > 0 ? acc.mean : std::numeric_limits<double>::quiet_NaN());
  }

 private:
  void scaled_block(Acc& acc, const C* x, int n) const {
    double mean = 0, squares = 0, from_mean[512];
    for (int i = 0; i < n; ++i) mean += x[i];
    mean /= n;
    for (int i = 0; i < n; ++i) {
      from_mean[i] = x[i] - mean;
      squares += from_mean[i] * from_mean[i];
    }
    merge(acc, {static_cast<double>(n), mean, deviations.squares(squares, from_mean, n)});
  }
};

/// The p-norm, for p other than 0, 1 and the infinities; see PowerSum. (p = 2 in f32: see SumFold.)
template <class Element>
struct NormFold {
  using C = Element;
  using Acc = PowerSum<double>;
  using Second = char;
  static constexpr bool kPositions = false;

  Powers<double> powers;

  static Acc identity() { return {}; }
  void block(Acc& acc, const C* x, int n, std::int64_t) const {
    double sum = 0;
    bool fits = false;
    if (powers.p == 2) {
      const C squares = fold_vectors(
          x, n, C(0), [](const auto& v) { return v * v; }, kPlus);
      fits = Powers<C>::in_range(squares);
      sum = squares;
    } else {
      for (int i = 0; i < n; ++i) sum += powers.power(std::abs(static_cast<double>(x[i])));
      fits = Powers<double>::in_range(sum);
    }
    powers.merge(acc, fits ? Acc{sum, 1} : powers.scaled(x, n));
  }
  void lanes(Acc* __restrict acc, const C* __restrict x, int n, std::int64_t) const {
    if (powers.p == 2) {
      std::int64_t odd = 0;  // as wide as the elements: the loop becomes vectors
      for (int j = 0; j < n; ++j) odd |= !Powers<C>::in_range(x[j] * x[j]) & (x[j] != 0);
      for (int j = 0; j < n; ++j) odd |= acc[j].scale != 1;
      if (!odd) {
        for (int j = 0; j < n; ++j) acc[j].sum += x[j] * x[j];
        return;
      }
    }
    for (int j = 0; j < n; ++j) {
      const double power = powers.power(std::abs(static_cast<double>(x[j])));
      powers.merge(acc[j], Powers<double>::in_range(power) ? Acc{power, 1} : powers.scaled(x + j, 1));
    }
  }
  void merge(Acc& acc, const Acc& later) const { powers.merge(acc, later); }
  void finish(const Acc& acc, C& value, Second&) const { value = static_cast<C>(powers.root(acc)); }
};

/// log(sum(exp(x))) = max + log(sum(exp(x - max))), with the sum rescaled when the maximum grows. An infinite
/// maximum is not subtracted: inf - inf would make a NaN of what is an infinity. The second result is both terms: a large maximum leaves no
/// digits for the other in their sum, and the gradient needs it.
template <class Element>
struct LogSumExpFold {
  using C = Element;
  struct Acc {
    C max;
    double sum;
  };
  struct Second {
    C max, log_sum;
  };
  static constexpr bool kPositions = false;

  static Acc identity() { return {-std::numeric_limits<C>::infinity(), 0}; }
  static C shift(C max) { return std::isinf(max) ? C(0) : max; }

  void block(Acc& acc, const C* x, int n, std::int64_t) const {
    const auto larger = [](const auto& a, const auto& b) { return where(b > a, b, a); };
    const C max = fold_vectors(x, n, identity().max, kSame, larger);
    const C by = shift(max);
    const auto exponential = [by](const simd::FixedVector<C>& v) { return exp_nonpositive(v - by); };
    C sum = fold_vectors(x, n, C(0), exponential, kPlus, -std::numeric_limits<C>::infinity());
    if (std::isinf(max) && max > 0) {  // not subtracted: what is summed is exp(inf)
      sum = max;
      for (int i = 0; i < n; ++i) sum = x[i] != x[i] ? x[i] : sum;
    }
    merge(acc, {max, sum});
  }
  void lanes(Acc* acc, const C* x, int n, std::int64_t) const {
    for (int j = 0; j < n; ++j) merge(acc[j], {x[j], simd::exp(x[j] - shift(x[j]))});
  }
  void merge(Acc& acc, const Acc& later) const {
    const C max = later.max > acc.max ? later.max : acc.max, by = shift(max);
    acc.sum = scaled(acc, by) + scaled(later, by);
    acc.max = max;
  }
  void finish(const Acc& acc, C& value, Second& terms) const {
    const double log_sum = std::log(acc.sum);
    value = static_cast<C>(log_sum + shift(acc.max));
    terms = {acc.max, acc.max == identity().max && acc.sum == 0 ? C(0) : static_cast<C>(log_sum)};
  }

 private:
  // The sum relative to another shift. Where nothing but -inf was seen it is 0 (or NaN), and stays.
  static double scaled(const Acc& acc, C by) {
    const bool nothing = acc.max == -std::numeric_limits<C>::infinity();
    return nothing ? acc.sum : acc.sum * simd::exp(static_cast<double>(shift(acc.max)) - by);
  }
};

}  // namespace ct::fold
