// dx_i = sum_j g_j dy_j/dx_i = sum_j g_j y_j ([i = j] - y_i) = y_i (g_i - sum_j g_j y_j): of the n x n Jacobian one sum a row
// is left. y and g are read once, into registers.
__device__ float block_sum(float v) {
  __shared__ float warps[4];
  const int t = threadIdx.x;
  for (int s = 16; s > 0; s /= 2) v += __shfl_xor_sync(~0u, v, s);
  if (t % 32 == 0) warps[t / 32] = v;
  __syncthreads();
  return (warps[0] + warps[1]) + (warps[2] + warps[3]);
}

__global__ void softmax_backward(const float* y, const float* g, float* dx, int n) {
  const int t = threadIdx.x;
  const unsigned row = blockIdx.x * n;
  float yy[8], gg[8], dot = 0;
  for (int k = 0; k < 8; ++k) {
    const bool inside = t + 128 * k < n;
    yy[k] = inside ? y[row + t + 128 * k] : 0;
    gg[k] = inside ? g[row + t + 128 * k] : 0;
    dot += yy[k] * gg[k];
  }
  dot = block_sum(dot);
  for (int k = 0; k < 8; ++k)
    if (t + 128 * k < n) dx[row + t + 128 * k] = yy[k] * (gg[k] - dot);
}
