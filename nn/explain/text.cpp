#include <cmath>
#include <cstdio>
#include <iomanip>
#include <ostream>
#include <set>
#include <sstream>

#include <cotangent/core/memory/memory_text_internal.h>
#include <cotangent/nn/explain/explain_internal.h>

namespace ct {
namespace explain_impl {
namespace {

std::string list(const std::vector<std::string>& parts, const char* between = ", ") {
  std::string text;
  for (const std::string& part : parts) text.append(text.empty() ? "" : between).append(part);
  return text;
}

// Rest of a name inside of a block; the whole name if it does not belong to the block.
std::string without(std::string_view name, std::string_view block) {
  if (block.empty() || !name.starts_with(block)) return std::string(name);
  if (name.size() == block.size()) return {};
  return std::string(name[block.size()] == '.' ? name.substr(block.size() + 1) : name);
}

std::string results(const Explanation::Node& node) {
  std::vector<std::string> parts;
  for (const TensorMeta& meta : node.results) parts.push_back(describe(meta));
  return list(parts);
}

// The first, and how many more there are.
std::string short_results(const Explanation::Node& node) {
  const std::string first = describe(node.results[0]);
  return node.results.size() == 1 ? first : detail::cat(first, " +", node.results.size() - 1);
}

std::string size_text(std::int64_t bytes) { return detail::format_bytes(static_cast<std::size_t>(bytes)); }

std::string number(const std::optional<double>& value) {
  char text[32];
  if (!value) return "";
  std::snprintf(text, sizeof text, *value != 0 && std::abs(*value) < 0.01 ? "%.1e" : "%.3g", *value);
  return *value < 1000 ? text : detail::cat(std::llround(*value));
}

// The layer of a list that a module lies in; `blocks` are those that hold more than one module.
std::string block_of(const Path& module, const std::set<Path>* blocks) {
  const auto number =
      std::find_if(module.begin(), module.end(), [](const std::string& p) { return is_number(p); });
  if (number == module.end()) return {};
  const Path block(module.begin(), number + 1);
  return !blocks || blocks->count(block) ? join(block) : "";
}

// Signature of a run, equal for runs that differ in nothing but their place: nodes are named by their
// distance.
std::string signature(const Explanation& e, const Run& run) {
  std::string text;
  for (int n = run.youngest; n >= run.oldest; --n) {
    const Explanation::Node& node = e.nodes[static_cast<std::size_t>(n) - 1];
    // Random numbers are drawn anew by each call.
    text += detail::cat(node.op, ' ', results(node), ' ', without(node.module, run.block), ' ',
                        node.attributes.substr(0, node.attributes.find("seed ")), ':');
    for (const auto& k : node.kept)
      text += detail::cat(k.name, ' ', k.node ? detail::cat(n - k.node) : without(k.from, run.block), ' ',
                          k.bytes, ';');
    for (const auto& t : node.targets)
      text +=
          detail::cat(t.input, ' ', t.node ? detail::cat(n - t.node) : without(goal(e, t), run.block), ',');
    text += '\n';
  }
  return text;
}

using Row = std::vector<std::string>;

// Numbers to the right, texts to the left, as wide as they are.
void print(std::ostream& out, const std::vector<Row>& rows, const std::vector<bool>& right) {
  std::vector<std::size_t> widths(right.size());
  for (const Row& row : rows)
    for (std::size_t c = 0; row.size() > 1 && c < row.size(); ++c)
      widths[c] = std::max(widths[c], row[c].size());
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string space(std::max(widths[c], row[c].size()) - row[c].size(), ' ');
      line.append(c ? "  " : "").append(right[c] && row.size() > 1 ? space + row[c] : row[c] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
}

}  // namespace

std::vector<Run> runs_of(const Explanation& e) {
  std::set<Path> blocks;
  for (const Explanation::Node& node : e.nodes) {
    const Path module = split(node.module);
    const Path block = split(block_of(module, nullptr));
    if (!block.empty() && block.size() < module.size()) blocks.insert(block);
  }
  std::vector<Run> runs;
  for (auto node = e.nodes.rbegin(); node != e.nodes.rend(); ++node) {
    std::string block = block_of(split(node->module), &blocks);
    if (runs.empty() || runs.back().block != block)
      runs.push_back({std::move(block), node->number, node->number, 0});
    runs.back().oldest = node->number;
  }
  std::string before;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::string own = signature(e, runs[r]);
    if (r > 0 && !runs[r].block.empty() && own == before) runs[r].copy = runs[r - 1].copy + 1;
    before = std::move(own);
  }
  return runs;
}

std::string peak_text(const Explanation& e) {
  if (e.memory.empty()) return "";
  const Explanation::Moment& m = e.memory[e.peak];
  const Explanation::Node& node = e.nodes[static_cast<std::size_t>(m.node) - 1];
  std::vector<std::string> parts;
  for (const auto& [bytes, what] :
       {std::pair{m.leaves, "of leaves"}, std::pair{m.kept, "kept"}, std::pair{m.cotangents, "of cotangents"},
        std::pair{m.gradients, "of gradients"}})
    if (bytes > 0) parts.push_back(detail::cat(size_text(bytes), ' ', what));
  return detail::cat(size_text(m.sum()), " in the ", m.backward ? "backward" : "forward", " of ", m.node,
                     " (", node.module.empty() ? "" : node.module + ", ", node.op, "): ", list(parts, " + "));
}

}  // namespace explain_impl

using namespace explain_impl;

std::string Explanation::to_string() const {
  const auto any = [&](auto member) {
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node& n) { return (n.*member).has_value(); });
  };
  struct Column {
    const char* title;
    std::optional<double> Node::*member;
    double scale;
  };
  std::vector<Column> measured;
  for (const Column& c :
       {Column{"|g|", &Node::grad_norm, 1}, Column{"forward us", &Node::forward_us, 1},
        Column{"% of limit", &Node::share, 100}, Column{"backward us", &Node::backward_us, 1}})
    if (any(c.member)) measured.push_back(c);

  std::vector<Row> rows = {{"#", "op", "result", "keeps", "bytes"}};
  std::vector<bool> right = {true, false, false, false, true};
  for (const Column& c : measured) rows[0].push_back(c.title), right.push_back(true);
  rows[0].insert(rows[0].end(), {"formula", "gradients go to"});
  right.insert(right.end(), {false, false});
  const std::vector<Run> runs = runs_of(*this);
  const bool headed = std::any_of(runs.begin(), runs.end(), [](const Run& r) { return !r.block.empty(); });
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const Run& run = runs[r];
    if (run.copy > 0) {
      if (r + 1 < runs.size() && runs[r + 1].copy > run.copy) continue;
      const Run& first = runs[r + 1 - static_cast<std::size_t>(run.copy)];
      std::int64_t sum = 0;
      for (int n = run.oldest; n <= first.youngest; ++n) sum += nodes[static_cast<std::size_t>(n) - 1].bytes;
      rows.push_back({detail::cat("... ", run.copy == 1 ? "" : first.block + " to ", run.block, ": ",
                                  run.copy, run.copy == 1 ? " time" : " times", " the same, nodes ",
                                  first.youngest, " to ", run.oldest, ", ", size_text(sum), " kept")});
      continue;
    }
    if (headed) rows.push_back({detail::cat("--- ", run.block.empty() ? "outside the layers" : run.block)});
    for (int n = run.youngest; n >= run.oldest; --n) {
      const Node& node = nodes[static_cast<std::size_t>(n) - 1];
      std::vector<std::string> keeps, goals;
      for (const Kept& k : node.kept) {
        const std::string from = without(origin(k), run.block);
        keeps.push_back(from.empty() ? k.name : detail::cat(k.name, " (", from, ')'));
      }
      for (const Target& t : node.targets) {
        goals.push_back(without(goal(*this, t), run.block));
        if (std::count(goals.begin(), goals.end(), goals.back()) > 1) goals.pop_back();
      }
      Row row = {detail::cat(n), node.op, short_results(node), list(keeps),
                 node.bytes < 10000 ? detail::cat(node.bytes) : size_text(node.bytes)};
      for (const Column& c : measured)
        row.push_back(number((node.*c.member) ? std::optional(*(node.*c.member) * c.scale) : std::nullopt));
      row.insert(row.end(), {node.formula, list(goals)});
      rows.push_back(std::move(row));
    }
  }
  std::ostringstream out;
  print(out, rows, right);
  out << nodes.size() << (nodes.size() == 1 ? " node, " : " nodes, ") << leaves.size()
      << (leaves.size() == 1 ? " leaf; " : " leaves; ") << size_text(bytes) << " kept; backward visits";
  if (nodes.size() <= 12) {
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) out << ' ' << node->number;
  } else {
    out << ' ' << nodes.size() << " to 1";
  }
  out << "\nmost memory: " << peak_text(*this) << '\n';
  return out.str();
}

