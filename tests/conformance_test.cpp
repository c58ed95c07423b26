#include <cotangent/core/op/registry.h>
#include <cotangent/ops/testing/conformance.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "tests/catch.h"

// Every op of the registry against its own OpDef. docs/ops.md is the table of these tests' results:
//     COTANGENT_WRITE_OPS_MD=docs/ops.md build/.../ct_tests "[conformance]"
// writes it (on a machine with a GPU, so that both devices are in it); otherwise it is held against the
// results.

namespace {

using ct::ConformanceReport;
using ct::OpDef;

std::map<std::string, ConformanceReport>& reports() {
  static std::map<std::string, ConformanceReport> all;
  return all;
}

// The ops to check: all, or those of the files that COTANGENT_FILES names, with spaces around each (" softmax linear ").
std::vector<const OpDef*> wanted() {
  const char* const files = std::getenv("COTANGENT_FILES");
  if (!files) return ct::registry();
  std::vector<const OpDef*> ops;
  for (const ct::Room* room : ct::detail::builtin_rooms())
    if (std::string(files).find(" " + std::string(room->name) + " ") != std::string::npos)
      ops.insert(ops.end(), room->ops.begin(), room->ops.end());
  return ops;
}

// COTANGENT_VOLUME=10 draws ten times as many points of special values.
const ConformanceReport& report_of(const OpDef& op) {
  auto [it, fresh] = reports().try_emplace(op.name);
  const char* volume = std::getenv("COTANGENT_VOLUME");
  if (fresh) it->second = ct::check_conformance(op, {.volume = volume ? std::max(std::atoi(volume), 1) : 1});
  return it->second;
}

std::string cell(const ConformanceReport& report, bool cuda, bool backward) {
  std::string text;
  for (const ct::ConformanceRow& row : report.rows)
    if (row.device.is_cuda() == cuda && (backward ? row.backward : row.forward))
      text.append(text.empty() ? "" : " ").append(ct::name(row.dtype));
  return text.empty() ? "-" : text;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream in(line);
  for (std::string part; std::getline(in, part, '|');) {
    const auto first = part.find_first_not_of(' ');
    cells.push_back(first == std::string::npos ? ""
                                               : part.substr(first, part.find_last_not_of(' ') - first + 1));
  }
  return cells;
}

std::string escaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\\|");
  return text;
}

// "x, weight, bias (optional)" of records.
template <class Record>
std::string names_of(std::span<const Record> records) {
  std::string text;
  for (const Record& record : records) {
    text.append(text.empty() ? "" : ", ").append(record.name);
    if constexpr (std::is_same_v<Record, ct::InputDef>) {
      if (record.rest) text.append(" ...");
      if (record.optional) text.append(" (optional)");
    }
  }
  return text;
}

}  // namespace

TEST_CASE("every op conforms to its definition", "[conformance]") {
  for (const OpDef* op : wanted()) {
    DYNAMIC_SECTION(op->name) {
      const ConformanceReport& report = report_of(*op);
      CHECK(report.checks > 0);
      std::size_t shown = 0;
      for (const std::string& failure : report.failures) {
        if (++shown > 12) break;
        FAIL_CHECK(op->name << ": " << failure);
      }
    }
  }
}

TEST_CASE("every op of the library has a rule for its gradient, or says why not", "[conformance]") {
  for (const OpDef* op : ct::registry()) {
    INFO(op->name);
    CHECK((!op->differentiable || op->rule || op->no_rule));
    CHECK_FALSE((op->rule && op->no_rule));
  }
}

TEST_CASE("every op has the same kernels on both devices", "[conformance]") {
  if (!ct::built_with_cuda()) return;
  for (const OpDef* op : ct::registry()) {
    INFO(op->name);
    const ct::Kernels on_cpu = ct::kernels_of(*op, ct::KernelKind::cpu),
                      on_cuda = ct::kernels_of(*op, ct::KernelKind::cuda);
    CHECK((on_cpu.forward == nullptr) == (on_cuda.forward == nullptr));
    CHECK((on_cpu.backward == nullptr) == (on_cuda.backward == nullptr));
  }
}

TEST_CASE("docs/ops.md says what the tests have shown", "[conformance]") {
  const bool gpu = ct::cuda_is_available();
  // A machine without a GPU keeps the columns that it can't check.
  std::map<std::string, std::vector<std::string>> documented;
  std::ifstream file(COTANGENT_SOURCE_DIR "/docs/ops.md");
  REQUIRE(file.good());
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells = cells_of(line);
    if (cells.size() >= 7) documented[cells[1]] = cells;
  }
  // The formula may hold escaped bars; the four result columns are counted from the end.
  const auto cuda_cell = [&](const OpDef& op, const ConformanceReport& r, bool backward) -> std::string {
    if (gpu) return cell(r, true, backward);
    const auto it = documented.find(op.name);
    return it == documented.end() ? "?" : it->second[it->second.size() - (backward ? 1 : 2)];
  };
  std::ostringstream table;
  table << "# Ops\n\n"
           "Every op with the dtypes whose forward and backward pass the conformance suite, per device. The "
           "suite writes\n"
           "this page and fails when it is out of date; `f32` is `float`, `f64` is `double`.\n\n"
           "| op | formula | inputs | attributes | CPU forward | CPU backward | CUDA forward | CUDA backward "
           "|\n|---|---|---|---|---|---|---|---|\n";
  for (const OpDef* op : ct::registry()) {
    const ConformanceReport& r = report_of(*op);
    table << "| " << op->name << " | `" << escaped(op->formula) << "` | " << names_of(op->inputs) << " | "
          << names_of(op->attributes) << " | " << cell(r, false, false) << " | " << cell(r, false, true)
          << " | " << cuda_cell(*op, r, false) << " | " << cuda_cell(*op, r, true) << " |\n";
  }
  if (const char* path = std::getenv("COTANGENT_WRITE_OPS_MD")) {
    std::ofstream(path) << table.str();
    SUCCEED("written");
    return;
  }
  std::istringstream lines(table.str());
  std::size_t rows = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> want = cells_of(line);
    if (want.size() < 9 || want[1] == "op" || want[1].rfind("---", 0) == 0) continue;
    ++rows;
    INFO("op " << want[1] << "; regenerate docs/ops.md with COTANGENT_WRITE_OPS_MD=docs/ops.md");
    REQUIRE(documented.count(want[1]) == 1);
    CHECK(documented[want[1]] == want);
  }
  CHECK(rows == ct::registry().size());
  CHECK(documented.size() == rows + 2);  // and the two header lines
}
