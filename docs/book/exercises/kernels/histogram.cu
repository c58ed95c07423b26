// counts[v] += how often v stands among the n numbers of x, 0 <= v < 64. Blocks of 256 threads, as many as there are; a
// block's threads go through x with steps of the whole grid.
__global__ void histogram(const int* x, int* counts, int n) {
  const int step = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
    atomicAdd(&counts[x[i]], 1);  // yours: n atomic additions to 64 places of memory
}
