#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/gemm/product.h>

namespace ct {

/// x and y as matrices: a vector is one row.
inline product::Missing linear_rows(int rank) {
  return rank == 1 ? product::Missing::rows : product::Missing::none;
}
/// The backward of both devices, with the GEMM of one.
void linear_backward(const Backward& b, const product::Backend& backend);

}  // namespace ct
