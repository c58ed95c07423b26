#include <cotangent/ops/recurrence/recurrence.h>

#include <array>
#include <vector>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/linear/linear.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/recurrence/cells_internal.h>
#include <cotangent/ops/recurrence/recurrence_internal.h>
#include <cotangent/ops/reduce/reduce.h>

namespace ct {
CT_KERNEL_TABLES(recurrence)
namespace {

using recurrence::Attrs;
using recurrence::Gru;
using recurrence::kCell;
using recurrence::Lstm;
using recurrence::Rnn;

template <class C>
void infer(Infer& in) {
  const Tensor &x = in.in(0), &w_ih = in.in(1), &w_hh = in.in(2), &lengths = in.in(6);
  const char* const op = in.op.name;
  CT_CHECK(x.dim() == 3 && x.size(0) > 0, ShapeError, op, "x is ", describe(x),
           "; it must be [steps, batch, inputs] with at least one step");
  CT_CHECK(w_hh.dim() == 2 && w_hh.size(1) > 0 && w_hh.size(0) == C::kGates * w_hh.size(1), ShapeError, op,
           "w_hh is ", describe(w_hh), "; it must be [", C::kGates, " hidden, hidden]");
  const std::int64_t hidden = w_hh.size(1), gates = w_hh.size(0);
  CT_CHECK(w_ih.dim() == 2 && w_ih.size(0) == gates && w_ih.size(1) == x.size(2), ShapeError, op, "w_ih is ",
           describe(w_ih), ", x is ", describe(x), "; w_ih must be ", Shape{gates, x.size(2)});
  for (int i : {3, 4})
    CT_CHECK(!in.in(i).defined() || in.in(i).shape() == Shape{gates}, ShapeError, op,
             in.op.inputs[static_cast<std::size_t>(i)].name, " is ", describe(in.in(i)), "; it must be ",
             Shape{gates});
  const Shape state{x.size(1), hidden};
  for (int i : {5, 7})
    CT_CHECK(i >= in.input_count() || in.in(i).shape() == state, ShapeError, op,
             in.op.inputs[static_cast<std::size_t>(i)].name, " is ", describe(in.in(i)), "; it must be ",
             state, ": [batch, hidden]");
  CT_CHECK(!lengths.defined() || lengths.dtype() == i64, DTypeError, op, "lengths is ", describe(lengths),
           "; it must be i64: convert with .to(i64)");
  CT_CHECK(!lengths.defined() || lengths.shape() == Shape{x.size(1)}, ShapeError, op, "lengths is ",
           describe(lengths), "; it must be ", Shape{x.size(1)}, ", a number for each sequence");
  in.output({x.size(0), x.size(1), hidden}, x.dtype());
  in.output(state, x.dtype());
  in.output({x.size(0), x.size(1), kCell<C>.columns() * hidden}, x.dtype());
  if (C::kMemory) in.output(state, x.dtype());
}

Cost cost(std::span<const TensorMeta> in, std::span<const TensorMeta>, AttrsView) {
  const double rows = static_cast<double>(in[0].shape[0] * in[0].shape[1]);
  return {.flops = 2 * rows * static_cast<double>(numel(in[1].shape) + numel(in[2].shape))};
}

// ---- The rule: the steps once more as ops on tensors, by the cells' formulas -----------------------------------

template <class C>
void rule(const Backward& b) {
  const Tensor &w_ih = b.in(1), &w_hh = b.in(2), &lengths = b.saved_inputs[6];
  const auto& attrs = b.attrs<Attrs>();
  const std::int64_t steps = b.in(0).size(0), rows = steps * b.in(0).size(1);
  const Tensor projected = linear(b.in(0), w_ih, b.saved_inputs[3]);
  const auto time = [&](std::int64_t n) { return attrs.reverse ? steps - 1 - n : n; };
  // `on` where a sequence goes on at step t, `off` where it has ended.
  const auto going = [&](std::int64_t t, const Tensor& on, const Tensor& off) {
    return lengths.defined() ? where(gt(lengths, t).unsqueeze(1), on, off) : on;
  };

  struct Step {
    std::vector<Tensor> kept;
    Tensor h;  // before the step
  };
  std::vector<Step> made;
  Tensor h = b.in(5), c = C::kMemory ? b.in(7) : h;
  for (std::int64_t n = 0; n < steps; ++n) {
    const std::vector<Tensor> p = projected[time(n)].chunk(C::kGates, -1),
                              u = linear(h, w_hh, b.saved_inputs[4]).chunk(C::kGates, -1);
    made.push_back({std::vector<Tensor>(C::kKept), h});
    Tensor next, memory = c;
    C::step(p.data(), u.data(), h, attrs.relu, made.back().kept.data(), next, memory);
    h = going(time(n), next, h), c = going(time(n), memory, c);
  }

  const Tensor none = zeros_like(h);
  const auto grad_or_none = [&](int k) { return b.grad(k).defined() ? b.grad(k) : none; };
  Tensor dh = grad_or_none(1), dc = C::kMemory ? grad_or_none(3) : none;
  std::vector<Tensor> dps(static_cast<std::size_t>(steps)), dus(dps), pasts(dps);
  for (std::int64_t n = steps - 1; n >= 0; --n) {
    const std::int64_t t = time(n);
    const auto i = static_cast<std::size_t>(t);
    const Step& step = made[static_cast<std::size_t>(n)];
    std::vector<Tensor> p(C::kGates), u(p);
    Tensor state = b.grad(0).defined() ? dh + b.grad(0)[t] : dh, memory = dc;
    C::gradient(step.kept.data(), step.h, attrs.relu, p.data(), u.data(), state, memory);
    const auto joined = [&](const std::vector<Tensor>& gates) {
      const Tensor all = concat(gates, -1);
      return going(t, all, zeros_like(all));
    };
    dps[i] = joined(p), dus[i] = C::kApart ? joined(u) : dps[i], pasts[i] = step.h;
    dh = going(t, C::kDirect ? state : none, dh) + matmul(dus[i], w_hh);
    dc = going(t, memory, dc);
  }
  const auto stacked = [&](const std::vector<Tensor>& list) {
    const Tensor all = stack(list);
    return all.reshape({rows, all.size(2)});
  };
  const Tensor dp = stacked(dps), du = stacked(dus);
  if (b.needs(0)) b.set_grad_in(0, matmul(dp, w_ih).reshape(b.in_meta(0).shape));
  if (b.needs(1)) b.set_grad_in(1, matmul(dp.t(), b.in(0).reshape({rows, w_ih.size(1)})));
  if (b.needs(2)) b.set_grad_in(2, matmul(du.t(), stacked(pasts)));
  if (b.needs(3)) b.set_grad_in(3, sum(dp, {0}));
  if (b.needs(4)) b.set_grad_in(4, sum(du, {0}));
  if (b.needs(5)) b.set_grad_in(5, dh);
  if (C::kMemory && b.needs(7)) b.set_grad_in(7, dc);
}

// The kernels read x, the weights, lengths and the trace; the rule makes the steps again.
constexpr std::array<InputDef, 8> inputs_of(const char* all) {
  return {{{.name = "x", .needs = all, .accumulates = true, .contiguous = true},
           {.name = "w_ih", .needs = all, .accumulates = true, .wide_grad = true, .contiguous = true},
           {.name = "w_hh", .needs = all, .accumulates = true, .wide_grad = true, .contiguous = true},
           {.name = "b_ih",
            .needs = all,
            .accumulates = true,
            .wide_grad = true,
            .optional = true,
            .contiguous = true},
           {.name = "b_hh",
            .needs = all,
            .accumulates = true,
            .wide_grad = true,
            .optional = true,
            .contiguous = true},
           {.name = "h0", .needs = all, .contiguous = true},
           {.name = "lengths", .gradient = false, .optional = true, .any_dtype = true, .contiguous = true},
           {.name = "c0", .needs = all, .contiguous = true}}};
}
constexpr std::array<InputDef, 8> kInputs = inputs_of("x w_ih w_hh b_ih b_hh h0 lengths trace"),
                                  kLstmInputs = inputs_of("x w_ih w_hh b_ih b_hh h0 lengths c0 trace");
constexpr OutputDef kOutputs[] = {{.name = "output", .contiguous = true},
                                  {.name = "h"},
                                  {.name = "trace", .gradient = false, .contiguous = true},
                                  {.name = "c"}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, reverse), CT_ATTRIBUTE(Attrs, relu)};

template <class C>
consteval OpDef define(const char* name, const char* formula) {
  return checked({.name = name,
                  .formula = formula,
                  .inputs = std::span(C::kMemory ? kLstmInputs : kInputs).first(C::kMemory ? 8 : 7),
                  .outputs = std::span(kOutputs).first(C::kMemory ? 4 : 3),
                  .attributes = kAttributes,
                  .infer = infer<C>,
                  .kernels = &kernel_tables::recurrence,
                  .rule = rule<C>,
                  .undefined_grads = true,
                  .autocast = AutocastPolicy::lower,
                  .cost = cost});
}

constexpr OpDef k_rnn = define<Rnn>("rnn", "h_t = tanh(w_ih x_t + b_ih + w_hh h_(t-1) + b_hh)");
constexpr OpDef k_gru = define<Gru>("gru", "h_t = (1 - z) n + z h_(t-1), n = tanh(p_n + r u_n)");
constexpr OpDef k_lstm = define<Lstm>("lstm", "c_t = f c_(t-1) + i g, h_t = o tanh(c_t)");

// A state that was left out is zeros.
Tensor state_of(const Tensor& given, const Tensor& x, const Tensor& w_hh) {
  if (given.defined() || x.dim() != 3 || w_hh.dim() != 2) return given;
  return zeros({x.size(1), w_hh.size(1)}, {.dtype = x.dtype(), .device = x.device()});
}

}  // namespace

