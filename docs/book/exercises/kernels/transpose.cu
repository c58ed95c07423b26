// y[c, r] = x[r, c]. A block of 32 x 8 threads has a tile of 32 x 32; blockIdx.x counts tiles along the columns of x.
__global__ void transpose(const float* x, float* y, int rows, int columns) {
  const int c = blockIdx.x * 32 + threadIdx.x;
  for (int i = threadIdx.y; i < 32; i += 8) {
    const int r = blockIdx.y * 32 + i;
    if (r < rows && c < columns)
      y[c * rows + r] = x[r * columns + c];  // yours: 32 sectors for 32 numbers written
  }
}
