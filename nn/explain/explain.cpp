#include <cotangent/nn/explain/explain.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <cotangent/autograd/node.h>
#include <cotangent/nn/explain/explain_internal.h>

namespace ct {

using namespace explain_impl;

namespace {

constexpr const char* kName = "explain";

// The nodes behind `from` in the order of recording, and the leaves: those with names in the order of these, then the
// others in the order in which they were made.
Tape collect(const Edge& from, const ExplainOptions& options) {
  Tape tape;
  tape.output = from.index;
  std::unordered_set<const void*> seen;
  const auto find = [&](const Edge& edge) {
    const void* key = edge.node ? static_cast<const void*>(edge.node.get()) : edge.leaf.get();
    if (!edge || !seen.insert(key).second) return;
    if (edge.node) {
      tape.nodes.push_back(edge.node.get());
    } else {
      tape.leaves.push_back(edge.leaf.get());
    }
  };
  find(from);
  for (std::size_t i = 0; i < tape.nodes.size(); ++i)
    for (const Edge& edge : tape.nodes[i]->edges) find(edge);
  std::sort(tape.nodes.begin(), tape.nodes.end(),
            [](const Node* a, const Node* b) { return a->sequence() < b->sequence(); });
  for (std::size_t i = 0; i < options.names.size(); ++i)
    if (options.names[i].value.defined()) tape.names.emplace(options.names[i].value.impl(), i);
  std::sort(tape.leaves.begin(), tape.leaves.end(), [&](TensorImpl* a, TensorImpl* b) {
    const auto key = [&](TensorImpl* leaf) {
      const auto name = tape.names.find(leaf);
      return std::pair(name == tape.names.end() ? options.names.size() : name->second,
                       detail::leaf_meta(*leaf).sequence);
    };
    return key(a) < key(b);
  });
  return tape;
}

class Collector {
 public:
  Collector(const Tape& tape, const ExplainOptions& options) : tape_(tape) {
    for (std::size_t i = 0; i < tape.nodes.size(); ++i) numbers_[tape.nodes[i]] = static_cast<int>(i) + 1;
    int unnamed = 0;
    for (TensorImpl* leaf : tape.leaves) {
      const auto name = tape.names.find(leaf);
      const Tensor t{Ref<TensorImpl>::share(leaf)};
      named_.push_back(name != tape.names.end());
      numbers_[leaf] = static_cast<int>(result_.leaves.size());
      leaf_bytes_ += newly_held(leaf->storage.get());
      result_.leaves.push_back(
          {name != tape.names.end() ? options.names[name->second].name : detail::cat("leaf ", ++unnamed),
           t.meta(),
           {}});
    }
  }

  Explanation run() {
    for (const Node* node : tape_.nodes) add(*node);
    name_modules();
    follow_memory();
    return std::move(result_);
  }

 private:
  void add(const Node& node) {
    CT_CHECK(
        !node.released(), AutogradError, kName, "what '", node.name(),
        "' kept for backward has been freed: the tape was walked already; explain it before backward(), or "
        "pass retain_graph = true to that");
    Explanation::Node& out = result_.nodes.emplace_back();
    const auto* op = dynamic_cast<const OpNode*>(&node);
    out.number = static_cast<int>(result_.nodes.size());
    out.op = node.name();
    out.formula = op               ? op->op().formula
                  : node.expands() ? "computed again on the way back"
                                   : "a function of your own";
    if (op) out.attributes = describe_attributes(op->op(), op->attrs());
    out.call_site = node.call_site();
    for (std::uint32_t k = 0; k < node.output_count(); ++k) out.results.push_back(node.output_meta(k));
    if (op) out.source = source_of(out.op, out.results[0].device, out.results[0].dtype);
    for (const KeptTensor& kept : node.kept()) {
      const Tensor& t = kept.saved->peek();
      Explanation::Kept& k = out.kept.emplace_back();
      k = {kept.role, {}, 0, t.meta(), newly_held(t.impl()->storage.get())};
      if (kept.from.leaf) k.from = result_.leaves[place(kept.from)].name;
      if (kept.from.node)
        k.from = output_text(*kept.from.node, kept.from.index), k.node = numbers_.at(kept.from.node.get());
      out.bytes += k.bytes;
    }
    result_.bytes += out.bytes;
    for (std::size_t i = 0; i < node.edges.size(); ++i) {
      const Edge& edge = node.edges[i];
      if (!edge) continue;
      const std::string input = op ? input_name(op->op(), i) : detail::cat("input ", i);
      if (edge.node)
        out.targets.push_back({input, numbers_.at(edge.node.get()), edge.index});
      else
        out.targets.push_back({input, 0, place(edge)});
    }
  }

  std::size_t place(const Edge& leaf) const { return static_cast<std::size_t>(numbers_.at(leaf.leaf.get())); }
  static std::string output_text(const Node& node, std::uint32_t k) {
    const auto* op = dynamic_cast<const OpNode*>(&node);
    return op ? output_name(op->op(), k) : detail::cat("output ", k);
  }

