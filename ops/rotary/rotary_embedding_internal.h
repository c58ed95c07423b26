#pragma once

#include <cstdint>

#include <cotangent/core/op/integers_internal.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/rotary/rotary_embedding.h>

namespace ct::rotary {

inline constexpr int kMaxPairs = kMaxRotaryDim / 2;

struct Attrs {
  RotaryOptions options;

  std::int64_t turned(std::int64_t columns) const {
    return options.rotary_dim ? options.rotary_dim : columns;
  }
};

/// The angle per position of every pair.
template <class C>
struct Frequencies {
  C of[kMaxPairs];
};
/// The angles of the last call in this thread are remembered: a model asks for the same ones all the time.
template <class C>
const Frequencies<C>& frequencies(const RotaryOptions& options, std::int64_t turned);

/// One direction of the rotation: y = x turned by its positions' angles, or back.
struct Call {
  const char* op;
  Tensor x;
  Tensor y, positions;
  // x as [batch, heads, length, columns]; y is contiguous.
  std::int64_t batch = 1, heads = 1, length, columns, pairs;
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
  std::int64_t position_stride;  // from one batch to the next: 0 if they share their positions
  bool back;
  RotaryOptions options;

  Call(const char* op, const Tensor& from, const Tensor& positions, const Tensor& y, const Attrs& attrs,
       bool back);
};

using Positions = Integers;

}  // namespace ct::rotary
