#include <cotangent/ops/indexing/embedding_internal.h>

// Rows picked and summed by the engine in ops/engine/scatter.

CT_KERNELS(cpu, embedding, {"embedding", embedding_kernels::forward, embedding_kernels::backward})