Recurrence rnn(const Tensor& x, const Tensor& h0, const RecurrentWeights& w, const RecurrenceOptions& o,
               Flag relu) {
  const auto [output, h] = dispatch_n<2>(
      k_rnn, {x, w.w_ih, w.w_hh, w.b_ih, w.b_hh, state_of(h0, x, w.w_hh), o.lengths}, Attrs{o.reverse, relu});
  return {output, h};
}
Recurrence gru(const Tensor& x, const Tensor& h0, const RecurrentWeights& w, const RecurrenceOptions& o) {
  const auto [output, h] =
      dispatch_n<2>(k_gru, {x, w.w_ih, w.w_hh, w.b_ih, w.b_hh, state_of(h0, x, w.w_hh), o.lengths},
                    Attrs{o.reverse, false});
  return {output, h};
}
Recurrence lstm(const Tensor& x, const Tensor& h0, const Tensor& c0, const RecurrentWeights& w,
                const RecurrenceOptions& o) {
  const auto [output, h, trace, c] = dispatch_n<4>(
      k_lstm,
      {x, w.w_ih, w.w_hh, w.b_ih, w.b_hh, state_of(h0, x, w.w_hh), o.lengths, state_of(c0, x, w.w_hh)},
      Attrs{o.reverse, false});
  return {output, h, c};
}

CT_ROOM(recurrence, &k_rnn, &k_gru, &k_lstm)
}  // namespace ct