std::ostream& operator<<(std::ostream& out, const Explanation& explanation) {
  return out << explanation.to_string();
}

std::string Explanation::to_dot() const {
  std::ostringstream out;
  const auto quoted = [](const std::string& text) {
    std::string escaped;
    for (const char c : text) escaped.append(c == '"' || c == '\\' ? "\\" : "").push_back(c);
    return '"' + escaped + '"';
  };
  out << "digraph tape {\n  rankdir = BT;  // as backward goes: from the loss to the leaves\n  node [shape = "
         "box];\n";
  int cluster = 0;
  for (const Run& run : runs_of(*this)) {
    if (!run.block.empty())
      out << "  subgraph cluster_" << cluster++ << " {\n  label = " << quoted(run.block) << ";\n";
    for (int n = run.youngest; n >= run.oldest; --n) {
      const Node& node = nodes[static_cast<std::size_t>(n) - 1];
      out << "  n" << n << " [label = " << quoted(detail::cat(n, "  ", node.op))
          << ", tooltip = " << quoted(detail::cat(results(node), "; ", node.formula)) << "];\n";
    }
    if (!run.block.empty()) out << "  }\n";
  }
  for (std::size_t i = 0; i < leaves.size(); ++i)
    out << "  l" << i << " [shape = ellipse, label = " << quoted(leaves[i].name)
        << ", tooltip = " << quoted(describe(leaves[i].meta)) << "];\n";
  for (const Node& node : nodes)
    for (const Target& t : node.targets)
      out << "  n" << node.number << " -> " << (t.node ? "n" : "l")
          << (t.node ? static_cast<std::size_t>(t.node) : t.place) << " [label = " << quoted(t.input)
          << "];\n";
  out << "}\n";
  return out.str();
}

}  // namespace ct
