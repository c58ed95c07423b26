// With h = (x - mean) rstd and d = g w: dx = rstd (d - mean(d) - h mean(d h)). The mean takes its share of each number away,
// and rstd what points along h. Both sums travel together: one pair of words a warp, one barrier.
__device__ float2 block_sums(float a, float b) {
  __shared__ float first[4], second[4];
  const int t = threadIdx.x;
  for (int s = 16; s > 0; s /= 2) {
    a += __shfl_xor_sync(~0u, a, s);
    b += __shfl_xor_sync(~0u, b, s);
  }
  if (t % 32 == 0) first[t / 32] = a, second[t / 32] = b;
  __syncthreads();
  return {(first[0] + first[1]) + (first[2] + first[3]), (second[0] + second[1]) + (second[2] + second[3])};
}

__global__ void layer_norm_backward(const float* x, const float* w, const float* g, const float* mean,
                                    const float* rstd, float* dx, int n) {
  const int t = threadIdx.x;
  const unsigned row = blockIdx.x * n;
  const float m = mean[blockIdx.x], r = rstd[blockIdx.x];
  float h[8], d[8], sum = 0, along = 0;
  for (int k = 0; k < 8; ++k) {
    const int i = t + 128 * k;
    const bool inside = i < n;
    h[k] = inside ? (x[row + i] - m) * r : 0;
    d[k] = inside ? g[row + i] * w[i] : 0;
    sum += d[k];
    along += d[k] * h[k];
  }
  const float2 sums = block_sums(sum, along);
  for (int k = 0; k < 8; ++k)
    if (t + 128 * k < n) dx[row + t + 128 * k] = r * (d[k] - sums.x / n - h[k] * (sums.y / n));
}
