// db[j] = sum over i of g[i, j], for g of rows x columns. A block of 32 x 8 threads has 32 columns; db holds zeros before.
__global__ void bias_backward(const float* g, float* db, int rows, int columns) {
  const int j = blockIdx.x * 32 + threadIdx.x;
  for (int i = threadIdx.y; i < rows; i += 8)
    if (j < columns)
      atomicAdd(&db[j], g[i * columns + j]);  // yours: in the order of arrival, rows times to memory
}
