#include <cotangent/ops/normalization/normalization_plain_calls.h>

CT_KERNELS(plain, rms_norm, {"rms_norm", plain::forward<false, false>, plain::backward<false, false>},
           {"add_rms_norm", plain::forward<false, true>, plain::backward<false, true>})
