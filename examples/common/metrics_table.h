#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/svg.h"

/// metrics.csv: named columns of numbers, of which the first counts epochs or steps.
class MetricsTable {
 public:
  explicit MetricsTable(std::vector<std::string> columns) : columns_(std::move(columns)) {}

  /// The lines of an earlier part of a resumed run; none if there is no such file.
  void load(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::vector<double> row;
      std::istringstream in(line);
      for (std::string cell; std::getline(in, cell, ',');) row.push_back(std::strtod(cell.c_str(), nullptr));
      // A damaged line may begin with what is no count.
      if (row.size() == columns_.size() && row[0] >= 0 && row[0] < 0x1p53) rows_.push_back(std::move(row));
    }
  }
  /// Adds a line; it takes the place of those that are as far or further.
  void add(std::vector<double> row) {
    std::erase_if(rows_, [&](const std::vector<double>& other) { return other[0] >= row[0]; });
    rows_.push_back(std::move(row));
  }
  std::string csv() const {
    std::ostringstream out;
    out.precision(9);
    for (std::size_t i = 0; i < columns_.size(); ++i) out << (i ? "," : "") << columns_[i];
    out << '\n';
    for (const std::vector<double>& row : rows_) {
      out << static_cast<std::int64_t>(row[0]);  // it counts: no digit of many steps may be rounded away
      for (std::size_t i = 1; i < row.size(); ++i) out << ',' << row[i];
      out << '\n';
    }
    return out.str();
  }
  /// A column over the first one.
  svg::Curve curve(const std::string& column, const std::string& name, const std::string& color) const {
    svg::Curve curve{name, color, {}, {}};
    for (std::size_t i = 0; i < columns_.size(); ++i)
      for (const std::vector<double>& row : rows_)
        if (columns_[i] == column) curve.x.push_back(row[0]), curve.y.push_back(row[i]);
    return curve;
  }

 private:
  std::vector<std::string> columns_;
  std::vector<std::vector<double>> rows_;
};
