#pragma once

#include <cmath>
#include <cstdint>

#include <cotangent/core/base/dtype.h>
#include <cotangent/ops/engine/scan/scan.h>

// The operations of scans, for both devices. An element becomes a carry, carries are joined, before with after, and a
// carry has a value. identity() joined with a carry is that carry.

namespace ct::scan {

template <class C>
struct Sum {
  using Carry = C;
  CT_HD Carry identity() const { return 0; }
  CT_HD Carry element(C x, C, std::int64_t) const { return x; }
  CT_HD Carry join(Carry before, Carry after) const { return before + after; }
  CT_HD static C value(Carry c) { return c; }
};

template <class C>
struct Product : Sum<C> {
  CT_HD C identity() const { return 1; }
  CT_HD C join(C before, C after) const { return before * after; }
};

template <class C>
struct LogSumExp : Sum<C> {
  CT_HD C identity() const { return -static_cast<C>(INFINITY); }
  CT_HD C join(C a, C b) const {
    if (a != a || b != b) return a + b;
    const C high = a > b ? a : b, low = a > b ? b : a;
    if (std::fabs(high) == static_cast<C>(INFINITY)) return high;  // where inf - inf would be NaN
    return high + std::log1p(std::exp(low - high));
  }
};

template <class C>
struct Found {
  C value;
  std::int64_t at;  // negative: none yet
};
template <class C>
struct Extremum {
  using Carry = Found<C>;
  bool smallest;
  CT_HD Carry identity() const { return {0, -1}; }
  CT_HD Carry element(C x, C, std::int64_t at) const { return {x, at}; }
  CT_HD Carry join(const Carry& a, const Carry& b) const {
    if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
    // A NaN among the earlier ones makes the comparison false and stays.
    return b.value != b.value || (smallest ? b.value <= a.value : b.value >= a.value) ? b : a;
  }
  CT_HD static C value(const Carry& c) { return c.value; }
};

// Effect of a stretch of a recurrence on the value before it: y -> a y + b.
template <class C>
struct Step {
  C a, b;
};
template <class C>
struct Recurrence {
  using Carry = Step<C>;
  CT_HD Carry identity() const { return {1, 0}; }
  CT_HD Carry element(C x, C a, std::int64_t) const { return {a, x}; }
  CT_HD Carry join(const Carry& f, const Carry& g) const {
    // A product of coefficients may leave the range where what it is multiplied by is 0.
    return {f.a * g.a, f.b == 0 ? g.b : f.b * g.a + g.b};
  }
  CT_HD static C value(const Carry& c) { return c.b; }
};

/// Calls f(operation, TypeTag<T>{}) for elements of a floating type T, whose carries are of type C.
template <class C, class T, class F>
void visit_floats(Kind kind, F&& f) {
  const TypeTag<T> type;
  switch (kind) {
    case Kind::sum: return f(Sum<C>{}, type);
    case Kind::product: return f(Product<C>{}, type);
    case Kind::logsumexp: return f(LogSumExp<C>{}, type);
    case Kind::maximum:
    case Kind::minimum: return f(Extremum<C>{kind == Kind::minimum}, type);
    case Kind::recurrence: return f(Recurrence<C>{}, type);
  }
}
/// The same for i64. Sums and products of unsigned numbers wrap.
template <class F>
void visit_integers(Kind kind, F&& f) {
  if (kind == Kind::sum) return f(Sum<std::uint64_t>{}, TypeTag<std::uint64_t>{});
  if (kind == Kind::product) return f(Product<std::uint64_t>{}, TypeTag<std::uint64_t>{});
  f(Extremum<std::int64_t>{kind == Kind::minimum}, TypeTag<std::int64_t>{});
}

}  // namespace ct::scan
