#include <cotangent/ops/normalization/normalization_cpu.h>

// The rows of normalization_cpu.h, around their mean.

CT_KERNELS(cpu, layer_norm,
           {"layer_norm", normalization::forward_cpu<true, false>, normalization::backward_cpu<true, false>},
           {"add_layer_norm", normalization::forward_cpu<true, true>,
            normalization::backward_cpu<true, true>},
           forward_only("layer_norm rows", hand_out<normalization::kRowRecord<true, false>>),
           forward_only("add_layer_norm rows", hand_out<normalization::kRowRecord<true, true>>))
