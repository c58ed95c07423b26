#include <cotangent/ops/normalization/normalization_cuda.cuh>

// The rows of normalization/normalization_cuda.cuh, around their mean.

CT_KERNELS(cuda, layer_norm,
           {"layer_norm", normalization::forward_cuda<true, false>,
            normalization::backward_cuda<true, false>},
           {"add_layer_norm", normalization::forward_cuda<true, true>,
            normalization::backward_cuda<true, true>},
           forward_only("layer_norm around", hand_out<normalization::kAroundRecord<true>>))
