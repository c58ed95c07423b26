#include <cotangent/ops/norm/norm_cpu.h>

// The rows of norm/norm_cpu.h, around their mean.

CT_KERNELS(cpu, layer_norm, {"layer_norm", norms::forward_cpu<true, false>, norms::backward_cpu<true, false>},
           {"add_layer_norm", norms::forward_cpu<true, true>, norms::backward_cpu<true, true>})
