#pragma once

#include <cstdint>
#include <span>

#include <cotangent/core/base/function_ref.h>
#include <cotangent/ops/engine/map/unary.h>

// From a line of a table of ops of two or three inputs to formulas, and the backward pass of such an op on any device.

namespace ct::map {

// Bits of a table's `saves` columns: 0 is a, 1 is b, 2 is c.
namespace saved_operands {
inline constexpr std::uint32_t none = 0, a = 1, b = 2, ab = 3, c = 4, bc = 6;
}

using RunOne = FunctionRef<void(Tensor& out, std::span<const Tensor* const> inputs)>;
using RunSeveral =
    FunctionRef<void(std::span<const Tensor* const> outputs, std::span<const Tensor* const> inputs)>;

/// Whether a gradient's formula is g itself, which no kernel need compute.
template <class F>
inline constexpr bool passes_on = F::kText == "return g";

/// The gradient of input i by a formula of g and the operands in `saves`, or, if it passes g on, g itself. run(out, inputs)
/// runs the formula on the op's device.
void operand_gradient(const Backward& call, int i, std::uint32_t saves, bool passes_on, RunOne run);
/// That of formula F.
template <class F, class Run>
void operand_gradient(const Backward& call, int i, Run&& run) {
  if constexpr (passes_on<F>)
    operand_gradient(call, i, F::kSaves, true, [](Tensor&, std::span<const Tensor* const>) {});
  else
    operand_gradient(call, i, F::kSaves, false, run);
}

/// The gradients of inputs 0, 1, ... by one formula with as many outputs, whose inputs are the cotangent `g` and the
/// op's inputs, over `shape`. run(outputs, inputs) runs the formula on the op's device; outputs that are not wanted are null.
void joint_gradients(const Backward& call, const Tensor& g, const Shape& shape, int outputs, int inputs,
                     RunSeveral run);
/// Kernels of formula F.
template <class F, class Run>
void joint_gradients(const Backward& call, const Tensor& g, const Shape& shape, Run&& run) {
  joint_gradients(call, g, shape, F::kOutputs, F::kInputs, run);
}

}  // namespace ct::map

// The operands among the arguments of a gradient.
#define CT_OPERANDS_none
#define CT_OPERANDS_a X a,
#define CT_OPERANDS_b X b,
#define CT_OPERANDS_ab X a, X b,
#define CT_OPERANDS_c X c,
#define CT_OPERANDS_bc X b, X c,

// How many they are.
#define CT_OPERAND_COUNT_none 0
#define CT_OPERAND_COUNT_a 1
#define CT_OPERAND_COUNT_b 1
#define CT_OPERAND_COUNT_ab 2
#define CT_OPERAND_COUNT_c 1
#define CT_OPERAND_COUNT_bc 2

// The gradient of one operand, with the traits of Formula or Cold.
#define CT_OPERAND_GRADIENT(traits, name, saves, expression)                                             \
  struct name##_saves : ::ct::map::traits {                                                              \
    static constexpr std::uint32_t kSaves = ::ct::map::saved_operands::saves;                            \
  };                                                                                                     \
  CT_MAP_FORMULA(name, name##_saves, 1 + CT_OPERAND_COUNT_##saves, 1,                                    \
                 ([[maybe_unused]] X g, CT_OPERANDS_##saves [[maybe_unused]] X p, [[maybe_unused]] X q), \
                 return expression)
#define CT_BINARY_FORMULA(traits, name, expression)                                                     \
  CT_MAP_FORMULA(name, ::ct::map::traits, 2, 1, (X a, X b, [[maybe_unused]] X p, [[maybe_unused]] X q), \
                 return expression)

// Three formulas: name_y(a, b), name_da and name_db(g, saved operands).
#define CT_BINARY_FORMULAS(traits, name, saves_a, saves_b, y, da, db) \
  CT_BINARY_FORMULA(traits, name##_y, y)                              \
  CT_OPERAND_GRADIENT(traits, name##_da, saves_a, da)                 \
  CT_OPERAND_GRADIENT(traits, name##_db, saves_b, db)
// Four: of an op of three tensors.
#define CT_TERNARY_FORMULAS(traits, name, saves_a, saves_b, saves_c, y, da, db, dc)     \
  CT_MAP_FORMULA(name##_y, ::ct::map::traits, 3, 1,                                     \
                 (X a, X b, X c, [[maybe_unused]] X p, [[maybe_unused]] X q), return y) \
  CT_OPERAND_GRADIENT(traits, name##_da, saves_a, da)                                   \
  CT_OPERAND_GRADIENT(traits, name##_db, saves_b, db)                                   \
  CT_OPERAND_GRADIENT(traits, name##_dc, saves_c, dc)
