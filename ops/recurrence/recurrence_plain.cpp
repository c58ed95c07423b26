#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/recurrence/cells_internal.h>
#include <cotangent/ops/recurrence/recurrence_internal.h>
#include <cotangent/ops/recurrence/recurrence_plain.h>

// The plain kernels: sequence by sequence and step by step by recurrence_plain.h.

namespace ct::plain::recurrence_calls {
namespace {

using recurrence::Attrs;
using recurrence::Gru;
using recurrence::Lstm;
using recurrence::Rnn;
using std::int64_t;

using Part = Eigen::Map<Column>;
Part part(const Tensor& t, int64_t first, int64_t size) { return {t.data<double>() + first, size}; }
ConstMatrix whole(const Tensor& t) { return plain::read(matrix(t, 0, t.size(0), t.size(1), t.size(1), 1)); }
ConstMatrix read(const Column& x) { return {x.data(), x.size(), 1, MatrixStride(1, 1)}; }
Column product(const ConstMatrix& w, const Column& x) {
  return plain::product(w, read(x)).reshaped().array();
}

struct Sizes {
  int64_t steps, batch, inputs, hidden, gates;
  const Attrs& attrs;
  const Tensor& lengths;

  Sizes(const Shape& x, const Shape& w_hh, const Attrs& a, const Tensor& l)
      : steps(x[0]), batch(x[1]), inputs(x[2]), hidden(w_hh[1]), gates(w_hh[0]), attrs(a), lengths(l) {}
  int64_t time(int64_t n) const { return attrs.reverse ? steps - 1 - n : n; }
  bool ended(int64_t b, int64_t t) const { return lengths.defined() && t >= lengths.data<int64_t>()[b]; }
};

template <class C>
void forward(const Forward& f) {
  const Sizes s(f.in(0).shape(), f.in(2).shape(), f.attrs<Attrs>(), f.in(6));
  const ConstMatrix w_ih = whole(f.in(1)), w_hh = whole(f.in(2));
  const int64_t kept_size = C::kKept * s.hidden, columns = kept_size + s.hidden;
  for (int64_t b = 0; b < s.batch; ++b) {
    Column h = part(f.in(5), b * s.hidden, s.hidden), c, kept(kept_size), next;
    if (C::kMemory) c = part(f.in(7), b * s.hidden, s.hidden);
    for (int64_t n = 0; n < s.steps; ++n) {
      const int64_t t = s.time(n), row = t * s.batch + b;
      Part output = part(f.out(0), row * s.hidden, s.hidden), trace = part(f.out(2), row * columns, columns);
      if (s.ended(b, t)) {
        output.setZero(), trace.setZero();
        continue;
      }
      Column p = product(w_ih, part(f.in(0), row * s.inputs, s.inputs)), u = product(w_hh, h);
      if (f.has(3)) p += part(f.in(3), 0, s.gates);
      if (f.has(4)) u += part(f.in(4), 0, s.gates);
      if constexpr (std::is_same_v<C, Rnn>) {
        kept = next = rnn(p, u, s.attrs.relu);
      } else if constexpr (std::is_same_v<C, Gru>) {
        const GruGates g = gru_gates(p, u);
        kept << g.r, g.z, g.n, g.u_n;
        next = gru(g, h);
      } else {
        const LstmGates g = lstm_gates(p, u);
        kept << g.i, g.f, g.g, g.o, c;
        c = lstm(g, c, next);
      }
      trace << kept, h;
      output = h = next;
    }
    part(f.out(1), b * s.hidden, s.hidden) = h;
    if (C::kMemory) part(f.out(3), b * s.hidden, s.hidden) = c;
  }
}

template <class C>
void backward(const Backward& b) {
  const Sizes s(b.in_meta(0).shape, b.in_meta(2).shape, b.attrs<Attrs>(), b.saved_inputs[6]);
  const ConstMatrix w_ih = whole(b.in(1)), w_hh = whole(b.in(2));
  const int64_t columns = (C::kKept + 1) * s.hidden;
  for (int i = 0; i < b.input_count(); ++i)
    if (b.needs(i) && !b.accumulate(i)) fill_kernel(b.grad_in(i), 0);
  const auto cotangent = [&](int k, int64_t row) -> Column {
    if (!b.grad(k).defined()) return Column::Zero(s.hidden);
    return part(b.grad(k).contiguous(), row * s.hidden, s.hidden);
  };
  // dw += g x^T
  const auto add_outer = [&](int i, const Column& g, const Column& x) {
    if (b.needs(i))
      matrix(b.grad_in(i), 0, g.size(), x.size(), x.size(), 1) +=
          plain::product(read(g), transposed(read(x)));
  };
  for (int64_t q = 0; q < s.batch; ++q) {
    Column dh = cotangent(1, q), dc = C::kMemory ? cotangent(3, q) : Column(), dp(s.gates), du(s.gates);
    for (int64_t n = s.steps - 1; n >= 0; --n) {
      const int64_t t = s.time(n), row = t * s.batch + q;
      if (s.ended(q, t)) continue;
      const Column trace = part(b.out(2), row * columns, columns), h_past = trace.tail(s.hidden);
      const auto kept = [&](int64_t k) -> Column { return trace.segment(k * s.hidden, s.hidden); };
      dh += cotangent(0, row);
      Column around = Column::Zero(s.hidden);
      if constexpr (std::is_same_v<C, Rnn>) {
        du = dp = rnn_gradient(kept(0), dh, s.attrs.relu);
      } else if constexpr (std::is_same_v<C, Gru>) {
        gru_gradient({kept(0), kept(1), kept(2), kept(3)}, h_past, dh, dp, du, around);
      } else {
        const Column dc_after = dc;
        lstm_gradient({kept(0), kept(1), kept(2), kept(3)}, kept(4), dh, dc_after, dp, dc);
        du = dp;
      }
      if (b.needs(0)) part(b.grad_in(0), row * s.inputs, s.inputs) += product(transposed(w_ih), dp);
      add_outer(1, dp, part(b.in(0), row * s.inputs, s.inputs));
      add_outer(2, du, h_past);
      if (b.needs(3)) part(b.grad_in(3), 0, s.gates) += dp;
      if (b.needs(4)) part(b.grad_in(4), 0, s.gates) += du;
      dh = around + product(transposed(w_hh), du);
    }
    if (b.needs(5)) part(b.grad_in(5), q * s.hidden, s.hidden) = dh;
    if (C::kMemory && b.needs(7)) part(b.grad_in(7), q * s.hidden, s.hidden) = dc;
  }
}

}  // namespace
}  // namespace ct::plain::recurrence_calls

CT_KERNELS(plain, recurrence,
           {"rnn", plain::recurrence_calls::forward<recurrence::Rnn>,
            plain::recurrence_calls::backward<recurrence::Rnn>},
           {"gru", plain::recurrence_calls::forward<recurrence::Gru>,
            plain::recurrence_calls::backward<recurrence::Gru>},
           {"lstm", plain::recurrence_calls::forward<recurrence::Lstm>,
            plain::recurrence_calls::backward<recurrence::Lstm>})
