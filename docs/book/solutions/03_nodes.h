#pragma once

#include <cotangent/autograd/node.h>

#include <cstdint>
#include <set>
#include <vector>

namespace answer {

struct Kept {
  int nodes = 0;
  std::int64_t bytes = 0;
};

inline Kept kept_by(const ct::Tensor& root) {
  Kept kept;
  std::set<const ct::Node*> seen;  // without it a chain of n diamonds would be walked in 2^n ways
  std::vector<const ct::Node*> open = {static_cast<const ct::Node*>(root.impl()->grad_fn.get())};
  while (!open.empty()) {
    const ct::Node* node = open.back();
    open.pop_back();
    if (!node || !seen.insert(node).second) continue;
    kept.nodes += 1;
    for (const ct::KeptTensor& tensor : node->kept()) kept.bytes += tensor.saved->peek().nbytes();
    for (const ct::Edge& edge : node->edges) open.push_back(edge.node.get());
  }
  return kept;
}

}  // namespace answer
