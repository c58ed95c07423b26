#pragma once

#include <cotangent/ops/softmax/softmax_internal.h>

// Shared by the fast kernels of both devices: a call's contiguous operands of one type.

namespace ct::softmax_impl {

/// Calls run(x, y, extents) unless there is nothing to do.
template <class Run>
void with_forward(const Forward& f, const Run& run) {
  const Tensor& y = f.out();
  if (y.numel() == 0) return;
  const Tensor& x = f.in(0);
  const Extents e = extents(f.op.name, y.shape(), f.attrs<Attrs>().axis);
  visit_fast(f.op.name, y.dtype(),
             [&]<class T>(TypeTag<T>) { run(static_cast<const T*>(x.data<T>()), y.data<T>(), e); });
}

/// Calls run(g, y, dx, extents) unless there is nothing to do.
template <class Run>
void with_gradient(const char* op, const Tensor& g, const Tensor& y, const Tensor& dx, std::int64_t axis,
                   const Run& run) {
  if (dx.numel() == 0) return;
  const Extents e = extents(op, dx.shape(), axis);
  visit_fast(op, dx.dtype(), [&]<class T>(TypeTag<T>) {
    run(static_cast<const T*>(g.data<T>()), static_cast<const T*>(y.data<T>()), dx.data<T>(), e);
  });
}
template <class Run>
void with_backward(const Backward& b, const Run& run) {
  if (b.needs(0)) with_gradient(b.op.name, b.grad(), b.out(), b.grad_in(0), b.attrs<Attrs>().axis, run);
}

}  // namespace ct::softmax_impl
