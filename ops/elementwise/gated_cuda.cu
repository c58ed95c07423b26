#include <cotangent/ops/elementwise/gated_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// Gated activations are elementwise formulas, backward one with two results; nothing here but their instances.

#define CT_GATE(name, gate)                                                                          \
  {                                                                                                  \
    name, map::forward_cuda<elementwise::gated::Gated<elementwise::gated::Gate::gate>, true, false>, \
        map::joint_backward_cuda<elementwise::gated::GatedGradients<elementwise::gated::Gate::gate>> \
  }
CT_KERNELS(cuda, gated, CT_GATE("swiglu", silu), CT_GATE("geglu", gelu), CT_GATE("geglu_tanh", gelu_tanh))
