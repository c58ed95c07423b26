#pragma once

#include <cstdint>
#include <string_view>

#include <cotangent/core/op/kernel_records.h>

// Ops whose kernels on the CPU go by rows, as values: for what runs them on some rows at a time, between the formulas that make
// these rows and those that read the results (nn/capture/fusion_rows.cpp).

namespace ct::rows {

/// Formulas before and behind a call whose kernel is not cut. It calls these on the thread that works on the elements, for chunks of a
/// size of its own.
struct Passes {
  virtual ~Passes() = default;
  /// Makes elements [begin, end) of input 0, in row-major order. Element i lies at place i of what is returned.
  virtual const void* load(std::int64_t begin, std::int64_t end) const = 0;
  /// Reads those of the stored result, which the kernel has written.
  virtual void store(std::int64_t begin, std::int64_t end) const = 0;
};

/// Each row of the results has the same bits whichever rows it is computed with.
struct RowRecord {
  static constexpr int kWhole = -1;
  /// The number of trailing axes of input 0 that make a row; 0 where this call does not go by rows; kWhole where some results are of
  /// all rows, as the mean of a loss.
  int (*axes)(AttrsView attrs, const Shape& x);
  std::uint32_t shared = 0;  // bit i: all rows read the whole of input i, whose gradient does not go by rows
  bool backward = true;      // the gradient goes by rows, too
  /// The kernels of kWhole. Backward stores the gradient of input 0, and loads nothing.
  void (*forward_within)(const Forward& f, const Passes& passes) = nullptr;
  void (*backward_within)(const Backward& b, const Passes& passes) = nullptr;
  int stored = -1;           // the result that forward stores, of the shape of input 0
  bool reads_twice = false;  // forward reads the loaded tensor from memory once more, and may store over it
};

/// Behind an op's name: the entry of a table of kernels that hands out its record.
inline constexpr std::string_view kRows = " rows";

/// The record of an op, null where it does not go by rows.
inline const RowRecord* rows_of(const OpDef& op) {
  return static_cast<const RowRecord*>(record_of(op, kRows));
}

}  // namespace ct::rows
