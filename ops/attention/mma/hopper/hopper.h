#pragma once

#include <cotangent/ops/attention/mma/params.h>

// Kernels of the build with sm_90a: see README.md, "Hopper". Defined in mma/hopper/*.cu, which are
// compiled where COTANGENT_SM90A is defined.

namespace ct::attention::mma {

/// Whether the current device runs these kernels, and these tensors can be described to its copy engine.
bool hopper_takes(const Problem& p);
bool hopper_takes_backward(const BackwardProblem& p);

/// Scratch memory of hopper_backward.
Workspace hopper_workspace(const BackwardProblem& p);

void hopper_forward_bf16(const Problem& p);
void hopper_forward_f16(const Problem& p);
void hopper_backward_bf16(const BackwardProblem& p);
void hopper_backward_f16(const BackwardProblem& p);

}  // namespace ct::attention::mma
