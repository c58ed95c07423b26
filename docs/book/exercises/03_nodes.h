#pragma once

#include <cotangent/autograd/node.h>

#include <cstdint>

// How much memory does a loss hold on to?

namespace answer {

struct Kept {
  int nodes = 0;
  std::int64_t bytes = 0;
};

/// The nodes that `root` was made through, and the bytes that they save for backward. A node that is reached on two ways
/// counts once.
inline Kept kept_by(const ct::Tensor& root) {
  (void)root;
  return {};  // yours: root.impl()->grad_fn is the first node, node.edges lead on, node.kept() is what it keeps
}

}  // namespace answer
