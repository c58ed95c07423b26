#pragma once

#include <cstdint>
#include <type_traits>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/device/kernel_tables.h>

// Matrix products on the CPU, on plain pointers: the caller has checked shapes and dtypes.
//
// T is float, double, Half, BFloat16, std::int64_t, std::int32_t or std::uint8_t; Out, the type of C, is T, or float where T
// has 16 bits. Integers wrap around. 16-bit elements are multiplied exactly, summed in float over the whole of k and rounded
// once, or not at all where C is float. At the levels v4-bf16 and v4-amx (core/device/cpu_level.h) bf16 elements and sums below 2^-126
// count as 0: a sum is off by at most 2^-126 (k + 1 + sum |a| + sum |b|) more. v4-bf16 else has the bits of v4.
//
// The bits of a result depend on the operands, Gemm and the level alone, not on the number of threads.

namespace ct {

/// C[m, n] = op(A)[m, k] * op(B)[k, n]. Strides are in elements and may be anything, 0 and negative ones
/// included: element (i, p) of A is a[i * a_row + p * a_col], (p, j) of B is b[p * b_row + j * b_col],
/// (i, j) of C is c[i * c_row + j]. C must not overlap A or B.
struct Gemm {
  std::int64_t m, n, k;
  std::int64_t a_row, a_col, b_row, b_col, c_row;
};

/// C = alpha * A * B + beta * C. With beta == 0, C is not read: it may hold NaN. alpha is multiplied into the
/// elements of A.
template <class T, class Out = T>
CT_API void gemm_cpu(const Gemm& shape, compute_t<T> alpha, const T* a, const T* b, compute_t<T> beta,
                     std::type_identity_t<Out>* c);

/// C[i, j] = (A * B)[i, j] + bias[j]; bias may be null.
template <class T>
CT_API void gemm_bias_cpu(const Gemm& shape, const T* a, const T* b, const T* bias, T* c);

/// `batch` products of the same shape: the pointers advance by the given strides (0 repeats an operand;
/// c_batch must keep the results apart).
template <class T, class Out = T>
CT_API void gemm_batched_cpu(const Gemm& shape, std::int64_t batch, std::int64_t a_batch,
                             std::int64_t b_batch, std::int64_t c_batch, compute_t<T> alpha, const T* a,
                             const T* b, compute_t<T> beta, std::type_identity_t<Out>* c);

struct GemmFunctions {
  decltype(&gemm_cpu<double>) run;
};
CT_FUNCTION_TABLES(GemmFunctions, gemms)

}  // namespace ct
