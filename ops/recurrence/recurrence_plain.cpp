#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/recurrence/cells_internal.h>
#include <cotangent/ops/recurrence/recurrence_internal.h>
#include <cotangent/ops/recurrence/recurrence_plain.h>

// The plain kernels: step by step by recurrence_plain.h.

namespace ct::recurrence {
namespace {

using namespace plain;

using std::int64_t;

using Part = Eigen::Map<Columns>;
/// Step t of a tensor [steps, batch, size].
Part step(const Tensor& x, int64_t t, int64_t batch, int64_t size) {
  return {x.data<double>() + t * batch * size, size, batch};
}
Eigen::Map<Column> vector(const Tensor& x) { return {x.data<double>(), x.numel()}; }
ConstMatrix whole(const Tensor& t) { return plain::read(matrix(t, 0, t.size(0), t.size(1), t.size(1), 1)); }
/// x^T
using Read = Eigen::Ref<const Columns>;
ConstMatrix rows(const Read& x) { return {x.data(), x.cols(), x.rows(), MatrixStride(x.outerStride(), 1)}; }
/// w x
Columns product(const ConstMatrix& w, const Read& x) {
  Matrix of_rows = plain::product(rows(x), transposed(w));
  return Part(of_rows.data(), w.rows(), x.cols());
}

struct Sizes {
  int64_t steps, batch, inputs, hidden, gates;
  const Attrs& attrs;
  const Tensor& lengths;

  Sizes(const Shape& x, const Shape& w_hh, const Attrs& a, const Tensor& l)
      : steps(x[0]), batch(x[1]), inputs(x[2]), hidden(w_hh[1]), gates(w_hh[0]), attrs(a), lengths(l) {}
  int64_t time(int64_t n) const { return attrs.reverse ? steps - 1 - n : n; }

  /// Sequences that have ended at time t have zeros in x, whatever stood there, or what they have in `before`.
  template <class X>
  void clear_ended(X&& x, int64_t t) const {
    each_ended(t, [&](int64_t b) { x.col(b).setZero(); });
  }
  void keep_ended(Columns& x, const Columns& before, int64_t t) const {
    each_ended(t, [&](int64_t b) { x.col(b) = before.col(b); });
  }

