// y = softmax(x) of each row; a block of 128 threads has the row blockIdx.x of n <= 1024 numbers.
__global__ void softmax(const float* x, float* y, int n) {
  x += blockIdx.x * n;
  y += blockIdx.x * n;
  float sum = 0;
  for (int i = 0; i < n; ++i)
    sum += expf(x[i]);  // yours: every thread reads the whole row, and exp(100) is infinite
  for (int i = threadIdx.x; i < n; i += 128) y[i] = expf(x[i]) / sum;
}
