#pragma once

#include <cstdint>
#include <string_view>

#include <cotangent/core/op/kernel_records.h>

// Ops whose kernels on the CPU go by rows, as values: for what runs them on some rows at a time, between the formulas that make
// these rows and those that read the results (nn/capture/fusion_rows.cpp).

namespace ct::rows {

/// Each row of the results has the same bits whichever rows it is computed with.
struct RowRecord {
  /// The number of trailing axes of input 0 that make a row; 0 where this call does not go by rows.
  int (*axes)(AttrsView attrs, const Shape& x);
  std::uint32_t shared = 0;  // bit i: all rows read the whole of input i, whose gradient does not go by rows
  bool backward = true;      // the gradient goes by rows, too
};

/// Behind an op's name: the entry of a table of kernels that hands out its record.
inline constexpr std::string_view kRows = " rows";

/// The record of an op, null where it does not go by rows.
inline const RowRecord* rows_of(const OpDef& op) {
  return static_cast<const RowRecord*>(record_of(op, kRows));
}

}  // namespace ct::rows
