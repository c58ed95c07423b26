#include <cotangent/ops/normalization/normalization_plain_calls.h>

CT_KERNELS(plain, layer_norm, {"layer_norm", plain::forward<true, false>, plain::backward<true, false>},
           {"add_layer_norm", plain::forward<true, true>, plain::backward<true, true>})