 private:
  template <class F>
  void each_ended(int64_t t, const F& f) const {
    for (int64_t b = 0; lengths.defined() && b < batch; ++b)
      if (t >= lengths.data<int64_t>()[b]) f(b);
  }
};

template <class C>
void forward_plain(const Forward& f) {
  const Sizes s(f.in(0).shape(), f.in(2).shape(), f.attrs<Attrs>(), f.in(6));
  if (s.batch == 0) return;
  const ConstMatrix w_ih = whole(f.in(1)), w_hh = whole(f.in(2));
  Columns h = step(f.in(5), 0, s.batch, s.hidden), c, kept(C::kKept * s.hidden, s.batch);
  if (C::kMemory) c = step(f.in(7), 0, s.batch, s.hidden);
  for (int64_t n = 0; n < s.steps; ++n) {
    const int64_t t = s.time(n);
    Part output = step(f.out(0), t, s.batch, s.hidden);
    Part trace = step(f.out(2), t, s.batch, kept.rows() + s.hidden);
    Columns p = product(w_ih, step(f.in(0), t, s.batch, s.inputs)), u = product(w_hh, h), h_new, c_new;
    if (f.has(3)) p.colwise() += vector(f.in(3));
    if (f.has(4)) u.colwise() += vector(f.in(4));
    if constexpr (std::is_same_v<C, Rnn>) {
      kept = h_new = rnn(p, u, s.attrs.relu);
    } else if constexpr (std::is_same_v<C, Gru>) {
      const GruGates g = gru_gates(p, u);
      kept << g.r, g.z, g.n, g.u_n;
      h_new = gru(g, h);
    } else {
      const LstmGates g = lstm_gates(p, u);
      kept << g.i, g.f, g.g, g.o, c;
      c_new = lstm(g, c, h_new);
      s.keep_ended(c_new, c, t);
      c = c_new;
    }
    trace << kept, h;
    output = h_new;
    s.clear_ended(trace, t), s.clear_ended(output, t);
    s.keep_ended(h_new, h, t);
    h = h_new;
  }
  step(f.out(1), 0, s.batch, s.hidden) = h;
  if (C::kMemory) step(f.out(3), 0, s.batch, s.hidden) = c;
}

template <class C>
void backward_plain(const Backward& b) {
  const Sizes s(b.in_meta(0).shape, b.in_meta(2).shape, b.attrs<Attrs>(), b.saved_inputs[6]);
  const ConstMatrix w_ih = whole(b.in(1)), w_hh = whole(b.in(2));
  for (int i = 0; i < b.input_count(); ++i)
    if (b.needs(i) && !b.accumulate(i)) fill_kernel(b.grad_in(i), 0);
  if (s.batch == 0) return;
  const auto cotangent = [&](int k, int64_t t) -> Columns {
    if (!b.grad(k).defined()) return Columns::Zero(s.hidden, s.batch);
    return step(b.grad(k).contiguous(), t, s.batch, s.hidden);
  };
  // dw += g x^T
  const auto add_outer = [&](int i, const Columns& g, const Read& x) {
    if (b.needs(i))
      matrix(b.grad_in(i), 0, g.rows(), x.rows(), x.rows(), 1) +=
          plain::product(transposed(rows(g)), rows(x));
  };
  const auto add_sum = [&](int i, const Columns& g) {
    if (b.needs(i)) vector(b.grad_in(i)) += g.rowwise().sum();
  };
  Columns dh = cotangent(1, 0), dc, dp(s.gates, s.batch), du(s.gates, s.batch);
  if (C::kMemory) dc = cotangent(3, 0);
  for (int64_t n = s.steps - 1; n >= 0; --n) {
    const int64_t t = s.time(n);
    const Part trace = step(b.out(2), t, s.batch, (C::kKept + 1) * s.hidden);
    const Columns h_past = trace.bottomRows(s.hidden), dh_now = dh + cotangent(0, t);
    const auto kept = [&](int64_t k) -> Columns { return trace.middleRows(k * s.hidden, s.hidden); };
    Columns around = Columns::Zero(s.hidden, s.batch);
    if constexpr (std::is_same_v<C, Rnn>) {
      du = dp = rnn_gradient(kept(0), dh_now, s.attrs.relu);
    } else if constexpr (std::is_same_v<C, Gru>) {
      gru_gradient({kept(0), kept(1), kept(2), kept(3)}, h_past, dh_now, dp, du, around);
    } else {
      const Columns dc_now = dc;
      lstm_gradient({kept(0), kept(1), kept(2), kept(3)}, kept(4), dh_now, dc_now, dp, dc);
      s.keep_ended(dc, dc_now, t);
      du = dp;
    }
    s.clear_ended(dp, t), s.clear_ended(du, t);
    Columns x = step(b.in(0), t, s.batch, s.inputs);
    s.clear_ended(x, t);
    if (b.needs(0)) {
      Columns dx = product(transposed(w_ih), dp);
      s.clear_ended(dx, t);
      step(b.grad_in(0), t, s.batch, s.inputs) += dx;
    }
    add_outer(1, dp, x), add_outer(2, du, h_past);
    add_sum(3, dp), add_sum(4, du);
    around += product(transposed(w_hh), du);
    s.keep_ended(around, dh, t);
    dh = around;
  }
  if (b.needs(5)) step(b.grad_in(5), 0, s.batch, s.hidden) = dh;
  if (C::kMemory && b.needs(7)) step(b.grad_in(7), 0, s.batch, s.hidden) = dc;
}

}  // namespace
}  // namespace ct::recurrence

CT_KERNELS(plain, recurrence,
           {"rnn", recurrence::forward_plain<recurrence::Rnn>, recurrence::backward_plain<recurrence::Rnn>},
           {"gru", recurrence::forward_plain<recurrence::Gru>, recurrence::backward_plain<recurrence::Gru>},
           {"lstm", recurrence::forward_plain<recurrence::Lstm>,
            recurrence::backward_plain<recurrence::Lstm>})
