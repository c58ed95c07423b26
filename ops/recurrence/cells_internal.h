#pragma once

#include <cotangent/ops/engine/map/formulas.h>

// The cells for any number type (see engine/map/formulas.h), and for whole tensors: a step, forward and back. README.md
// derives the gradients; recurrence_plain.h has them once more, to be read.
//
// step: of p and u by gates, h and c before the step, to what is kept, and h and c after it. gradient: of what was kept, h
// before the step, and the cotangents of h and c after it, to dp and du (dp alone unless kApart) and dc before the step;
// where kDirect also to dh before it, as far as that does not come through u.

namespace ct::recurrence {

struct Rnn {
  static constexpr int kGates = 1, kKept = 1;  // h'
  static constexpr bool kApart = false, kDirect = false, kMemory = false;

  template <class X>
  static CT_FORMULA void step(const X* p, const X* u, const X&, bool relu, X* kept, X& h, X&) {
    const X a = p[0] + u[0];
    if (relu)
      h = where(a <= 0, 0, a);
    else
      h = tanh(a);
    kept[0] = h;
  }
  template <class X>
  static CT_FORMULA void gradient(const X* kept, const X&, bool relu, X* dp, X*, X& dh, X&) {
    if (relu)
      dp[0] = where(kept[0] <= 0, 0, dh);
    else
      dp[0] = dh * (1 - kept[0] * kept[0]);
  }
};

struct Gru {
  static constexpr int kGates = 3, kKept = 4;  // r, z, n, u_n
  static constexpr bool kApart = true, kDirect = true, kMemory = false;

  template <class X>
  static CT_FORMULA void step(const X* p, const X* u, const X& past, bool, X* kept, X& h, X&) {
    const X r = sigmoid(p[0] + u[0]), z = sigmoid(p[1] + u[1]), n = tanh(p[2] + r * u[2]);
    kept[0] = r, kept[1] = z, kept[2] = n, kept[3] = u[2];
    h = n + z * (past - n);
  }
  template <class X>
  static CT_FORMULA void gradient(const X* kept, const X& past, bool, X* dp, X* du, X& dh, X&) {
    const X r = kept[0], z = kept[1], n = kept[2];
    dp[2] = dh * (1 - z) * (1 - n * n);
    dp[1] = du[1] = dh * (past - n) * z * (1 - z);
    dp[0] = du[0] = dp[2] * kept[3] * r * (1 - r);
    du[2] = dp[2] * r;
    dh = dh * z;
  }
};

struct Lstm {
  static constexpr int kGates = 4, kKept = 5;  // i, f, g, o, and c before the step
  static constexpr bool kApart = false, kDirect = false, kMemory = true;

  template <class X>
  static CT_FORMULA void step(const X* p, const X* u, const X&, bool, X* kept, X& h, X& c) {
    const X i = sigmoid(p[0] + u[0]), f = sigmoid(p[1] + u[1]), g = tanh(p[2] + u[2]),
            o = sigmoid(p[3] + u[3]);
    kept[0] = i, kept[1] = f, kept[2] = g, kept[3] = o, kept[4] = c;
    c = f * c + i * g;
    h = o * tanh(c);
  }
  template <class X>
  static CT_FORMULA void gradient(const X* kept, const X&, bool, X* dp, X*, X& dh, X& dc) {
    const X i = kept[0], f = kept[1], g = kept[2], o = kept[3], past = kept[4];
    const X t = tanh(f * past + i * g), d = dc + dh * o * (1 - t * t);
    dp[0] = d * g * i * (1 - i);
    dp[1] = d * past * f * (1 - f);
    dp[2] = d * i * (1 - g * g);
    dp[3] = dh * t * o * (1 - o);
    dc = d * f;
  }
};

}  // namespace ct::recurrence
