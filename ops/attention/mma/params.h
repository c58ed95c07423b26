#pragma once

#include <cuda_runtime_api.h>
#include <vector_types.h>

#include <cstdint>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/philox.h>

// Arguments of the tensor-core attention kernels: pointers, extents and strides, no tensors. The kernels
// need nothing else of the library, so they can be built and timed alone.

namespace ct::attention::mma {

/// Rows of 16-bit elements, [batch, head, position, channel] with a channel stride of 1. Strides in elements.
struct Rows {
  void* data = nullptr;
  std::int64_t batch = 0, head = 0, position = 0;
};

enum class MaskKind : int { none, boolean, f32, same };  // same: of the inputs' 16-bit dtype

/// An additive or boolean mask, [batch, head, query, key]; broadcast axes have stride 0.
struct Mask {
  MaskKind kind = MaskKind::none;
  const void* data = nullptr;
  std::int64_t batch = 0, head = 0, query = 0, key = 0;
};

struct Dropout {
  bool active = false;
  GeneratorState draw;
  std::uint32_t last = 0;  // an element whose word is at most this is dropped (active: something can be)
  float scale = 1;         // 1 / (1 - p)
};

/// Shared by both directions.
struct Problem {
  DType dtype = bf16;  // bf16 or f16
  int batch = 0, heads = 0, kv_heads = 0;
  int queries = 0, keys = 0;
  int head_dim = 0, value_dim = 0;  // multiples of 8, at most 256
  float scale = 1;                  // > 0
  bool causal = false;
  int causal_offset = 0;  // query i sees keys j <= i + offset
  Mask mask;
  Dropout dropout;

  Rows q, k, v, out;  // backward only reads out
  // [batch, heads, queries, 2], contiguous: the largest score, and log sum exp(score - largest); -inf and 0 where a query
  // sees nothing
  float2* statistics = nullptr;
};

struct BackwardProblem : Problem {
  Rows grad_out;
  Rows grad_q, grad_k, grad_v;
  float* row_terms = nullptr;  // scratch: 2 floats per row, see workspace()
  float* partial_q = nullptr;  // scratch: the sum of dQ so far
  int* turns = nullptr;        // scratch: whose turn it is to add to a block of dQ
  int* large = nullptr;        // scratch: whether some row's scores are large, see row_terms_kernel
};

/// Scratch memory of a backward call, in bytes. Nothing needs to be zeroed.
struct Workspace {
  std::int64_t row_terms = 0, partial_q = 0, turns = 0;
};
Workspace workspace(const BackwardProblem& p);

/// Queue the kernels on the current stream. Every query row of out and of the statistics is written.
void run_forward(const Problem& p);
/// Writes all of grad_q, grad_k, grad_v.
void run_backward(const BackwardProblem& p);

}  // namespace ct::attention::mma
