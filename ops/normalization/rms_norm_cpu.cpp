#include <cotangent/ops/normalization/normalization_cpu.h>

// The rows of normalization_cpu.h, around 0.

CT_KERNELS(cpu, rms_norm,
           {"rms_norm", normalization::forward_cpu<false, false>, normalization::backward_cpu<false, false>},
           {"add_rms_norm", normalization::forward_cpu<false, true>,
            normalization::backward_cpu<false, true>},
           forward_only("rms_norm rows", hand_out<normalization::kRowRecord<false, false>>),
           forward_only("add_rms_norm rows", hand_out<normalization::kRowRecord<false, true>>))
