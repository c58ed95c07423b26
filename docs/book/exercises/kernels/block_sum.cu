// sums[b] = x[1024 b] + ... + x[1024 b + 1023], as far as n goes. A block of 256 threads has 1024 numbers.
__global__ void block_sum(const float* x, float* sums, int n) {
  const int first = blockIdx.x * 1024;
  if (threadIdx.x > 0) return;
  float sum = 0;
  for (int i = first; i < min(n, first + 1024); ++i) sum += x[i];  // yours: 255 threads have nothing to do
  sums[blockIdx.x] = sum;
}
