#include <cotangent/core/cuda/mma/tensor_map.h>
#include <cotangent/ops/attention/mma/hopper/backward.cuh>

namespace ct::attention::mma {
namespace {

constexpr const char* kOp = "scaled_dot_product_attention";

// Compiled for sm_90a alone, as all Hopper kernels: where there is code for this one, there is for them.
__global__ void probe_kernel() {}

bool describable(const Rows& rows, int batches, int heads, int positions) {
  const auto fits = [](std::int64_t stride, int size) {
    return size == 1 || (stride > 0 && stride < (1ll << 38));
  };
  return fits(rows.batch, batches) && fits(rows.head, heads) && fits(rows.position, positions);
}

}  // namespace

CUtensorMap tensor_map(const Problem& p, const Rows& rows, int heads, int positions, int width,
                       int box_rows) {
  // An axis of size 1 may have any stride, also one that the copy engine would not take.
  const auto stride = [](std::int64_t elements, int size) -> cuuint64_t {
    return size == 1 ? 16 : static_cast<cuuint64_t>(elements) * 2;
  };
  const cuuint64_t sizes[4] = {static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(positions),
                               static_cast<cuuint64_t>(heads), static_cast<cuuint64_t>(p.batch)};
  const cuuint64_t strides[3] = {stride(rows.position, positions), stride(rows.head, heads),
                                 stride(rows.batch, p.batch)};
  const cuuint32_t box[4] = {64, static_cast<cuuint32_t>(box_rows), 1, 1}, steps[4] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result = ct::mma::tensor_map_encoder()(
      &map, p.dtype == bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4,
      rows.data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CT_CHECK(result == CUDA_SUCCESS, CudaError, kOp, "cuTensorMapEncodeTiled failed with code ",
           static_cast<int>(result), "; it was given ", positions, " rows of ", width, " elements");
  return map;
}

bool hopper_takes(const Problem& p) {
  if (gpu::compiled_arch<probe_kernel>(kOp) == 0 || !ct::mma::tensor_map_encoder()) return false;
  if (p.mask.kind != MaskKind::none || p.dropout.active || p.head_dim > 128 || p.value_dim > 128)
    return false;
  return describable(p.q, p.batch, p.heads, p.queries) && describable(p.k, p.batch, p.kv_heads, p.keys) &&
         describable(p.v, p.batch, p.kv_heads, p.keys);
}

bool hopper_takes_backward(const BackwardProblem& p) {
  return hopper_takes(p) && describable(p.grad_out, p.batch, p.heads, p.queries);
}

Workspace hopper_workspace(const BackwardProblem& p) {
  const bool narrow = p.head_dim <= 64 && p.value_dim <= 64;
  const int block = narrow ? HopperBackward<64>::query_block : HopperBackward<128>::query_block;
  const std::int64_t places = std::int64_t{p.batch} * p.heads * gpu::ceil_div(p.queries, block);
  Workspace w;
  w.row_terms = 2 * places * block * 4;
  w.partial_q = places * block * (narrow ? 64 : 128) * 4;
  w.turns = (places + 2) * 4;
  return w;
}

}  // namespace ct::attention::mma
