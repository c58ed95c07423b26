#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <cotangent/core/base/function_ref.h>
#include <cotangent/ops/fusion/build_internal.h>

// The formulas of a program, by numbers, and how they are read.

namespace ct::fusion {

/// A formula for certain dtypes, and its programs. It lives as long as the process, as the tape and observers name it.
struct Known {
  Formula formula;
  map::chain::Program forward;
  std::vector<std::uint32_t> reads;  // of each output, the inputs that it depends on
  std::mutex mutex;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Gradients>
      backward;  // by gradients wanted and cotangents given

  const Gradients& gradients(std::uint32_t needed, std::uint32_t given);
};

/// Formula `number`. Throws ValueError where there is none.
Known& known(std::int64_t number);

/// The number of a formula, a new one where it was not there yet. Throws ValueError beyond 64 steps or 4096 formulas, and for an
/// input that is not used.
std::int64_t remember(Formula formula);

/// The formula by which `compute` makes `results` of `inputs`, tensors of one element: the calls of ops that it makes. Throws
/// ValueError for a call that is not one element by element.
Formula read_formula(std::span<const Tensor> inputs, std::span<Tensor> results, FunctionRef<void()> compute);

}  // namespace ct::fusion
