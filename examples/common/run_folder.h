#pragma once

#include <cotangent/core/error.h>
#include <cotangent/nn/io/atomic_file.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/svg.h"

/// Where a run leaves its files. Every file appears as a whole or not at all.
class RunFolder {
 public:
  /// Makes the folder: `out`, else the one of the checkpoint to `resume`, else runs/PROGRAM-DATE-TIME. Throws
  /// ct::IoError; also if `out` holds the checkpoint of another run, which this one would write over.
  RunFolder(const std::string& program, const std::string& out, const std::string& resume) {
    const std::string resumed = resume.empty() ? "" : folder_of(checkpoint_in(program, resume));
    path_ = !out.empty() ? out : resume.empty() ? default_folder(program) : resumed;
    std::error_code error;
    const std::string last = path_ + "/checkpoint-last.safetensors";
    const bool continues = !resume.empty() && std::filesystem::equivalent(resumed, path_, error);
    CT_CHECK(continues || !std::filesystem::exists(last, error), ct::IoError, program.c_str(), path_,
             " holds a run already, which would be lost; go on with it (--resume ", path_,
             ") or choose another --out");
    error.clear();
    std::filesystem::create_directories(path_, error);
    CT_CHECK(!error, ct::IoError, program.c_str(), "can't make the run folder ", path_, ": ", error.message(),
             "; choose another with --out");
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    ct::io::write_file(path_ + "/" + name, text);
  }

  /// The checkpoint that a path names: itself, or the last one in a run folder. Throws ct::IoError.
  static std::string checkpoint_in(const std::string& program, const std::string& path) {
    std::error_code ignored;
    const std::string file =
        std::filesystem::is_directory(path, ignored) ? path + "/checkpoint-last.safetensors" : path;
    CT_CHECK(std::filesystem::exists(file, ignored), ct::IoError, program.c_str(), "there is no checkpoint ",
             file, "; a run folder or a checkpoint file is wanted");
    return file;
  }
  static std::string folder_of(const std::string& checkpoint) {
    const std::string folder = std::filesystem::path(checkpoint).parent_path().string();
    return folder.empty() ? std::string(".") : folder;
  }

 private:
  static std::string default_folder(const std::string& program) {
    const std::time_t now = std::time(nullptr);
    char text[64];
    std::strftime(text, sizeof text, "-%Y%m%d-%H%M%S", std::localtime(&now));
    const std::string first = "runs/" + program + text;
    std::string folder = first;
    // Two runs in one second get folders of their own.
    for (int i = 2; std::filesystem::exists(folder); ++i) folder = first + "-" + std::to_string(i);
    return folder;
  }
  std::string path_;
};

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
      if (row.size() == columns_.size()) rows_.push_back(std::move(row));
    }
  }
  /// Adds a line; it takes the place of those that are as far or further.
  void add(std::vector<double> row) {
    std::erase_if(rows_, [&](const std::vector<double>& other) { return other[0] >= row[0]; });
    rows_.push_back(std::move(row));
  }
  std::string csv() const {
    std::ostringstream out;
    for (std::size_t i = 0; i < columns_.size(); ++i) out << (i ? "," : "") << columns_[i];
    out << '\n';
    for (const std::vector<double>& row : rows_)
      for (std::size_t i = 0; i < row.size(); ++i)
        out << (i ? "," : "") << row[i] << (i + 1 < row.size() ? "" : "\n");
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
