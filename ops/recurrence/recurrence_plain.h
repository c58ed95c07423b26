#pragma once

#include <cotangent/ops/engine/gemm/plain.h>

// One step of each cell and its gradient in the plainest way, of some sequences side by side: a column for each. README.md
// derives them. With h_past and c_past before the step, p = w_ih x + b_ih and u = w_hh h_past + b_hh hold the gates one below
// the other. dp and du are their cotangents; dh and dc those of h and c.

namespace ct::plain {

using Columns = Eigen::ArrayXXd;

inline Columns sigmoid(const Columns& x) { return 1 / (1 + (-x).exp()); }
/// tanh x = e / (e + 2) with e = e^(2 x) - 1, which Eigen computes by vectors. Beyond 20 it is 1.
inline Columns tanh(const Columns& x) {
  const Columns e = (2 * (x > 20).select(20, x)).expm1();
  return e / (e + 2);
}

/// h = f(p + u) with f = tanh, or max(., 0)
inline Columns rnn(const Columns& p, const Columns& u, bool relu) {
  return relu ? (p + u <= 0).select(0, p + u).eval() : tanh(p + u);
}
/// dp = du = dh f'(p + u), with tanh' = 1 - h^2
inline Columns rnn_gradient(const Columns& h, const Columns& dh, bool relu) {
  return relu ? (h <= 0).select(0, dh).eval() : (dh * (1 - h * h)).eval();
}

struct GruGates {
  Columns r, z, n, u_n;
};
/// r, z = s(p + u), n = tanh(p_n + r u_n)
inline GruGates gru_gates(const Columns& p, const Columns& u) {
  const Eigen::Index size = p.rows() / 3;
  const Columns r = sigmoid(p.topRows(size) + u.topRows(size));
  const Columns z = sigmoid(p.middleRows(size, size) + u.middleRows(size, size));
  return {r, z, tanh(p.bottomRows(size) + r * u.bottomRows(size)), u.bottomRows(size)};
}
/// h = (1 - z) n + z h_past
inline Columns gru(const GruGates& g, const Columns& h_past) { return (1 - g.z) * g.n + g.z * h_past; }
/// dp_n = dh (1 - z) (1 - n^2),  dp_z = dh (h_past - n) z (1 - z),  dp_r = dp_n u_n r (1 - r);  du = dp but du_n = dp_n r.
/// h_past's gradient besides that through u is dh z.
inline void gru_gradient(const GruGates& g, const Columns& h_past, const Columns& dh, Columns& dp,
                         Columns& du, Columns& dh_past) {
  const Columns dn = dh * (1 - g.z) * (1 - g.n.square());
  const Columns dz = dh * (h_past - g.n) * g.z * (1 - g.z);
  const Columns dr = dn * g.u_n * g.r * (1 - g.r);
  dp << dr, dz, dn;
  du << dr, dz, dn * g.r;
  dh_past = dh * g.z;
}

struct LstmGates {
  Columns i, f, g, o;
};
/// i, f, o = s(p + u), g = tanh(p_g + u_g)
inline LstmGates lstm_gates(const Columns& p, const Columns& u) {
  const Columns a = p + u;
  const Eigen::Index size = a.rows() / 4;
  return {sigmoid(a.topRows(size)), sigmoid(a.middleRows(size, size)), tanh(a.middleRows(2 * size, size)),
          sigmoid(a.bottomRows(size))};
}
/// c = f c_past + i g,  h = o tanh(c)
inline Columns lstm(const LstmGates& g, const Columns& c_past, Columns& h) {
  const Columns c = g.f * c_past + g.i * g.g;
  h = g.o * tanh(c);
  return c;
}
/// With t = tanh(c), c has the cotangent d = dc + dh o (1 - t^2); of it dp_i = d g i (1 - i), dp_f = d c_past f (1 - f),
/// dp_g = d i (1 - g^2), dc_past = d f; and dp_o = dh t o (1 - o). du = dp.
inline void lstm_gradient(const LstmGates& g, const Columns& c_past, const Columns& dh, const Columns& dc,
                          Columns& dp, Columns& dc_past) {
  const Columns t = tanh(g.f * c_past + g.i * g.g);
  const Columns d = dc + dh * g.o * (1 - t.square());
  dp << d * g.g * g.i * (1 - g.i), d * c_past * g.f * (1 - g.f), d * g.i * (1 - g.g.square()),
      dh * t * g.o * (1 - g.o);
  dc_past = d * g.f;
}

}  // namespace ct::plain
