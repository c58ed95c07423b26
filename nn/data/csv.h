#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct::data {

struct CsvOptions {
  char delimiter = ',';
  char quote = '"';
  bool header = true;  ///< the first line has the names of the columns; else they are "0", "1", ...
};

/// A table out of a text file, with its cells as they stand there.
///
///     const auto table = ct::data::read_csv("iris.csv");
///     auto [labels, names] = table.classes("species");
///     ct::data::TensorDataset flowers(table.numbers({"sepal_length", "sepal_width"}), labels);
class CT_API CsvTable {
 public:
  std::int64_t rows() const { return static_cast<std::int64_t>(lines_.size()); }
  const std::vector<std::string>& columns() const { return columns_; }
  /// The text of a cell, without its quotes. Throws IndexError out of range.
  std::string_view text(std::int64_t row, std::int64_t column) const;
  /// The columns of these names, or all, as numbers [rows, columns]. A cell that is empty is NaN where dtype has that.
  /// Throws ValueError for a name that is not there, IoError, with line and column, for a cell that is no number or does
  /// not fit the dtype, DTypeError for bool.
  Tensor numbers(const std::vector<std::string>& names = {}, DType dtype = f32) const;
  /// A column of names as numbers i64 [rows] into the sorted list of those that occur, and that list. Throws ValueError
  /// for a name that is not there.
  std::pair<Tensor, std::vector<std::string>> classes(std::string_view name) const;

 private:
  friend class CsvReader;
  struct Cell {
    std::size_t begin = 0, length = 0;  // in cells_
  };
  std::size_t find(std::string_view name) const;
  [[noreturn]] void fail(std::size_t row, std::size_t column, const char* problem) const;

  std::string name_, text_;  // of the file; all cells
  std::vector<std::string> columns_;
  std::vector<Cell> cells_;
  std::vector<std::int64_t> lines_;  // on which each row begins
};

/// Reads comma-separated values (RFC 4180): cells may be in quotes, in which a delimiter and an end of line are text and
/// two quotes are one; lines end with LF or CRLF; empty lines are passed over. Throws IoError, with line and column, for
/// a row of more or fewer cells than the first, a quote that does not end or that text follows, a NUL byte, a column's
/// name that is there twice; for an empty file with a header. ValueError for a delimiter or quote that are one
/// character, or ends of lines.
CT_API CsvTable read_csv(const std::string& path, const CsvOptions& options = {});
/// The same of a text in memory; `name` is for messages.
CT_API CsvTable parse_csv(std::string_view text, const CsvOptions& options = {}, std::string name = "text");

}  // namespace ct::data
