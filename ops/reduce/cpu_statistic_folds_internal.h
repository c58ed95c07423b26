#pragma once

#include <cotangent/ops/reduce/cpu_folds_internal.h>
#include <cotangent/ops/vector_internal.h>

// Folds that carry several numbers: variance, norms, log-sum-exp. They read their elements once, in blocks that
// are gone over twice while they are in the cache, and merge blocks by exact formulas.

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

namespace ct::reduction {

/// Variance, standard deviation; see Deviations. A block: two passes, with the rounding of the mean taken back.
template <class Element>
struct VarFold {
  using C = Element;
  using Acc = Moments<double>;
  using Second = C;
  static constexpr bool kPositions = false;

  Deviations<double> deviations;

  static Acc identity() { return {}; }
  void block(Acc& acc, const C* x, int n, std::int64_t) const {
    const C guess = static_cast<C>(fold_vectors(x, n, C(0), kSame, kPlus) / static_cast<double>(n));
    const auto from_guess = [guess](const auto& v) { return v - guess; };
    const auto squared = [guess](const auto& v) { return (v - guess) * (v - guess); };
    const double d = fold_vectors(x, n, C(0), from_guess, kPlus, guess);
    const C squares = fold_vectors(x, n, C(0), squared, kPlus, guess);
    if (deviations.root && !Powers<C>::in_range(squares)) return scaled_block(acc, x, n);
    merge(acc, {static_cast<double>(n), guess + d / n, {static_cast<double>(squares) - d * d / n, 1}});
  }
  void lanes(Acc* __restrict acc, const C* __restrict x, int n, std::int64_t) const {
    const bool careful = std::is_same_v<C, double> && deviations.root;  // f64 holds the square of any float
    const double inverse = 1 / (acc[0].n + 1);                          // all lanes have seen the same number
    for (int j = 0; j < n; ++j) {
      const double d = x[j] - acc[j].mean, mean = acc[j].mean + d * inverse, square = d * (x[j] - mean);
      if (careful && !(acc[j].squares.scale == 1 && (Powers<double>::in_range(square) || d == 0))) {
        merge(acc[j], {1, x[j], {}});
        continue;
      }
      acc[j].n += 1;
      acc[j].mean = mean;
      acc[j].squares.sum += square;
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

/// The p-norm, for p other than 0, 1 and the infinities; see PowerSum.
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
  void lanes(Acc* acc, const C* x, int n, std::int64_t) const {
    if (std::is_same_v<C, float> && powers.p == 2) {  // f64 holds the square of any float
      for (int j = 0; j < n; ++j) acc[j].sum += static_cast<double>(x[j]) * static_cast<double>(x[j]);
      return;
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
/// maximum is not subtracted: inf - inf would make a NaN of what is an infinity. The second result is the
/// first before it is rounded to a 16-bit type: the gradient exp(x - y) would show the rounding of a large y.
template <class Element>
struct LogSumExpFold {
  using C = Element;
  struct Acc {
    C max;
    double sum;
  };
  using Second = C;
  static constexpr bool kPositions = false;

  static Acc identity() { return {-std::numeric_limits<C>::infinity(), 0}; }
  static C shift(C max) { return std::isinf(max) ? C(0) : max; }

  void block(Acc& acc, const C* x, int n, std::int64_t) const {
    const auto larger = [](const auto& a, const auto& b) { return (b > a) ? b : a; };
    const C max = fold_vectors(x, n, identity().max, kSame, larger);
    const C by = shift(max);
    const auto exponential = [by](const typename Vector<C>::type& v) { return exp_nonpositive<C>(v - by); };
    C sum = fold_vectors(x, n, C(0), exponential, kPlus, -std::numeric_limits<C>::infinity());
    if (std::isinf(max) && max > 0) {  // not subtracted: what is summed is exp(inf)
      sum = max;
      for (int i = 0; i < n; ++i) sum = x[i] != x[i] ? x[i] : sum;
    }
    merge(acc, {max, sum});
  }
  void lanes(Acc* acc, const C* x, int n, std::int64_t) const {
    for (int j = 0; j < n; ++j) merge(acc[j], {x[j], vector_exp(x[j] - shift(x[j]))});
  }
  void merge(Acc& acc, const Acc& later) const {
    const C max = later.max > acc.max ? later.max : acc.max, by = shift(max);
    acc.sum = scaled(acc, by) + scaled(later, by);
    acc.max = max;
  }
  void finish(const Acc& acc, C& value, Second& exact) const {
    value = exact = static_cast<C>(std::log(acc.sum) + shift(acc.max));
  }

 private:
  // The sum relative to another shift. Where nothing but -inf was seen it is 0 (or NaN), and stays.
  static double scaled(const Acc& acc, C by) {
    const bool nothing = acc.max == -std::numeric_limits<C>::infinity();
    return nothing ? acc.sum : acc.sum * vector_exp(static_cast<double>(shift(acc.max)) - by);
  }
};

}  // namespace ct::reduction

#pragma GCC diagnostic pop
