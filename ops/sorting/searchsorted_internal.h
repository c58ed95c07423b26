#pragma once

#include <cotangent/core/op/op_def.h>

namespace ct::sorting::searched {

struct Attrs {
  bool right;
};

/// Number of the n ascending keys, key_at(0) to key_at(n - 1), that are less than `key`, or with `right` not
/// larger.
template <class K, class KeyAt>
CT_HD std::int64_t position(std::int64_t n, K key, bool right, const KeyAt& key_at) {
  std::int64_t low = 0;
  while (n > 0) {
    const std::int64_t half = n / 2;
    const K middle = key_at(low + half);
    const bool below = right ? middle <= key : middle < key;
    if (below) low += half + 1;
    n = below ? n - half - 1 : half;
  }
  return low;
}

}  // namespace ct::sorting::searched
