#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/cotangent.h>

#include <cmath>

// With s = s(b_j x_ij) and s' = s (1 - s):
//   dy_ij/dx_ij = s + x_ij s' b_j          so dx_ij = g_ij (s + b_j x_ij s (1 - s))
//   dy_ij/db_j  = x_ij s' x_ij             so db_j  = sum_i g_ij x_ij^2 s (1 - s)
// b_j takes part in m elements of y, so its gradient is a sum of m terms. In 16 bits that sum is kept in C, f32: kept in T it
// would stop growing (chapter 1). Each column has one writer, who adds in the order of the rows: chapter 10. Two threads that share
// out the columns give the same bits; two that share out the rows have another order, and other last bits.

namespace answer {

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

inline void backward(const ct::Backward& b) {
  const std::int64_t m = b.in(0).size(0), n = b.in(0).size(1);
  ct::visit_floating(b.op.name, b.in(0).dtype(), [&]<class T>(ct::TypeTag<T>) {
    using C = ct::compute_t<T>;
    const T *const x = b.in(0).data<T>(), *const slope = b.in(1).data<T>(), *const g = b.grad().data<T>();
    T* const dx = b.needs(0) ? b.grad_in(0).data<T>() : nullptr;
    T* const db = b.needs(1) ? b.grad_in(1).data<T>() : nullptr;
    for (std::int64_t j = 0; j < n; ++j) {
      C sum = 0;
      for (std::int64_t i = 0; i < m; ++i) {
        const C at = x[i * n + j], cotangent = g[i * n + j], u = C(slope[j]) * at, s = 1 / (1 + std::exp(-u));
        if (dx != nullptr) dx[i * n + j] = T(cotangent * (s + u * s * (1 - s)));
        sum += cotangent * at * at * s * (1 - s);
      }
      if (db != nullptr) db[j] = T(sum);
    }
  });
}

inline void rule(const ct::Backward& b) {
  const ct::Tensor x = b.in(0), slope = b.in(1), g = b.grad();
  const ct::Tensor s = ct::sigmoid(slope * x), ds = s * (1 - s);
  if (b.needs(0)) b.set_grad_in(0, g * (s + slope * x * ds));
  if (b.needs(1)) b.set_grad_in(1, ct::sum(g * ct::square(x) * ds, {0}));
}

}  // namespace answer
