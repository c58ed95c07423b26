#include <cotangent/ops/normalization/normalization_cuda.cuh>

// The rows of normalization/normalization_cuda.cuh, around 0.

CT_KERNELS(cuda, rms_norm,
           {"rms_norm", normalization::forward_cuda<false, false>,
            normalization::backward_cuda<false, false>},
           {"add_rms_norm", normalization::forward_cuda<false, true>,
            normalization::backward_cuda<false, true>},
           forward_only("rms_norm around", hand_out<normalization::kAroundRecord<false>>))
