// The tile is read along the rows of x and written along the rows of y, and turned round in shared memory. A row of 33
// words there: with 32 the numbers of a column would all lie in one bank.
__global__ void transpose(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[32][33];
  const int left = blockIdx.x * 32, top = blockIdx.y * 32;
  const int lane = threadIdx.x;
  for (int i = threadIdx.y; i < 32; i += 8)
    if (top + i < rows && left + lane < columns) tile[i][lane] = x[(top + i) * columns + left + lane];
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += 8)
    if (left + i < columns && top + lane < rows) y[(left + i) * rows + top + lane] = tile[lane][i];
}
