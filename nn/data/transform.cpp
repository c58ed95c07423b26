#include <cotangent/nn/data/transform.h>

#include <cstring>

namespace ct::data::detail {

std::vector<Tensor> join_batches(std::span<const std::vector<Tensor>> parts,
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

}  // namespace ct::data::detail
