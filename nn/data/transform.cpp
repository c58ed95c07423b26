#include <cotangent/nn/data/transform.h>

#include <algorithm>

namespace ct::data::detail {

// Rows of batches in another order: row j of parts[p] is row places[p][j] of the result.
static std::vector<Tensor> reordered(std::span<const std::vector<Tensor>> parts,
                                     std::span<const std::vector<std::int64_t>> places) {
  if (parts.size() == 1) return parts[0];  // in the order that was asked for
  std::vector<Tensor> joined;
  for (std::size_t t = 0; t < parts[0].size(); ++t) {
    const Tensor& first = parts[0][t];
    std::vector<Tensor> rows;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      CT_CHECK(parts[p].size() == parts[0].size(), ShapeError, "ConcatDataset", "a dataset gives ",
               parts[p].size(), " tensors, another one ", parts[0].size(), "; all give the same number");
      for (std::size_t j = 0; j < places[p].size(); ++j) {
        const auto at = static_cast<std::size_t>(places[p][j]);
        if (rows.size() <= at) rows.resize(at + 1);
        rows[at] = parts[p][t].select(0, static_cast<std::int64_t>(j));
      }
    }
    joined.push_back(rows.empty() ? first : stack_examples(rows));
  }
  return joined;
}

std::pair<std::size_t, std::int64_t> place_in(const std::vector<std::int64_t>& ends, std::int64_t i) {
  CT_CHECK(i >= 0 && i < ends.back(), IndexError, "ConcatDataset", "index ", i,
           " is out of range; it must lie in [0, ", ends.back(), ')');
  const auto d = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), i) - ends.begin());
  return {d, d == 0 ? i : i - ends[d - 1]};
}

std::vector<Tensor> join_batches(
    const std::vector<std::int64_t>& ends, std::span<const std::int64_t> indices,
    FunctionRef<std::vector<Tensor>(std::size_t d, std::span<const std::int64_t> rows)> get_batch) {
  std::vector<std::vector<std::int64_t>> wanted(ends.size()), places(ends.size());
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const auto [d, at] = place_in(ends, indices[k]);
    wanted[d].push_back(at);
    places[d].push_back(static_cast<std::int64_t>(k));
  }
  std::vector<std::vector<Tensor>> parts;
  std::vector<std::vector<std::int64_t>> rows;
  for (std::size_t d = 0; d < wanted.size(); ++d) {
    // Parts that give nothing are left out, but one is there for its shape.
    if (wanted[d].empty() && (!parts.empty() || d + 1 < wanted.size())) continue;
    rows.push_back(std::move(places[d]));
    parts.push_back(get_batch(d, wanted[d]));
  }
  return reordered(parts, rows);
}

}  // namespace ct::data::detail
