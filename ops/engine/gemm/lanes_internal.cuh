#pragma once

// How the lanes of a warp share the lines of an operand that lies in shared memory, in products of f32.

namespace ct::gemm {

/// Line i of a lane's. A line's elements of k are neighbours where `kDeep`, and the lanes' lines alternate; else those of one
/// depth are, and a lane has `together` lines side by side.
template <bool kDeep, int kLanes>
__device__ __forceinline__ int line_of(int lane, int i, int together) {
  return kDeep ? lane + i * kLanes : i / together * (kLanes * together) + lane * together + i % together;
}

/// Elements of four depths from `depth` on of a lane's kCount lines.
template <bool kDeep, int kPitch, int kLanes, int kCount>
__device__ __forceinline__ void read_lines(float (&to)[4][kCount], const float* stage, int lane, int depth) {
  if constexpr (kDeep) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float4 v = *reinterpret_cast<const float4*>(stage + (lane + i * kLanes) * kPitch + depth);
      to[0][i] = v.x, to[1][i] = v.y, to[2][i] = v.z, to[3][i] = v.w;
    }
  } else {
#pragma unroll
    for (int d = 0; d < 4; ++d) {
      const float* const row = stage + (depth + d) * kPitch;
      if constexpr (kCount == 2) {
        const float2 v = *reinterpret_cast<const float2*>(row + lane * 2);
        to[d][0] = v.x, to[d][1] = v.y;
      } else {
#pragma unroll
        for (int q = 0; q < kCount / 4; ++q) {
          const float4 v = *reinterpret_cast<const float4*>(row + (q * kLanes + lane) * 4);
          to[d][4 * q] = v.x, to[d][4 * q + 1] = v.y, to[d][4 * q + 2] = v.z, to[d][4 * q + 3] = v.w;
        }
      }
    }
  }
}

}  // namespace ct::gemm
