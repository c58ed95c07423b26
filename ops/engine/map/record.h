#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/map/formulas.h>
#include <cotangent/ops/engine/map/map.h>

// The formulas of an op's kernels as values, for what puts formulas of several ops together (ops/engine/map/chain.h): their tile
// functions on the CPU, and their texts.

namespace ct::map {

/// One run of a formula. `step[i]` is 1, or 0 for an input that is one number and whose pointer leads to a vector filled
/// with it.
struct Tile {
  const void* in[kMaxInputs];
  std::ptrdiff_t step[kMaxInputs];
  void* out[kMaxOutputs];
  std::int64_t n;
  const Parameters* parameters;
  bool streams = false;    // results go past the caches
  std::uint32_t last = 0;  // of a draw, whose words are an input: true up to this one
};
using TileFn = void (*)(const Tile&);

/// The tile functions of a formula; null where it has no meaning. Without f32 those calls are computed in f64.
struct Tiles {
  TileFn f32 = nullptr;
  TileFn f64 = nullptr;
  TileFn i64 = nullptr;
  bool predicate = false;  // the output is bool
  std::int64_t grain = Formula::kGrain;
};

/// A formula: its body and its arguments as texts, and its tile functions at the processor's level.
struct FormulaRecord {
  std::string_view text;   // "return a * b"
  std::string_view names;  // "X a, X b, X p, X q"
  const Tiles* tiles = nullptr;
  std::uint8_t inputs = 0, outputs = 0;
  bool draws = false;  // behind the inputs comes a truth value that is drawn
};

/// The gradient of one input of an op.
struct GradientRecord {
  FormulaRecord formula{};
  /// Arguments of the formula in order: the cotangent (g), input 0, 1 or 2, or the output (y).
  char operands[6] = {};
  bool passes_on = false;               // it is the cotangent itself
  const Parameters* numbers = nullptr;  // in place of the call's
};

/// The formulas of an op, y and the gradients of its inputs.
struct MapRecord {
  FormulaRecord y;
  std::uint8_t gradients = 0;  // 0: none flows back
  GradientRecord gradient[3]{};
  /// The numbers and the draw of a call, of an op whose attributes are no Parameters; `count` are the elements of its input 0.
  void (*read)(AttrsView attrs, std::int64_t count, Parameters& numbers, Draw& draw) = nullptr;
  /// Whether these attributes make y a number, of the values of all elements; the cotangent is one number, then, too.
  bool (*reduces)(AttrsView attrs) = nullptr;
};

/// Behind an op's name: the entry that hands out its record in a table of the CPU's kernels.
inline constexpr std::string_view kFormulas = " formulas";

/// The record of an op, null where its kernels are not formulas.
const MapRecord* formulas_of(const OpDef& op);

}  // namespace ct::map
