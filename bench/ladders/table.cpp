#include "bench/ladders/ladder.h"

#include <cotangent/cotangent.h>
#include <cotangent/nn/io/atomic_file.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ct::ladder {
namespace {

std::string text(const char* format, double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

std::string percent(double part, double whole) {
  return whole > 0 ? text("%.1f%%", 100 * part / whole) : "-";
}

// Three digits of a rate, in the unit of the whole table.
struct Scale {
  double by;
  const char* unit;
  std::string operator()(double rate) const {
    const double v = rate / by;
    return text(v >= 100 ? "%.0f" : v >= 10 ? "%.1f" : "%.2f", v);
  }
};

Scale scale_of(const Ladder& ladder, const Result& result) {
  if (ladder.unit == Unit::bytes) return {1e9, "GB/s"};
  return result.library_rate >= 2e12 ? Scale{1e12, "TFLOP/s"} : Scale{1e9, "GFLOP/s"};
}

std::string device_name(const Ladder& ladder) { return ladder.device == DeviceType::cpu ? "cpu" : "cuda"; }

// A bar for each rung, one for the library, and a line at the limit.
std::string picture(const Ladder& ladder, const Result& result) {
  std::vector<Row> rows = result.rows;
  rows.push_back({ladder.library_name, "", 0, result.library_rate, true});
  const Scale scale = scale_of(ladder, result);
  double most = result.limit_rate;
  for (const Row& row : rows) most = std::max(most, row.rate);
  const int left = 150, width = 420, step = 24, top = 44;
  const int bottom = top + step * static_cast<int>(rows.size());
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 680 " << bottom + 30
      << "' font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n"
      << "<text x='340' y='24' text-anchor='middle' font-size='15'>" << ladder.name << ", "
      << describe(result.of) << ", " << scale.unit << "</text>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const int y = top + step * static_cast<int>(i);
    const double length = width * rows[i].rate / most;
    out << "<text x='" << left - 8 << "' y='" << y + 13 << "' text-anchor='end'>" << rows[i].name
        << "</text><rect x='" << left << "' y='" << y << "' width='" << text("%.1f", length)
        << "' height='18' fill='" << (i + 1 == rows.size() ? "#999999" : "#4477aa") << "'/><text x='"
        << text("%.1f", left + length + 6) << "' y='" << y + 13 << "'>" << scale(rows[i].rate) << "</text>\n";
  }
  if (result.limit_rate > 0) {
    const std::string x = text("%.1f", left + width * result.limit_rate / most);
    out << "<line x1='" << x << "' x2='" << x << "' y1='" << top - 6 << "' y2='" << bottom
        << "' stroke='#cc3311' stroke-dasharray='4 3'/><text x='" << x << "' y='" << bottom + 14
        << "' text-anchor='middle' fill='#cc3311'>limit " << scale(result.limit_rate) << "</text>\n";
  }
  out << "</svg>\n";
  return out.str();
}

std::string today() {
  char buffer[16];
  const std::time_t now = std::time(nullptr);
  std::strftime(buffer, sizeof buffer, "%Y-%m-%d", std::gmtime(&now));
  return buffer;
}

// Text behind `key` in the first line of a file that has it, from the first character that is not among `skip`; empty
// where no line has it.
std::string text_after(const char* file, const std::string& key, const char* skip) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (const std::size_t at = line.find(key); at != std::string::npos) {
      const std::size_t from = line.find_first_not_of(skip, at + key.size());
      return from == std::string::npos ? "" : line.substr(from);
    }
  return "";
}

}  // namespace

std::string describe(const Case& of) {
  std::string s(name(of.dtype));
  for (std::size_t i = 0; i < of.size.size(); ++i) s += (i == 0 ? ", " : " x ") + std::to_string(of.size[i]);
  return s;
}

std::string machine(const Ladder& ladder) {
  const BuildInfo& info = build_info();
  std::string s;
  if (ladder.device == DeviceType::cuda) {
    // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build ..."
    const std::string driver = text_after("/proc/driver/nvidia/version", "x86_64", " ");
    s = cuda_properties(0).name + ", CUDA " + info.cuda;
    if (!driver.empty()) s += ", driver " + driver.substr(0, driver.find(' '));
  } else {
    s = text_after("/proc/cpuinfo", "model name", " \t:") + ", " + std::to_string(num_threads()) +
        (num_threads() == 1 ? " thread" : " threads") + ", " + info.compiler;
  }
  return s + ", commit " + info.commit;
}

std::string table(const Ladder& ladder, const Result& result, bool markdown) {
  const Scale scale = scale_of(ladder, result);
  std::vector<std::vector<std::string>> cells = {{"", "rung", "ms", scale.unit, "of the limit",
                                                  std::string("of ") + ladder.library_name, "same bits",
                                                  "why"}};
  for (const Row& row : result.rows) {
    std::size_t number = 0;
    while (row.name != ladder.rungs[number].name) ++number;
    cells.push_back({std::to_string(number + 1), row.name, text("%.3f", row.seconds * 1e3), scale(row.rate),
                     percent(row.rate, result.limit_rate), percent(row.rate, result.library_rate),
                     row.same_bits ? "yes" : "no", row.why});
  }
  cells.push_back({"", ladder.library_name, text("%.3f", ladder.work(result.of) / result.library_rate * 1e3),
                   scale(result.library_rate), percent(result.library_rate, result.limit_rate), "", "", ""});
  if (result.limit_rate > 0) cells.push_back({"", "limit", "", scale(result.limit_rate), "", "", "", ""});
  std::vector<std::size_t> widths(cells[0].size(), 0);
  for (const auto& line : cells)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string out;
  for (std::size_t l = 0; l < cells.size(); ++l) {
    std::string line = markdown ? "|" : "";
    for (std::size_t i = 0; i < cells[l].size(); ++i) {
      const std::string pad(markdown ? 0 : widths[i] - cells[l][i].size(), ' ');
      const bool number = i >= 2 && i <= 5;
      line += (markdown ? " "
               : i == 0 ? ""
                        : "  ") +
              (number ? pad + cells[l][i] : cells[l][i] + pad) + (markdown ? " |" : "");
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    if (markdown && l == 0) out += "|---|---|--:|--:|--:|--:|---|---|\n";
  }
  return out;
}

void write_results(const Ladder& ladder, const std::vector<Result>& results, const std::string& file) {
  const std::string begin = std::string("<!-- ladder ") + ladder.name + " " + device_name(ladder) + " -->",
                    end = "<!-- /ladder -->";
  std::ifstream in(file, std::ios::binary);
  const std::string old(std::istreambuf_iterator<char>(in), {});
  const std::size_t from = old.find(begin), to = from == std::string::npos ? from : old.find(end, from);
  CT_CHECK(to != std::string::npos, IoError, "ladder", file, " has no lines ", begin, " and ", end,
           "; add them where the table is to stand");
  std::string made = begin + "\n" + machine(ladder) + ", " + today() + ".\n";
  for (const Result& result : results) {
    const std::string svg = std::string(ladder.name) + "_" + device_name(ladder) + "_" +
                            std::string(name(result.of.dtype)) + ".svg";
    io::write_file(std::filesystem::path(file).parent_path() / svg, picture(ladder, result));
    made += "\n" + describe(result.of) + ":\n\n" + table(ladder, result, true) + "\n![rates](" + svg + ")\n";
  }
  io::write_file(file, old.substr(0, from) + made + old.substr(to));
}

}  // namespace ct::ladder
