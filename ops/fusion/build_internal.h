#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/map/chain.h>

// From calls of ops to programs (ops/engine/map/chain.h), for ct::fuse and for whoever records calls.

namespace ct::fusion {

/// Makes a program, step by step. Values are numbered: inputs first, then what the calls give.
class Builder {
 public:
  /// Inputs come before all else.
  int input(DType dtype);
  /// A number.
  int number(const Scalar& value, DType dtype);
  /// A call of an op, whose result has this dtype; -1 where the op's kernels are not a formula, or not one of these dtypes
  /// (integers have none): that call is no part of a program.
  int call(const OpDef& op, AttrsView attrs, std::span<const int> operands, DType dtype);
  /// The gradient of operand `k` of such a call, of dtype `wanted`, from the cotangent and the values `operands` and `result`,
  /// of which those that it does not read may be -1; `cotangent` itself where the op passes it on, -1 where none flows back.
  int gradient(const OpDef& op, AttrsView attrs, std::span<const int> operands, int result, int k,
               int cotangent, DType wanted);
  /// a + b, as gradients are added up.
  int sum(int a, int b);
  int convert(int value, DType dtype) { return program_.convert(value, dtype); }
  DType dtype(int value) const { return program_.dtypes[static_cast<std::size_t>(value)]; }
  std::size_t steps() const { return program_.steps.size(); }
  /// For the steps from here on: map::chain::Step::rough.
  bool rough = false;
  /// Whether calls that draw are steps. A program of them repeats its draws unless their state is live.
  bool draws = false;
  /// Elements of the tensors, for calls whose numbers depend on them.
  std::int64_t elements = 1;
  /// The finished program. Throws as map::chain::finish().
  map::chain::Program finish(std::vector<int> outputs, bool round_between = false);

 private:
  int step(const char* name, const map::FormulaRecord& formula, const map::Parameters& numbers,
           std::span<const int> operands, DType dtype, const map::Draw& draw = {});
  map::chain::Program program_;
};

/// A formula of a program's own, as the calls that it made on inputs of certain dtypes.
struct Call {
  const OpDef* op = nullptr;  // null: the number
  std::vector<std::byte> attrs{};
  std::vector<int> operands{};
  DType dtype{};
  Scalar number{};

  AttrsView view() const { return {attrs.data(), attrs.size()}; }
};
struct Formula {
  std::vector<DType> inputs;
  std::vector<Call> calls;
  std::vector<int> outputs;

  DType dtype(int value) const {
    const auto v = static_cast<std::size_t>(value);
    return v < inputs.size() ? inputs[v] : calls[v - inputs.size()].dtype;
  }
};

/// The program that gives a formula's outputs. Throws DTypeError where a call has no formula of its dtypes.
map::chain::Program forward_program(const Formula& formula, bool round_between = false);

/// The program that gives the gradients of the inputs in `needed` (bits), from the formula's inputs, followed by the cotangents
/// of the outputs; those that are not in `given` are not there.
struct Gradients {
  map::chain::Program program;
  /// For each input of the formula: the output of the program that is its gradient (inputs may have one in common), or where
  /// it is else: not needed, 0 all over, or cotangent k itself.
  std::vector<int> place;
  static constexpr int kNone = -1, kZero = -2, kCotangent = -3;  // kCotangent - k
};
Gradients backward_program(const Formula& formula, std::uint32_t needed, std::uint32_t given,
                           bool round_between = false);

}  // namespace ct::fusion