  // A node belongs to the module of its parameters; one without, to what those before and after it have in common.
  void name_modules() {
    std::vector<std::pair<std::size_t, Path>> known;
    for (std::size_t i = 0; i < result_.nodes.size(); ++i) {
      Path path;
      bool any = false;
      for (const Explanation::Target& target : result_.nodes[i].targets) {
        if (target.node != 0 || !named_[target.place]) continue;
        Path own = split(result_.leaves[target.place].name);
        own.pop_back();
        path = any ? common(path, own) : own;
        any = true;
      }
      if (any) known.emplace_back(i, path);
    }
    for (std::size_t k = 0; k < known.size(); ++k) {
      result_.nodes[known[k].first].module = join(known[k].second);
      if (k == 0) continue;
      const Path &before = known[k - 1].second, &after = known[k].second;
      Path path = common(before, after);
      // Behind the last parameters of a layer of a list stands the end of that layer.
      for (std::size_t n = path.size(); n + 1 < before.size(); ++n) {
        if (!is_number(before[n])) continue;
        path.assign(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(n) + 1);
        break;
      }
      for (std::size_t i = known[k - 1].first + 1; i < known[k].first; ++i)
        result_.nodes[i].module = join(path);
    }
  }

  void follow_memory() {
    std::int64_t kept = 0;
    for (const Explanation::Node& node : result_.nodes) {
      kept += node.bytes;
      result_.memory.push_back({node.number, false, leaf_bytes_, kept, 0, 0});
    }
    std::map<std::pair<int, std::size_t>, std::int64_t> waiting;  // cotangents, by node and output
    std::vector<bool> arrived(result_.leaves.size());
    std::int64_t gradients = 0, cotangents = 0;
    const Explanation::Node& last = result_.nodes.back();
    waiting[{last.number, tape_.output}] = cotangents = bytes_of(last.results[tape_.output]);
    for (auto node = result_.nodes.rbegin(); node != result_.nodes.rend(); ++node) {
      std::int64_t own = 0;
      for (std::size_t k = 0; k < node->results.size(); ++k)
        if (const auto found = waiting.find({node->number, k}); found != waiting.end())
          own += found->second, waiting.erase(found);
      // The gradient of a view that moves nothing is the cotangent itself.
      const auto* op = dynamic_cast<const OpNode*>(tape_.nodes[static_cast<std::size_t>(node->number) - 1]);
      const bool same = op && op->op().view && node->targets.size() == 1 && node->results.size() == 1;
      for (const Explanation::Target& target : node->targets) {
        if (target.node == 0) {
          if (arrived[target.place] || has_gradient(target.place)) continue;
          arrived[target.place] = true;
          gradients += bytes_of(result_.leaves[target.place].meta);
          continue;
        }
        const TensorMeta& meta =
            result_.nodes[static_cast<std::size_t>(target.node) - 1].results[target.place];
        const auto [entry, fresh] = waiting.emplace(std::pair{target.node, target.place}, bytes_of(meta));
        if (!fresh) continue;
        cotangents += entry->second;
        if (same && entry->second == own) cotangents -= std::exchange(own, 0);
      }
      result_.memory.push_back({node->number, true, leaf_bytes_, kept, cotangents, gradients});
      cotangents -= own;
      kept -= node->bytes;
    }
    const auto less = [](const Explanation::Moment& a, const Explanation::Moment& b) {
      return a.sum() < b.sum();
    };
    const auto peak = std::max_element(result_.memory.begin(), result_.memory.end(), less);
    result_.peak = static_cast<std::size_t>(peak - result_.memory.begin());
  }
  bool has_gradient(std::size_t leaf) const { return detail::leaf_meta(*tape_.leaves[leaf]).grad.defined(); }
  // The bytes of a storage that nothing looked at so far keeps alive.
  std::int64_t newly_held(const Storage* storage) {
    return held_.insert(storage).second ? static_cast<std::int64_t>(storage->bytes()) : 0;
  }

  const Tape& tape_;
  Explanation result_;
  std::unordered_map<const void*, int> numbers_;  // of nodes; of leaves their places
  std::int64_t leaf_bytes_ = 0;
  std::unordered_set<const Storage*> held_;  // by leaves and by what has been added
  std::vector<bool> named_;                  // leaves
};

}  // namespace

Explanation explain(const Tensor& loss, const ExplainOptions& options) {
  CT_CHECK(loss.defined(), AutogradError, kName, "the loss is undefined; pass a tensor that was computed");
  const Edge edge = detail::gradient_edge(loss);
  CT_CHECK(edge, AutogradError, kName, "tensor ", describe(loss),
           " has no tape behind it: nothing that it was made from requires a gradient, or a NoGrad guard was "
           "alive; call "
           "set_requires_grad() on the leaves before the forward pass");
  CT_CHECK(edge.node, AutogradError, kName, "tensor ", describe(loss),
           " is a leaf, which no op has made; pass what was computed from it");
  const Tape tape = collect(edge, options);
  Explanation result = Collector(tape, options).run();
  if (options.watch) options.watch->add_to(result, tape);
  if (options.grads || options.times) go_back(loss, tape, options, result);
  return result;
}

}  // namespace ct
