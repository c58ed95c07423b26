#pragma once

#include <algorithm>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/map/unary.h>

// Shared by the OpDefs of elementwise families: shape rules, cost, records.

namespace ct::map {

// ---- Shapes -------------------------------------------------------------------------------------------

inline void infer_unary(Infer& i) { i.output(i.in(0).shape(), i.in(0).dtype()); }
/// All inputs broadcast to one shape.
[[gnu::noinline]] inline void infer_broadcast_of_several(Infer& i) {
  Shape shape = i.in(0).shape();
  for (int k = 1; k < i.input_count(); ++k) shape = broadcast_shapes(i.op.name, shape, i.in(k).shape());
  i.output(shape, i.in(0).dtype());
}
inline void infer_broadcast(Infer& i) {
  const Shape& first = i.in(0).shape();
  for (int k = 1; k < i.input_count(); ++k)
    if (!(i.in(k).shape() == first)) return infer_broadcast_of_several(i);
  i.output(first, i.in(0).dtype());
}
inline void infer_unary_predicate(Infer& i) { i.output(i.in(0).shape(), DType::boolean); }

// ---- Records of inputs and outputs ---------------------------------------------------------------------

// By what a table's `saved` column says.
inline constexpr InputDef kX[] = {{.name = "x"}};
inline constexpr InputDef kXNeedsX[] = {{.name = "x", .needs = "x"}};
inline constexpr InputDef kXNeedsY[] = {{.name = "x", .needs = "y"}};
inline constexpr InputDef kXWithoutGradient[] = {{.name = "x", .gradient = false}};
constexpr std::span<const InputDef> unary_inputs(Saved saved) {
  return saved == Saved::x ? kXNeedsX : saved == Saved::y ? kXNeedsY : kX;
}
inline constexpr OutputDef kY[] = {{.name = "y"}};
inline constexpr OutputDef kTruth[] = {{.name = "y", .gradient = false}};

// The numbers of a formula, by the names that they have there.
inline constexpr AttrDef kParameters[] = {CT_ATTRIBUTE(Parameters, p), CT_ATTRIBUTE(Parameters, q)};

// The records of those that a formula's text names: none, p, or p and q.
consteval std::span<const AttrDef> named_parameters(const char* text) {
  const auto in_word = [](char c) { return c >= 'a' && c <= 'z'; };
  int count = 0;
  for (const char* c = text + 1; *c; ++c)
    if ((*c == 'p' || *c == 'q') && !in_word(c[-1]) && !in_word(c[1])) count = std::max(count, *c - 'p' + 1);
  return std::span(kParameters).first(static_cast<std::size_t>(count));
}

// The op of a row of a table: y of these inputs, or where `truth` their bool.
consteval OpDef define_row(const char* name, const char* formula, DTypeSet types,
                           std::span<const InputDef> inputs, bool truth, InferFn infer,
                           const KernelTables* kernels, BackwardFn rule, AutocastPolicy autocast,
                           bool promotes) {
  return checked({.name = name,
                  .formula = formula,
                  .inputs = inputs,
                  .outputs = truth ? kTruth : kY,
                  .attributes = named_parameters(formula),
                  .infer = infer,
                  .kernels = kernels,
                  .rule = rule,
                  .promotes = promotes,
                  .int_to_float = types == floats,
                  .autocast = autocast,
                  .dtypes = types,
                  .flops_each = 1});
}

}  // namespace ct::map
