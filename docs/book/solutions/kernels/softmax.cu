// The row is read once, into eight registers of each thread. Two exchanges over the block, of the largest number and of the
// sum; shared memory is used twice, so a barrier stands before the second use, too.
__device__ float block_all(float v, bool largest) {
  __shared__ float warps[4];
  const int t = threadIdx.x;
  for (int s = 16; s > 0; s /= 2) {
    const float other = __shfl_xor_sync(~0u, v, s);
    v = largest ? fmaxf(v, other) : v + other;
  }
  __syncthreads();  // what the call before has left is read
  if (t % 32 == 0) warps[t / 32] = v;
  __syncthreads();
  v = warps[0];
  for (int i = 1; i < 4; ++i) v = largest ? fmaxf(v, warps[i]) : v + warps[i];
  return v;
}

__global__ void softmax(const float* x, float* y, int n) {
  const int t = threadIdx.x;
  x += blockIdx.x * n;
  y += blockIdx.x * n;
  float v[8], top = -INFINITY, sum = 0;
  for (int k = 0; k < 8; ++k) {
    v[k] = t + 128 * k < n ? x[t + 128 * k] : -INFINITY;
    top = fmaxf(top, v[k]);
  }
  top = block_all(top, true);
  for (int k = 0; k < 8; ++k) {
    v[k] = expf(v[k] - top);
    sum += v[k];
  }
  sum = block_all(sum, false);
  for (int k = 0; k < 8; ++k)
    if (t + 128 * k < n) y[t + 128 * k] = v[k] / sum;
}
