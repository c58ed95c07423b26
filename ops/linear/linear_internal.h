#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/gemm/product.h>

// Shared by linear and what does more in the same pass (linear_relu).

namespace ct {

/// x and y as matrices: a vector is one row.
inline gemm::Missing linear_rows(int rank) { return rank == 1 ? gemm::Missing::rows : gemm::Missing::none; }

/// The backward of both devices, with the GEMM of one.
void linear_backward(const Backward& b, const gemm::Backend& backend);

namespace linear_impl {

void infer(Infer& in);
Cost cost(std::span<const TensorMeta> in, std::span<const TensorMeta> out, AttrsView attrs);
/// The gradients as products on the tape, from the cotangent `g` of x w^T + b.
void gradients(const Backward& b, const Tensor& g);

inline constexpr OutputDef kOutputs[] = {{.name = "y"}};
constexpr OpDef op(const char* name, const char* formula, std::span<const InputDef> inputs,
                   const KernelTables* kernels, BackwardFn rule) {
  return {
      .name = name,
      .formula = formula,
      .inputs = inputs,
      .outputs = kOutputs,
      .infer = infer,
      .kernels = kernels,
      .fast_f64 = true,
      .rule = rule,
      .low_rule = true,
      .autocast = AutocastPolicy::lower,
      .cost = cost,
  };
}

}  // namespace linear_impl
}  // namespace ct
