#pragma once

#include <cotangent/core/cuda/launch.h>

// The product of chapters 11 and 11c: a kernel with tiles of any size, which is given its operands as functions of the place.

namespace book {

/// Numbers in memory as a matrix: (i, j) is data[i * width + j], or for kDown, as neighbours in memory lie below one another,
/// data[j * width + i].
template <bool kDownwards>
struct Operand {
  static constexpr bool kDown = kDownwards;
  const float* data;
  long width;
  __device__ float operator()(long i, long j) const { return data[kDown ? j * width + i : i * width + j]; }
};

/// C[m, n] = finish(sum_p a(i, p) b(p, j), i, j): a block of 16 x 16 threads has 16 R x 16 R numbers of C, a thread R x R of
/// them, 16 apart. m and n are multiples of 16 R, k of 16.
template <int R, class A, class B, class Finish>
__global__ void __launch_bounds__(256) product(A a, B b, float* c, int n, int k, Finish finish) {
  __shared__ float tile_a[16][16 * R + 2], tile_b[16][16 * R + 2];  // + 2 puts a warp's writes into 32 banks
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const long i0 = blockIdx.y * 16L * R, j0 = blockIdx.x * 16L * R;
  float sum[R][R] = {};
  for (long p0 = 0; p0 < k; p0 += 16) {
    const auto load_a = [&](int i, int p) { tile_a[p][i] = a(i0 + i, p0 + p); };
    const auto load_b = [&](int p, int j) { tile_b[p][j] = b(p0 + p, j0 + j); };
    for (int e = 0; e < 16 * R; e += 16) {  // neighbours x read what lies side by side
      A::kDown ? load_a(x + e, y) : load_a(y + e, x);
      B::kDown ? load_b(x, y + e) : load_b(y, x + e);
    }
    __syncthreads();  // the tiles are whole
    for (int p = 0; p < 16; ++p) {
      float from_a[R], from_b[R];
      for (int e = 0; e < R; ++e) from_a[e] = tile_a[p][y + 16 * e], from_b[e] = tile_b[p][x + 16 * e];
      for (int i = 0; i < R; ++i)
        for (int j = 0; j < R; ++j) sum[i][j] += from_a[i] * from_b[j];
    }
    __syncthreads();  // all have read them
  }
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < R; ++j) {
      const long row = i0 + y + 16 * i, column = j0 + x + 16 * j;
      c[row * n + column] = finish(sum[i][j], row, column);
    }
}

struct AsItIs {
  __device__ float operator()(float sum, long, long) const { return sum; }
};

template <int R, class A, class B, class Finish>
void launch_product(A a, B b, float* c, long m, long n, long k, Finish finish) {
  ct::gpu::launch("product", product<R, A, B, Finish>,
                  dim3(static_cast<unsigned>(n / (16 * R)), static_cast<unsigned>(m / (16 * R))),
                  dim3(16, 16), 0, a, b, c, static_cast<int>(n), static_cast<int>(k), finish);
}

}  // namespace book
