#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cotangent/ops/engine/gemm/product.h>

// Matrix products on a GPU. For CUDA builds only.
//
// cuBLASLt finds an algorithm for a product from its sizes, layouts, types and alignments by a heuristic that
// takes tens of microseconds. The answer is kept, with its descriptors, in a table that all threads share: a
// further product of the same kind costs a look-up and the launch. Only algorithms whose result has the same
// bits in every run are taken. Products that cuBLASLt has no algorithm for (integers, odd strides, small
// alignments of some types) run on a plain tiled kernel.

namespace ct::gemm {

/// Epilogue of a GEMM, in the same launch. `vector` in gemm() belongs to it.
enum class Epilogue : std::uint8_t {
  none,
  bias,       ///< C[i, j] += vector[j]
  relu_bias,  ///< C = relu(C + vector)
  gelu_bias,  ///< C = gelu_tanh(C + vector)
};

/// Queues a product on the current stream. False, and nothing is queued, if there is no epilogue for this
/// product; with Epilogue::none it always succeeds. `vector` has the product's dtype. `op` is named in
/// errors. Throws CudaError, OutOfMemoryError.
bool gemm(const char* op, const gemm::Product& p, Epilogue epilogue = Epilogue::none, void* vector = nullptr);

/// A product of a small layer in f32, with what surrounds it. A row of A is added up where it is read.
struct LayerProduct {
  gemm::Product product;
  const float* gate =
      nullptr;  ///< laid out as A: where it is 0 or less, A counts as 0; of all products or of none
  const float* bias = nullptr;  ///< C[i, j] += bias[j]
  bool relu = false;            ///< C = max(C, 0); a NaN stays one
  float* row_sums = nullptr;  ///< [m]: row_sums[i] = sum_p A[i, p], added to what is there if `add_row_sums`
  bool add_row_sums = false;
};

/// One launch for one or two such products, in any strides. False, and nothing is queued, where they are too large for it to
/// be the fastest, not f32, empty, or replaced, or where TF32 is allowed.
bool gemm_layer(const char* op, std::span<const LayerProduct> products);

/// The same without cuBLASLt: any dtype but bool, any strides, no epilogue. It uses no tensor cores.
void gemm_tiled(const char* op, const gemm::Product& p);

/// Long and thin products (m = n = 1 and batch = 1): a dot product over two short launches.
void gemm_dot(const char* op, const gemm::Product& p);

}  // namespace ct::gemm
