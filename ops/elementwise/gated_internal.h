#pragma once

#include <cotangent/core/op_def.h>
#include <cotangent/ops/engine/map/map.h>
#include <cotangent/ops/engine/walk/copy.h>

namespace ct::gated {

enum class Gate { silu, gelu, gelu_tanh };

/// The inputs of a call (two forward; backward the cotangent as the third) as rows of neighbouring elements:
/// those of input i begin strides[i] elements apart, those of results follow each other. What lies otherwise
/// is copied.
struct Rows {
  Tensor inputs[3];
  std::int64_t rows = 1, columns = 1, strides[3] = {};

  Rows(const Tensor& out, std::initializer_list<const Tensor*> given) : columns(out.numel()) {
    const elementwise::Layout layout = elementwise::make_layout(out, {given.begin(), given.size()});
    bool usable = layout.rank <= 2;
    for (std::size_t k = 0; k <= given.size(); ++k)
      usable = usable && layout.strides[k][layout.rank - 1] == 1;
    std::size_t i = 0;
    for (const Tensor* t : given) {
      inputs[i] = usable ? *t : packed(*t);
      if (usable && layout.rank == 2) strides[i] = layout.strides[i + 1][0];
      ++i;
    }
    if (usable && layout.rank == 2) {
      rows = layout.sizes[0];
      columns = layout.sizes[1];
    }
  }
};

}  // namespace ct::gated
