#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cotangent/ops/engine/gemm/pack_cpu.h>
#include <cotangent/ops/engine/gemm/plan_cpu.h>

// The part of a product on the CPU that is compiled for the types of its operands. For gemm_cpu.cpp.

namespace ct::gemm {

template <class T>
struct Operands;

// The part of a product that depends on the element types of the operands, In, and of C, Out: sizes, loads and stores.
// All else is compiled for T alone, the type of sums.
template <class T>
struct Elements {
  std::int64_t in_size, out_size;
  bool convert, round;  // In, or Out, is not T
  Packing packing;      // what is packed
  void (*pack_rows)(const void* r, std::int64_t r_row, std::int64_t r_k, std::int64_t rows, std::int64_t k,
                    T alpha, T* out, std::int64_t ld);
  void (*pack_columns)(const void* r, std::int64_t r_row, std::int64_t r_k, const RowTiles& tiles,
                       std::int64_t k, T alpha, T* out, std::int64_t tile_size);
  void (*pack_vectors)(const void* v, std::int64_t v_k, std::int64_t v_col, std::int64_t k, std::int64_t cols,
                       T* out);
  void (*begin_sums)(const Plan& plan, const Operands<T>& op, std::int64_t row0, std::int64_t rows,
                     std::int64_t col0, std::int64_t cols, T* sums, std::int64_t ld);
  void (*end_sums)(const Plan& plan, const Operands<T>& op, std::int64_t row0, std::int64_t rows,
                   std::int64_t col0, std::int64_t cols, const T* sums, std::int64_t ld);
  TileKernel<T> (*kernel)(std::int64_t rows, int vecs, bool by_rows, bool prefetch);

  /// Element i of an operand.
  const char* at(const void* operand, std::int64_t i) const {
    return static_cast<const char*>(operand) + i * in_size;
  }
  char* at_c(void* c, std::int64_t i) const { return static_cast<char*>(c) + i * out_size; }
};

template <class T>
struct Operands {
  const Elements<T>& elements;
  const void* r;
  const void* v;
  const void* bias;  // along the columns of C, null for none
  void* c;
  T alpha, beta;
};

// First values of a task's sums, where they are kept outside of C: bias, beta * C or 0.
template <class In, class T, class Out>
void begin_sums(const Plan& plan, const Operands<T>& op, std::int64_t row0, std::int64_t rows,
                std::int64_t col0, std::int64_t cols, T* sums, std::int64_t ld) {
  const In* const bias = static_cast<const In*>(op.bias);
  const Out* const c = static_cast<const Out*>(op.c);
  if (op.beta == 0) {  // bias alone
    for (std::int64_t i = 0; i < rows; ++i) {
      if (plan.swapped) {
        std::fill_n(sums + i * ld, cols, static_cast<T>(bias[row0 + i]));
      } else {
        for (std::int64_t j = 0; j < cols; ++j) sums[i * ld + j] = static_cast<T>(bias[col0 + j]);
      }
    }
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const std::int64_t m = plan.swapped ? col0 + j : row0 + i;
      const std::int64_t n = plan.swapped ? row0 + i : col0 + j;
      T x = op.beta * static_cast<T>(c[m * plan.c_row + n]);
      if (bias != nullptr) x += static_cast<T>(bias[n]);
      sums[i * ld + j] = x;
    }
  }
}

// Brings such sums to C.
template <class T, class Out>
void end_sums(const Plan& plan, const Operands<T>& op, std::int64_t row0, std::int64_t rows,
              std::int64_t col0, std::int64_t cols, const T* sums, std::int64_t ld) {
  if (plan.swapped) {
    Out* c = static_cast<Out*>(op.c) + col0 * plan.c_row + row0;
    pack_transposed<T>(sums, ld, cols, rows, c, plan.c_row);
  } else {
    Out* c = static_cast<Out*>(op.c) + row0 * plan.c_row + col0;
    if constexpr (!std::is_same_v<Out, T>)
      for (std::int64_t i = 0; i < rows; ++i) simd::convert_run(sums + i * ld, cols, c + i * plan.c_row);
  }
}

template <class In, class T, class Out>
inline constexpr Elements<T> kElements{
    sizeof(In),       sizeof(Out),         !std::is_same_v<In, T>, !std::is_same_v<Out, T>, {},
    pack_rows<In, T>, pack_columns<In, T>, pack_vectors<In, T>,    begin_sums<In, T, Out>,  end_sums<T, Out>,
    tile_kernel<T>};

}  // namespace ct::gemm
