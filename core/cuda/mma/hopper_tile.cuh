#pragma once

#include <cotangent/core/cuda/mma/hopper_ptx.cuh>
#include <cotangent/core/cuda/mma/tile.cuh>

// Tiles for Hopper, made of panels, and the copies that fill them.

namespace ct::mma {

/// A tile of RowCount rows of D elements: D / 64 panels of 64 elements, one after the other.
template <int RowCount, int D>
struct PanelTile {
  static_assert(D % 64 == 0);
  static constexpr int panel_bytes = RowCount * 128;
  static constexpr int bytes = panel_bytes * (D / 64);

  /// Starts the copies of the whole tile from row `first`; rows and channels outside the tensor become zeros.
  static __device__ __forceinline__ void load(std::uint32_t tile, const CUtensorMap* map,
                                              std::uint32_t barrier, int batch, int head, int first) {
#pragma unroll
    for (int panel = 0; panel < D / 64; ++panel)
      copy_box(tile + panel * panel_bytes, map, barrier, 64 * panel, first, head, batch);
  }
  /// Step k (of 16) of a contraction over channels: the rows from `row` on, K-major.
  static __device__ __forceinline__ std::uint64_t by_channel(std::uint32_t tile, int row, int k) {
    return operand(tile + (k / 4) * panel_bytes + row * 128 + (k % 4) * 32);
  }
  /// Step k (of 16) of a contraction over rows, from row 16 k on: all channels, MN-major.
  static __device__ __forceinline__ std::uint64_t by_row(std::uint32_t tile, int k) {
    return operand(tile + k * 2048, panel_bytes);
  }
  /// Address of the pair of elements (row, column), (row, column + 1).
  static __device__ __forceinline__ std::uint32_t at(std::uint32_t tile, int row, int column) {
    return tile + (column / 64) * panel_bytes + panel_offset(row, column % 64 / 8) + column % 8 * 2;
  }
};

__device__ __forceinline__ uint4 load_shared_16(std::uint32_t from) {
  uint4 x;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(from)
               : "memory");
  return x;
}

__device__ __forceinline__ void store_shared_16(std::uint32_t to, uint4 x) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
               : "memory");
}

/// The next stage of a ring of shared-memory stages, and the parity of its barriers' phase.
template <int Stages>
struct Ring {
  int stage = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == Stages) stage = 0, parity ^= 1;
  }
};

}  // namespace ct::mma
