#pragma once

#include <array>
#include <utility>
#include <vector>

#include <cotangent/autograd/recompute.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct::nn::models {

/// block(x, y) by recompute(); y may be undefined, as in front of the first block. The block is kept by
/// value.
template <class Block>
std::array<Tensor, 2> recompute_block(Block block, const Tensor& x, const Tensor& y) {
  std::vector<Tensor> inputs = {x};
  if (y.defined()) inputs.push_back(y);
  const auto out = recompute(
      [block = std::move(block)](const std::vector<Tensor>& in) {
        const auto next = block(in[0], in.size() > 1 ? in[1] : Tensor());
        return std::vector<Tensor>{next[0], next[1]};
      },
      inputs);
  return {out[0], out[1]};
}

}  // namespace ct::nn::models
