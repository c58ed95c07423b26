#include <cotangent/autograd/grad_mode.h>
#include <cotangent/ops/reduce/kinds_internal.h>
#include <cotangent/ops/reduce/reduce_plain.h>

// The plain kernels: what goes into each output as one row, by reduce_plain.h. Oracles alone: the folds run in f64 as
// well.

namespace ct::plain {
namespace {

using reduce::Attrs;
using reduce::Kind;

constexpr bool is_position(Kind kind) {
  return kind == Kind::max || kind == Kind::min || kind == Kind::argmax || kind == Kind::argmin;
}
constexpr bool finds_smallest(Kind kind) {
  return kind == Kind::amin || kind == Kind::min || kind == Kind::argmin;
}

// A tensor with its reduced axes moved behind the others.
struct Groups {
  Dims order;
  std::int64_t size = 1;

  Groups(const OpDef& op, const Shape& shape, const Attrs& attrs) {
    std::uint32_t mask = attrs.axes.empty() ? ~0u : 0;
    for (const std::int64_t axis : attrs.axes) mask |= 1u << wrap_axis(op.name, axis, shape.size());
    for (const bool reduced : {false, true})
      for (int i = 0; i < shape.size(); ++i) {
        if ((mask >> i & 1u) != reduced) continue;
        order.push_back(i);
        if (reduced) size *= shape[i];
      }
  }
  Tensor moved(const Tensor& x) const { return x.permute(order).contiguous(); }
  Row of(const Tensor& moved, std::int64_t k) const {
    return {moved.data<double>() + k * size, size, Eigen::InnerStride<>(1)};
  }
  MutableRow in(const Tensor& moved, std::int64_t k) const {
    return {moved.data<double>() + k * size, size, Eigen::InnerStride<>(1)};
  }
};

template <Kind kind>
double value(const Row& x, double number) {
  if constexpr (kind == Kind::sum) return sum(x);
  if constexpr (kind == Kind::mean) return mean(x);
  if constexpr (kind == Kind::prod) return prod(x);
  if constexpr (kind == Kind::var) return var(x, number);
  if constexpr (kind == Kind::std) return stddev(x, number);
  if constexpr (kind == Kind::norm) return norm(x, number);
  if constexpr (kind == Kind::logsumexp) return logsumexp(x);
  return x[position(x, finds_smallest(kind))];
}

template <Kind kind>
void forward(const Forward& f) {
  NoGrad guard;
  const Groups groups(f.op, f.in(0).shape(), f.attrs<Attrs>());
  const Tensor x = groups.moved(f.in(0));
  const double number = f.attrs<Attrs>().number;
  for (std::int64_t k = 0; k < f.out().numel(); ++k) {
    const Row row = groups.of(x, k);
    if constexpr (kind == Kind::any || kind == Kind::all) {
      f.out().data<bool>()[k] = kind == Kind::any ? (row != 0).any() : (row != 0).all();
    } else {
      if constexpr (kind != Kind::argmax && kind != Kind::argmin)
        f.out().data<double>()[k] = value<kind>(row, number);
      if constexpr (is_position(kind))
        f.outputs.back().data<std::int64_t>()[k] = position(row, finds_smallest(kind));
      if constexpr (kind == Kind::var || kind == Kind::std) f.out(1).data<double>()[k] = mean(row);
      if constexpr (kind == Kind::logsumexp) {
        const double y = f.out().data<double>()[k], largest = row.size() ? row[position(row, false)] : y;
        f.out(1).data<double>()[2 * k] = largest;
        f.out(1).data<double>()[2 * k + 1] = std::isinf(largest) ? 0 : y - largest;
      }
    }
  }
}

template <Kind kind>
void backward(const Backward& b) {
  if (!b.needs(0) || numel(b.in_meta(0).shape) == 0) return;
  NoGrad guard;
  const Groups groups(b.op, b.in_meta(0).shape, b.attrs<Attrs>());
  constexpr bool reads_x = kind != Kind::sum && kind != Kind::mean && !is_position(kind);
  const Tensor x = reads_x ? groups.moved(b.in(0)) : Tensor{}, cotangent = b.grad();
  Tensor to = b.grad_in(0).permute(groups.order), moved = Tensor::allocate(to.shape(), f64, cpu);
  const double number = b.attrs<Attrs>().number;
  for (std::int64_t k = 0; k < cotangent.numel(); ++k) {
    const double g = cotangent.data<double>()[k];
    MutableRow dx = groups.in(moved, k);
    if constexpr (kind == Kind::sum) {
      sum_gradient(g, dx);
    } else if constexpr (kind == Kind::mean) {
      mean_gradient(g, dx);
    } else if constexpr (is_position(kind)) {
      position_gradient(b.out(1).data<std::int64_t>()[k], g, dx);
    } else {
      const Row row = groups.of(x, k);
      if constexpr (kind == Kind::prod) prod_gradient(row, g, dx);
      if constexpr (kind == Kind::amax || kind == Kind::amin)
        extremum_gradient(row, value<kind>(row, number), g, dx);
      if constexpr (kind == Kind::var) var_gradient(row, number, g, dx);
      if constexpr (kind == Kind::std) stddev_gradient(row, number, g, dx);
      if constexpr (kind == Kind::norm) norm_gradient(row, number, g, dx);
      if constexpr (kind == Kind::logsumexp) logsumexp_gradient(row, g, dx);
    }
  }
  to.copy_(moved);
}

}  // namespace
}  // namespace ct::plain

#define CT_FOLD(kind) \
  { #kind, plain::forward < reduce::Kind::kind>, plain::backward < reduce::Kind::kind> }
#define CT_PREDICATE(kind) forward_only(#kind, plain::forward<reduce::Kind::kind>)
CT_KERNELS(oracle, reduce, CT_FOLD(sum), CT_FOLD(mean), CT_FOLD(prod), CT_FOLD(amax), CT_FOLD(amin),
           CT_FOLD(max), CT_FOLD(min), CT_FOLD(var), CT_FOLD(std), CT_FOLD(norm), CT_FOLD(logsumexp),
           CT_PREDICATE(any), CT_PREDICATE(all), CT_PREDICATE(argmax), CT_PREDICATE(argmin))
