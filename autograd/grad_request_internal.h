#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <cotangent/autograd/node.h>

// Request of grad(): the wanted gradients, and the nodes that lead there.

namespace ct::detail {

// Map from an address to a number, by open addressing. Entries of earlier rounds count as empty, so that clear() touches
// none.
class AddressTable {
 public:
  std::uint32_t* find(const void* key) {
    for (std::size_t i = hash(key);; ++i) {
      Entry& e = entries_[i & mask_];
      if (e.round != round_) return nullptr;
      if (e.key == key) return &e.value;
    }
  }
  void insert(const void* key, std::uint32_t value) {
    if (2 * ++count_ > entries_.size()) grow();
    place({key, value, round_});
  }
  void clear() {
    count_ = 0;
    if (++round_ != 0) return;
    std::fill(entries_.begin(), entries_.end(), Entry{});
    round_ = 1;
  }

 private:
  struct Entry {
    const void* key = nullptr;
    std::uint32_t value = 0, round = 0;
  };
  static std::size_t hash(const void* key) {
    return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(key) * 0x9e3779b97f4a7c15u >> 32);
  }
  void place(Entry entry) {
    std::size_t i = hash(entry.key);
    while (entries_[i & mask_].round == round_) ++i;
    entries_[i & mask_] = entry;
  }
  void grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    mask_ = entries_.size() - 1;
    for (const Entry& e : old)
      if (e.round == round_) place(e);
  }

  std::vector<Entry> entries_ = std::vector<Entry>(32);
  std::size_t mask_ = 31;
  std::size_t count_ = 0;
  std::uint32_t round_ = 1;
};

inline const void* key_of(const Edge& edge) {
  return edge.node ? static_cast<const void*>(edge.node.get()) : edge.leaf.get();
}

// Gradients that grad() returns instead of accumulating them into leaves, and the nodes that lead there: no other is visited.
class GradRequest {
 public:
  explicit GradRequest(std::size_t inputs) : results(inputs) { edges_.reserve(inputs); }

  std::vector<Tensor> results;

  // The next input.
  void ask(Edge edge) {
    oldest_ = std::min(oldest_, edge.node ? edge.node->sequence() : leaf_meta(*edge.leaf).sequence);
    if (!known_.find(key_of(edge))) known_.insert(key_of(edge), kAsked);
    edges_.push_back(std::move(edge));
  }

  // Looks at all that lies behind `from`. A node is older than those that use it, so that going through the
  // nodes found from the oldest on, each finds its inputs decided.
  void explore(const Edge& from) {
    found_.clear();
    find(from);
    for (std::size_t i = 0; i < found_.size(); ++i)
      for (const Edge& edge : found_[i]->edges) find(edge);
    std::sort(found_.begin(), found_.end(),
              [](const Node* a, const Node* b) { return a->sequence() < b->sequence(); });
    for (const Node* node : found_)
      if (std::any_of(node->edges.begin(), node->edges.end(), [&](const Edge& e) { return wants(e); }))
        *known_.find(node) |= kLeads;
  }

  bool wants(const Edge& edge) { return (state(key_of(edge)) & (kAsked | kLeads)) != 0; }
  bool asked(const void* key) { return (state(key) & kAsked) != 0; }
  // Whether something that is wanted may lie behind this node of explored tape.
  bool leads(const Node& node) { return (state(&node) & kLeads) != 0; }

  // Hands in the gradients of a node's outputs, or of a leaf.
  void take(const void* key, std::span<Tensor> grads) {
    if (!asked(key)) return;
    for (std::size_t c = 0; c < edges_.size(); ++c)
      if (key_of(edges_[c]) == key) results[c] = grads[edges_[c].index];
  }

 private:
  static constexpr std::uint32_t kAsked = 1, kLeads = 2, kFound = 4;

  std::uint32_t state(const void* key) {
    const std::uint32_t* found = key ? known_.find(key) : nullptr;
    return found ? *found : 0;
  }
  void find(const Edge& edge) {
    Node* const node = edge.node.get();
    if (!node || node->sequence() < oldest_) return;
    // The edges of a piece of tape are known once it is recorded.
    const std::uint32_t fresh = node->expands() && node->sequence() > oldest_ ? kFound | kLeads : kFound;
    if (std::uint32_t* known = known_.find(node)) {
      if (*known & kFound) return;
      *known |= fresh;
    } else {
      known_.insert(node, fresh);
    }
    found_.push_back(node);
  }

  std::vector<Edge> edges_;
  std::uint64_t oldest_ = ~std::uint64_t{0};  // nothing older leads to an input
  AddressTable known_;                        // nodes and leaves
  std::vector<Node*> found_;
};

}  // namespace ct::detail
