#pragma once

#include <cotangent/core/op/integers_internal.h>
#include <cotangent/ops/engine/rows/plain.h>

// embedding and its gradient, in the plainest way. Rows are those of the table w and, one for each place p that an index
// names, those of y and g. README.md derives them.

namespace ct::plain {

using Table = Eigen::Map<const Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
using MutableTable = Eigen::Map<Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

/// y[p, :] = w[i_p, :]
inline void embedding(const Table& w, const Integers& i, MutableTable y) {
  for (std::int64_t p = 0; p < y.rows(); ++p) y.row(p) = w.row(i[p]);
}

/// dw[v, :] = sum_p [i_p = v] g[p, :] but for v = padding, added to what is there.
inline void embedding_gradient(const Table& g, const Integers& i, std::int64_t padding, MutableTable dw) {
  for (std::int64_t p = 0; p < g.rows(); ++p)
    if (i[p] != padding) dw.row(i[p]) += g.row(p);
}

}  // namespace ct::plain
