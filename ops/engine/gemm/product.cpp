#include <cotangent/ops/engine/fold/sum_to.h>
#include <cotangent/ops/engine/gemm/product.h>
#include <cotangent/ops/engine/walk/axes.h>
#include <cotangent/ops/engine/walk/copy.h>

namespace ct::gemm {
namespace {

// Whether a GEMM that wants one stride of 1 can read this matrix. The stride of an axis of size 1 is free.
bool is_plain(std::int64_t rows, std::int64_t cols, std::int64_t row, std::int64_t col) {
  const bool row_major = (col == 1 || cols == 1) && (row >= cols || rows == 1);
  const bool col_major = (row == 1 || rows == 1) && (col >= rows || cols == 1);
  return row_major || col_major;
}

// A product of stacks as `calls` calls of a GEMM: one for every position along the outer axes.
struct Plan {
  Product call;
  Axes<3> outer;  // of a, b and c
  std::int64_t calls = 1;
};

// Axis i of the stack's leading axes, counted from the innermost; absent axes have size 1.
std::int64_t size_at(const Stack& s, int i) {
  return i < s.batch.size() ? s.batch[s.batch.size() - 1 - i] : 1;
}
std::int64_t step_at(const Stack& s, int i) {
  return size_at(s, i) > 1 ? s.steps[s.batch.size() - 1 - i] : 0;
}

// Puts an axis into the rows of A and C. That is right where B is the same all along it and the rows go on
// at the same distance.
bool fold_axis(Product& p, std::int64_t size, const Axes<3>::Steps& steps, bool any_strides) {
  const auto [a, b, c] = steps;
  if (b != 0) return false;
  const std::int64_t a_row = p.m == 1 ? a : p.a_row;
  const std::int64_t c_row = p.m == 1 ? c : p.c_row;
  if (a != p.m * a_row || c != p.m * c_row) return false;
  if (!any_strides && !is_plain(p.m * size, p.k, a_row, p.a_col)) return false;
  p.m *= size;
  p.a_row = a_row;
  p.c_row = c_row;
  return true;
}

Plan cut(const Stack& a, const Stack& b, const Stack& c, bool accumulate, bool any_strides) {
  Plan plan;
  plan.call = product_of(a, b, c, accumulate);
  Product& p = plan.call;

  Axes<3>& axes = plan.outer;
  const int rank = std::max({a.batch.size(), b.batch.size(), c.batch.size()});
  const auto size = [&](int i) { return std::max({size_at(a, i), size_at(b, i), size_at(c, i)}); };
  const auto steps = [&](int i) { return Axes<3>::Steps{step_at(a, i), step_at(b, i), step_at(c, i)}; };
  int folded = 0;
  while (folded < rank && (size(folded) == 1 || fold_axis(p, size(folded), steps(folded), any_strides)))
    ++folded;
  for (int i = rank - 1; i >= folded; --i) axes.append(size(i), steps(i));
  if (axes.rank == 0) return plan;
  // The longest axis becomes the batch of a call, the others are walked.
  int longest = 0;
  for (int i = 1; i < axes.rank; ++i)
    if (axes.size[i] >= axes.size[longest]) longest = i;
  p.batch = axes.size[longest];
  const auto& batch = axes.stride[longest];
  p.a_batch = batch[0], p.b_batch = batch[1], p.c_batch = batch[2];
  for (int i = longest; i + 1 < axes.rank; ++i)
    axes.size[i] = axes.size[i + 1], axes.stride[i] = axes.stride[i + 1];
  --axes.rank;
  for (int i = 0; i < axes.rank; ++i) plan.calls *= axes.size[i];
  return plan;
}

const void* advance(const void* data, std::int64_t elements, DType dtype) {
  return static_cast<const char*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}

void run(const Plan& plan, const Backend& backend) {
  if (plan.calls == 1) return backend.run(plan.call);
  for (std::int64_t index = 0; index < plan.calls; ++index) {
    std::int64_t rest = index, a = 0, b = 0, c = 0;
    for (int i = plan.outer.rank - 1; i >= 0; --i) {
      const std::int64_t at = rest % plan.outer.size[i];
      const auto& steps = plan.outer.stride[i];
      rest /= plan.outer.size[i];
      a += at * steps[0], b += at * steps[1], c += at * steps[2];
    }
    Product p = plan.call;
    p.a = advance(p.a, a, p.dtype), p.b = advance(p.b, b, p.dtype);
    p.c = const_cast<void*>(advance(p.c, c, p.c_dtype));
    backend.run(p);
  }
}

Missing left(int rank) { return rank == 1 ? Missing::rows : Missing::none; }
Missing right(int rank) { return rank == 1 ? Missing::cols : Missing::none; }

// The gradient of input i as the product x y. Where the input was broadcast along leading axes, the products
// of all its copies are added up.
void gradient(const Backward& b, int i, const Stack& g, const Stack& x, const Stack& y, Missing missing,
              const Backend& backend) {
  const TensorMeta& meta = b.in_meta(i);
  const int matrix_axes = 2 - lacks(missing, Missing::rows) - lacks(missing, Missing::cols);
  const Shape own(meta.shape.begin(), static_cast<std::size_t>(meta.shape.size() - matrix_axes));
  if (numel(own) == numel(g.batch))
    return multiply(x, y, Stack(b.grad_in(i), missing), b.accumulate(i), backend);

  if (i == 1 && numel(own) == 1) {
    // sum_s A_s' g_s is one product: lay the matrices of A, and those of g, on top of each other.
    Tensor a_holder, g_holder;
    Stack a(b.in(0), left(b.in(0).dim())), all(g);
    fold_rows(a, a_holder);
    fold_rows(all, g_holder);
    return multiply(a.t(), all, Stack(b.grad_in(1), missing), b.accumulate(1), backend);
  }

  Shape full = g.batch;
  for (int axis = own.size(); axis < meta.shape.size(); ++axis) full.push_back(meta.shape[axis]);
  const Tensor each = Tensor::allocate(full, b.grad_dtype(i), meta.device);
  multiply(x, y, Stack(each, missing), false, backend);
  sum_to_into(b.grad_in(i), each, b.accumulate(i));
}

}  // namespace

Stack::Stack(const Tensor& t, Missing missing) : tensor(&t), missing(missing) {
  const Shape& shape = t.shape();
  const Strides& strides = t.strides();
  int axis = shape.size();
  cols = 1, col = 1;
  if (!lacks(missing, Missing::cols)) --axis, cols = shape[axis], col = strides[axis];
  rows = 1, row = cols;
  if (!lacks(missing, Missing::rows)) --axis, rows = shape[axis], row = strides[axis];
  batch = Shape(shape.begin(), static_cast<std::size_t>(axis));
  steps = Strides(strides.begin(), static_cast<std::size_t>(axis));
}

Stack Stack::t() const {
  Stack s(*this);
  s.transposed = !transposed;
  std::swap(s.rows, s.cols);
  std::swap(s.row, s.col);
  return s;
}

Stack Stack::over(const Tensor& copy) const {
  Stack s(copy, missing);
  if (folded) s.fold();
  return transposed ? s.t() : s;
}

bool Stack::fold() {
  std::int64_t all = rows, distance = row;
  for (int i = batch.size() - 1; i >= 0; --i) {
    if (batch[i] == 1) continue;
    if (all == 1) distance = steps[i];
    if (tensor->numel() > 0 && steps[i] != all * distance) return false;
    all *= batch[i];
  }
  rows = all, row = distance;
  batch = {}, steps = {};
  folded = true;
  return true;
}

void fold_rows(Stack& s, Tensor& holder) {
  if (s.fold()) return;
  holder = contiguous(*s.tensor);
  s = s.over(holder);
  s.fold();
}

namespace {
void pack(Stack& s, Tensor& holder) {
  if (s.tensor->is_contiguous()) return;
  holder = contiguous(*s.tensor);
  s = s.over(holder);
}
}  // namespace

void make_plain(Stack& s, Tensor& holder) {
  if (!is_plain(s.rows, s.cols, s.row, s.col)) pack(s, holder);
}

Product product_of(const Stack& a, const Stack& b, const Stack& c, bool accumulate) {
  Product p;
  p.dtype = a.tensor->dtype(), p.c_dtype = c.tensor->dtype();
  p.m = c.rows, p.n = c.cols, p.k = a.cols;
  p.a_row = a.row, p.a_col = a.col;
  p.b_row = b.row, p.b_col = b.col;
  p.c_row = c.row;
  p.a = a.tensor->raw_data(), p.b = b.tensor->raw_data(), p.c = c.tensor->raw_data();
  p.accumulate = accumulate;
  return p;
}

void multiply(Stack a, Stack b, const Stack& c, bool accumulate, const Backend& backend) {
  if (c.tensor->numel() == 0) return;
  Tensor a_holder, b_holder;
  if (!backend.any_strides) {
    make_plain(a, a_holder);
    make_plain(b, b_holder);
  }
  Plan plan = cut(a, b, c, accumulate, backend.any_strides);
  if (plan.calls > backend.many_calls) {
    pack(a, a_holder);
    pack(b, b_holder);
    plan = cut(a, b, c, accumulate, backend.any_strides);
  }
  run(plan, backend);
}

void forward(const Forward& f, const Backend& backend) {
  const Missing a = left(f.in(0).dim()), b = right(f.in(1).dim());
  multiply(Stack(f.in(0), a), Stack(f.in(1), b), Stack(f.out(), a | b), false, backend);
}

void backward(const Backward& b, const Backend& backend) {
  const Missing in_a = left(b.in_meta(0).shape.size()), in_b = right(b.in_meta(1).shape.size());
  const Stack g(b.grad(), in_a | in_b);
  if (b.needs(0)) gradient(b, 0, g, g, Stack(b.in(1), in_b).t(), in_a, backend);
  if (b.needs(1)) gradient(b, 1, g, Stack(b.in(0), in_a).t(), g, in_b, backend);
}

}  // namespace ct::gemm
