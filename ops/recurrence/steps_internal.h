#pragma once

#include <cotangent/ops/recurrence/cells_internal.h>
#include <cotangent/ops/recurrence/recurrence_internal.h>

// One step of some neighbouring elements of a sequence's state, for both devices. `At` knows which elements these are, and
// moves them between memory and numbers X: load(row, k) and store(x, row, k), of gate k of a row.

namespace ct::recurrence {

template <class C, class T, class At>
CT_FORMULA void make_step(const Step& s, std::int64_t row, const At& at) {
  using X = typename At::X;
  using A = compute_t<T>;
  T* const trace = static_cast<T*>(s.trace) + row * (C::kKept + 1) * s.hidden;
  T* const output = static_cast<T*>(s.output) + row * s.hidden;
  if (s.ended(row)) {
    for (int k = 0; k <= C::kKept; ++k) at.store(X(0), trace, k);
    return at.store(X(0), output, 0);
  }
  const T *const b_ih = static_cast<const T*>(s.b_ih), *const b_hh = static_cast<const T*>(s.b_hh);
  X p[C::kGates], u[C::kGates], kept[C::kKept], next(0), memory(0);
  for (int k = 0; k < C::kGates; ++k) {
    p[k] = at.load(trace, k);
    u[k] = at.load(static_cast<const A*>(s.u) + row * C::kGates * s.hidden, k);
    if (b_ih != nullptr) p[k] = p[k] + at.load(b_ih, k);
    if (b_hh != nullptr) u[k] = u[k] + at.load(b_hh, k);
  }
  T* const h = static_cast<T*>(s.h) + row * s.hidden;
  A* const c = static_cast<A*>(s.c) + (C::kMemory ? row * s.hidden : 0);
  const X past = at.load(h, 0);
  if constexpr (C::kMemory) memory = at.load(c, 0);
  C::step(p, u, past, s.relu, kept, next, memory);
  for (int k = 0; k < C::kKept; ++k) at.store(kept[k], trace, k);
  at.store(past, trace, C::kKept);
  at.store(next, output, 0);
  at.store(next, h, 0);
  if constexpr (C::kMemory) at.store(memory, c, 0);
}

template <class C, class T, class At>
CT_FORMULA void make_step_back(const Step& s, std::int64_t row, const At& at) {
  using X = typename At::X;
  using A = compute_t<T>;
  T *const dp = static_cast<T*>(s.dp) + row * C::kGates * s.hidden, *const du = static_cast<T*>(s.du) +
                                                                                row * C::kGates * s.hidden;
  X x[C::kGates], y[C::kGates];  // dp and du
  for (int k = 0; k < C::kGates; ++k) x[k] = y[k] = X(0);
  if (!s.ended(row)) {
    const T *const trace = static_cast<const T*>(s.trace) + row * (C::kKept + 1) * s.hidden,
                   *const g = static_cast<const T*>(s.g);
    A* const dh = static_cast<A*>(s.dh) + row * s.hidden;
    A* const dc = static_cast<A*>(s.dc) + (C::kMemory ? row * s.hidden : 0);
    X kept[C::kKept], state = at.load(dh, 0), memory(0);
    for (int k = 0; k < C::kKept; ++k) kept[k] = at.load(trace, k);
    if (g != nullptr) state = state + at.load(g + row * s.hidden, 0);
    if constexpr (C::kMemory) memory = at.load(dc, 0);
    C::gradient(kept, at.load(trace, C::kKept), s.relu, x, y, state, memory);
    at.store(C::kDirect ? state : X(0), dh, 0);
    if constexpr (C::kMemory) at.store(memory, dc, 0);
  }
  for (int k = 0; k < C::kGates; ++k) {
    at.store(x[k], dp, k);
    if constexpr (C::kApart) at.store(y[k], du, k);
  }
}

}  // namespace ct::recurrence
