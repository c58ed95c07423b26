#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/engine/fold/sum_to.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/recurrence/recurrence_internal.h>

// A whole sequence: products for all steps at once around the loop over the steps, which has a product and a kernel each.

namespace ct::recurrence {
namespace {

using std::int64_t;

struct Sizes {
  int64_t steps, batch, inputs, hidden, gates, columns;  // gates and columns in elements of a row

  Sizes(const Shape& x, const Shape& w_hh, const Cell& cell)
      : steps(x[0]),
        batch(x[1]),
        inputs(x[2]),
        hidden(w_hh[1]),
        gates(cell.gates * w_hh[1]),
        columns(cell.columns() * w_hh[1]) {}
  int64_t rows() const { return steps * batch; }
};

// The address of an element; null in a tensor that is not there, or empty.
void* at(const Tensor& t, int64_t element) {
  if (!t.defined() || t.numel() == 0) return nullptr;
  return static_cast<char*>(t.raw_data()) + element * static_cast<int64_t>(size_of(t.dtype()));
}

/// A matrix in a tensor, from `at` on.
struct Matrix {
  const Tensor& tensor;
  int64_t row, col, at = 0;

  Matrix t() const { return {tensor, col, row, at}; }
};

// c = a b (+ c), c of m x n without gaps unless c_row says otherwise.
gemm::Product product_of(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, const Tensor& c,
                         int64_t c_row, bool accumulate) {
  gemm::Product p;
  p.dtype = a.tensor.dtype(), p.c_dtype = c.dtype();
  p.m = m, p.n = n, p.k = k;
  p.a_row = a.row, p.a_col = a.col, p.b_row = b.row, p.b_col = b.col, p.c_row = c_row;
  p.a = at(a.tensor, a.at), p.b = at(b.tensor, b.at), p.c = c.raw_data();
  p.accumulate = accumulate;
  return p;
}
void multiply(const gemm::Product& p, const gemm::Backend& backend) {
  if (p.m > 0 && p.n > 0) backend.run(p);
}

// w^T where products read w^T, every step, more cheaply than they turn w: on the CPU.
Tensor turned(const Tensor& w, const gemm::Backend& backend) {
  if (!backend.any_strides) return {};
  return contiguous(Tensor::from_storage(w.impl()->storage, {w.size(1), w.size(0)}, {1, w.size(1)},
                                         w.storage_offset(), w.dtype()));
}

// The state that a loop works on: `given` in the accumulate type, in memory of its own.
Tensor working(const Tensor& given, const Shape& shape, DType dtype, Device device) {
  Tensor t = Tensor::allocate(shape, accumulate_type(dtype), device);
  if (given.defined())
    copy_kernel(t, given);
  else
    fill_kernel(t, 0);
  return t;
}

}  // namespace

void forward(const Forward& f, const Cell& cell, const Steps& steps) {
  const Tensor &x = f.in(0), &w_ih = f.in(1), &w_hh = f.in(2), &h = f.out(1), &trace = f.out(2);
  const auto& attrs = f.attrs<Attrs>();
  const Sizes s(x.shape(), w_hh.shape(), cell);
  const DType dtype = x.dtype();
  copy_kernel(h, f.in(5));
  const Tensor c = cell.memory ? working(f.in(7), h.shape(), dtype, x.device()) : Tensor{};
  const Tensor u = Tensor::allocate({s.batch, s.gates}, accumulate_type(dtype), x.device());
  multiply(
      product_of(s.rows(), s.gates, s.inputs, {x, s.inputs, 1}, {w_ih, 1, s.inputs}, trace, s.columns, false),
      steps.backend);
  const Tensor turned_w = turned(w_hh, steps.backend);
  const Matrix w = turned_w.defined() ? Matrix{turned_w, s.gates, 1} : Matrix{w_hh, 1, s.hidden};
  // Sequences do not meet: threads take some of them through all steps.
  parallel_for(s.batch, steps.rows, [&](int64_t begin, int64_t end) {
    gemm::Product p =
        product_of(end - begin, s.gates, s.hidden, {h, s.hidden, 1, begin * s.hidden}, w, u, s.gates, false);
    p.c = at(u, begin * s.gates);
    Step step{.dtype = dtype, .relu = attrs.relu, .rows = end - begin, .hidden = s.hidden};
    step.lengths = static_cast<const int64_t*>(at(f.in(6), begin));
    step.u = p.c;
    step.b_ih = at(f.in(3), 0), step.b_hh = at(f.in(4), 0);
    step.h = at(h, begin * s.hidden), step.c = at(c, begin * s.hidden);
    for (int64_t n = 0; n < s.steps; ++n) {
      step.t = attrs.reverse ? s.steps - 1 - n : n;
      const int64_t row = step.t * s.batch + begin;
      step.trace = at(trace, row * s.columns), step.output = at(f.out(0), row * s.hidden);
      multiply(p, steps.backend);
      steps.forward(step);
    }
  });
  if (cell.memory) copy_kernel(f.out(3), c);
}

void backward(const Backward& b, const Cell& cell, const Steps& steps) {
  const Tensor &w_hh = b.in(2), &trace = b.out(2), &lengths = b.saved_inputs[6];
  const auto& attrs = b.attrs<Attrs>();
  const Sizes s(b.in_meta(0).shape, w_hh.shape(), cell);
  const DType dtype = trace.dtype();
  const Shape gates{s.steps, s.batch, s.gates}, state{s.batch, s.hidden};
  const Tensor dp = Tensor::allocate(gates, dtype, trace.device());
  const Tensor du = cell.apart ? Tensor::allocate(gates, dtype, trace.device()) : dp;
  const Tensor dh = working(b.grad(1), state, dtype, trace.device());
  const Tensor dc = cell.memory ? working(b.grad(3), state, dtype, trace.device()) : Tensor{};
  parallel_for(s.batch, steps.rows, [&](int64_t begin, int64_t end) {
    gemm::Product p =
        product_of(end - begin, s.hidden, s.gates, {du, s.gates, 1}, {w_hh, s.hidden, 1}, dh, s.hidden, true);
    p.c = at(dh, begin * s.hidden);
    Step step{.dtype = dtype, .relu = attrs.relu, .rows = end - begin, .hidden = s.hidden};
    step.lengths = static_cast<const int64_t*>(at(lengths, begin));
    step.dh = p.c, step.dc = at(dc, begin * s.hidden);
    for (int64_t n = s.steps - 1; n >= 0; --n) {
      step.t = attrs.reverse ? s.steps - 1 - n : n;
      const int64_t row = step.t * s.batch + begin;
      step.trace = at(trace, row * s.columns), step.g = at(b.grad(0), row * s.hidden);
      step.dp = at(dp, row * s.gates), step.du = at(du, row * s.gates);
      steps.backward(step);
      p.a = step.du;
      multiply(p, steps.backend);
    }
  });

  const auto product = [&](int i, int64_t m, int64_t n, int64_t k, const Matrix& x, const Matrix& y) {
    if (b.needs(i)) multiply(product_of(m, n, k, x, y, b.grad_in(i), n, b.accumulate(i)), steps.backend);
  };
  const Matrix p{dp, s.gates, 1}, u{du, s.gates, 1};
  if (b.needs(0)) product(0, s.rows(), s.inputs, s.gates, p, {b.in(1), s.inputs, 1});
  if (b.needs(1)) product(1, s.gates, s.inputs, s.rows(), p.t(), {b.in(0), s.inputs, 1});
  product(2, s.gates, s.hidden, s.rows(), u.t(), {trace, s.columns, 1, s.columns - s.hidden});
  if (b.needs(3)) sum_to_into(b.grad_in(3), dp, b.accumulate(3));
  if (b.needs(4)) {
    // The same sum as of b_ih, unless du is another.
    if (!cell.apart && b.needs(3) && !b.accumulate(3) && !b.accumulate(4) &&
        b.grad_dtype(3) == b.grad_dtype(4))
      copy_kernel(b.grad_in(4), b.grad_in(3));
    else
      sum_to_into(b.grad_in(4), du, b.accumulate(4));
  }
  if (b.needs(5)) copy_kernel(b.grad_in(5), dh);
  if (cell.memory && b.needs(7)) copy_kernel(b.grad_in(7), dc);
}

}  // namespace ct::recurrence
