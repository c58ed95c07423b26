// dx of y = softmax(x), from y and the cotangent g; a block of 128 threads has the row blockIdx.x of n <= 1024 numbers.
__global__ void softmax_backward(const float* y, const float* g, float* dx, int n) {
  y += blockIdx.x * n;
  g += blockIdx.x * n;
  dx += blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += 128)
    dx[i] = g[i] * y[i] * (1 - y[i]);  // yours: this is the diagonal of the Jacobian alone
}
