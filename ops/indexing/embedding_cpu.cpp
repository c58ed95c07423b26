#include <cotangent/ops/indexing/embedding_internal.h>

// Rows picked and summed by the engine in ops/engine/scatter.

CT_KERNELS(cpu, embedding, {"embedding", indexing_impl::embedded::forward, indexing_impl::embedded::backward})
