#pragma once

#include <array>
#include <utility>
#include <vector>

#include <cotangent/autograd/recompute.h>
#include <cotangent/nn/models/language_model.h>

namespace ct::nn::models {

/// x and y behind all blocks, which take (x, y, more..., cache, number) and give both; y is undefined in front of the first. With
/// `recomputes` and no cache each is recomputed: block and `more` are kept by value.
template <class Blocks, class... More>
std::array<Tensor, 2> run_blocks(const Blocks& blocks, Tensor x, KvCache* cache, bool recomputes,
                                 const More&... more) {
  std::array<Tensor, 2> at = {std::move(x), Tensor()};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto& block = blocks[i];
    if (!recomputes || cache) {
      at = block.forward(at[0], at[1], more..., cache, static_cast<std::int64_t>(i));
      continue;
    }
    std::vector<Tensor> inputs = {at[0]};
    if (at[1].defined()) inputs.push_back(at[1]);
    const auto out = recompute(
        [block, more...](const std::vector<Tensor>& in) {
          const auto next = block.forward(in[0], in.size() > 1 ? in[1] : Tensor(), more..., nullptr, 0);
          return std::vector<Tensor>{next[0], next[1]};
        },
        inputs);
    at = {out[0], out[1]};
  }
  return at;
}

}  // namespace ct::nn::models
