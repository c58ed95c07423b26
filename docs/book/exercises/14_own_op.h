#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/cotangent.h>

#include <cmath>

// Swish with a parameter for each column: y_ij = x_ij s(b_j x_ij), where s(u) = 1 / (1 + e^-u); x [m, n], b [n].

namespace answer {

/// y. T is the type of the elements, C the one to compute in.
inline void forward(const ct::Forward& f) {
  const std::int64_t m = f.in(0).size(0), n = f.in(0).size(1);
  ct::visit_floating(f.op.name, f.in(0).dtype(), [&]<class T>(ct::TypeTag<T>) {
    using C = ct::compute_t<T>;
    const T *const x = f.in(0).data<T>(), *const b = f.in(1).data<T>();
    T* const y = f.out().data<T>();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const C at = x[i * n + j], slope = b[j];
        y[i * n + j] = T(at / (1 + std::exp(-slope * at)));
      }
  });
}

/// dx [m, n] and db [n], from x, b and the cotangent of y. A gradient is written where it is wanted: b.needs(0), b.needs(1).
inline void backward(const ct::Backward& b) {
  const std::int64_t m = b.in(0).size(0), n = b.in(0).size(1);
  ct::visit_floating(b.op.name, b.in(0).dtype(), [&]<class T>(ct::TypeTag<T>) {
    using C = ct::compute_t<T>;
    const T *const x = b.in(0).data<T>(), *const slope = b.in(1).data<T>(), *const g = b.grad().data<T>();
    if (b.needs(0)) {
      T* const dx = b.grad_in(0).data<T>();
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          const C at = x[i * n + j], s = 1 / (1 + std::exp(-C(slope[j]) * at));
          dx[i * n + j] = T(C(g[i * n + j]) * s);  // yours: a term is missing
        }
    }
    if (b.needs(1)) b.grad_in(1).fill_(0);  // yours: db_j
  });
}

/// The same of ops that have gradients themselves, for gradients of gradients: set_grad_in(0, dx), set_grad_in(1, db).
inline void rule(const ct::Backward& b) {
  const ct::Tensor x = b.in(0), slope = b.in(1), g = b.grad(), s = ct::sigmoid(slope * x);
  if (b.needs(0)) b.set_grad_in(0, g * s);                  // yours: dx
  if (b.needs(1)) b.set_grad_in(1, ct::zeros_like(slope));  // yours: db
}

}  // namespace answer
