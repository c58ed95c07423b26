#pragma once

#include <cstdint>

#include <cotangent/core/device/kernel_tables.h>
#include <cotangent/core/tensor/tensor.h>

// Prefixes along an axis: y_i = x_0 o x_1 o ... o x_i for an operation o that is associative but for rounding. How the
// elements are grouped depends on the sizes and the device alone, so the bits are the same in every run.

namespace ct::scan {

enum class Kind : std::uint8_t {
  sum,
  product,
  logsumexp,
  maximum,    // of equal ones the last, NaN above everything; `indices` says where
  minimum,    // the same, NaN below everything
  recurrence  // y_i = a_i y_{i-1} + x_i
};

struct Call {
  const char* op;
  Kind kind;
  int axis = 0;
  bool reverse = false;  // from the end of the axis: x_{n-1} o ... o x_i
  Tensor x = {};         // this and the others: contiguous, of x's shape, on its device
  Tensor a = {};         // recurrence alone
  Tensor y = {};         // of x's dtype, or i64 for sums and products of integers and bool
  Tensor indices = {};   // extrema alone: i64, positions along the axis
};

/// 16-bit types are scanned in f32 and rounded once; on the CPU f32 is scanned in f64. Integers wrap.
void run(const Call& call);

/// A contiguous tensor around the axis: `outer` blocks of n lines of `inner` elements.
struct Lines {
  std::int64_t outer = 1, n = 1, inner = 1;

  Lines(const Shape& shape, int axis) {
    for (int i = 0; i < shape.size(); ++i) (i < axis ? outer : i == axis ? n : inner) *= shape[i];
  }
};

/// The halves of run() per device: no element is missing, x is f32, f64 or i64 (on CUDA also f16 or bf16, for sums), y of
/// its dtype; on CUDA inner is 1.
void run_cpu(const Call& call, const Lines& lines);
void run_cuda(const Call& call, const Lines& lines);

}  // namespace ct::scan

namespace ct {
struct ScanFunctions {
  decltype(&scan::run_cpu) run;
};
CT_FUNCTION_TABLES(ScanFunctions, scans)
}  // namespace ct
