// A warp reads 32 neighbours of a row, and each thread adds down its column; the eight sums of a column meet in shared
// memory and are added in one order. A row of `part` is read by a whole warp, so that each lane has a bank of its own.
__global__ void bias_backward(const float* g, float* db, int rows, int columns) {
  __shared__ float part[8][32];
  const int lane = threadIdx.x, warp = threadIdx.y;
  const int j = blockIdx.x * 32 + lane;
  float sum = 0;
  for (int i = warp; i < rows && j < columns; i += 8) sum += g[i * columns + j];
  part[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || j >= columns) return;
  for (int k = 1; k < 8; ++k) sum += part[k][lane];
  db[j] = sum;
}
