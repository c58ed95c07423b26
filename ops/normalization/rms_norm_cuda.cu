#include <cotangent/ops/normalization/normalization_cuda.cuh>

// The rows of normalization/normalization_cuda.cuh, around 0.

CT_KERNELS(cuda, rms_norm,
           {"rms_norm", norms::forward_cuda<false, false>, norms::backward_cuda<false, false>},
           {"add_rms_norm", norms::forward_cuda<false, true>, norms::backward_cuda<false, true>})
