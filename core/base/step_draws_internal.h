#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/generator_state.h>

namespace ct::detail {

/// Draws of default_generator() in a step that the calling thread records: counted from 0, by a key that kernels read in
/// `live`. Other threads draw as before.
class CT_API StepDraws {
 public:
  explicit StepDraws(const GeneratorState* live) noexcept;
  ~StepDraws();
  StepDraws(const StepDraws&) = delete;
  StepDraws& operator=(const StepDraws&) = delete;

  /// The generator as the step has left it.
  GeneratorState state;

 private:
  GeneratorState* outer_;
};

}  // namespace ct::detail
