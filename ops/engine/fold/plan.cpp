#include <cotangent/ops/engine/fold/plan.h>
#include <cotangent/ops/engine/walk/axes.h>
#include <cotangent/ops/engine/walk/calls.h>

namespace ct::fold {
namespace {

// Puts the axes into the two places of a plan, the inner one first. False if there are more.
bool store(const Axes<1>& axes, Axis (&into)[2]) {
  if (axes.rank > 2) return false;
  for (int i = 0; i < axes.rank; ++i) into[axes.rank - 1 - i] = {axes.size[i], axes.stride[i][0]};
  return true;
}

}  // namespace

bool make_plan(const Tensor& x, AxisMask mask, Order order, Repeats repeats, Plan& plan) {
  const Shape& shape = x.shape();
  const Strides& strides = x.strides();
  Axes<1> kept, reduced;
  for (int i = 0; i < shape.size(); ++i) {
    const bool is_reduced = mask >> i & 1u;
    (is_reduced ? plan.count : plan.outputs) *= shape[i];
    if (shape[i] == 1) continue;
    if (!is_reduced) {
      kept.append(shape[i], {strides[i]});
    } else if (repeats == Repeats::drop && strides[i] == 0) {
      plan.repeats *= shape[i];
      if (shape[i] != 0) plan.count /= shape[i];
    } else {
      reduced.append(shape[i], {strides[i]});
    }
  }
  if (plan.count == 0 || plan.outputs == 0) {  // nothing is read: the layout does not matter
    plan.kept[0] = {plan.outputs, 0};
    plan.reduced[0] = {plan.count, 0};
    return true;
  }
  if (order == Order::any) reduced.sort();
  return store(kept, plan.kept) && store(reduced, plan.reduced);
}

Tensor mergeable(const Tensor& x, AxisMask& mask) {
  Shape shape;
  Strides strides;
  for (int pass = 0; pass < 2; ++pass)
    for (int i = 0; i < x.dim(); ++i)
      if (static_cast<int>(mask >> i & 1u) == pass) {
        shape.push_back(x.shape()[i]);
        strides.push_back(x.strides()[i]);
      }
  AxisMask moved = 0;
  for (int i = 0, kept = x.dim() - __builtin_popcount(mask & ((1u << x.dim()) - 1)); i < x.dim(); ++i)
    if (i >= kept) moved |= 1u << i;
  mask = moved;
  return walk::calls::contiguous(
      Tensor::from_storage(x.impl()->storage, shape, strides, x.storage_offset(), x.dtype()));
}

Plan plan_or_pack(Tensor& x, AxisMask& mask, Order order, Repeats repeats) {
  Plan plan;
  if (make_plan(x, mask, order, repeats, plan)) return plan;
  x = mergeable(x, mask);
  plan = {};
  make_plan(x, mask, order, repeats, plan);
  return plan;
}

}  // namespace ct::fold
