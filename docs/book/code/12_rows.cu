#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops.h>
#include <cotangent/ops/engine/rows/online_softmax.cuh>

#include <book.h>
#include <gpu.h>

#include <type_traits>

// Chapter 12 on a GPU: softmax with three, two and one read of a row, and how near ops on rows come to a copy.

namespace {

using ct::Tensor;
using ct::gpu::block_combine;

/// A row of n_4 vectors of four numbers for each block, which reads it three times (maximum, sum, result) or, with the
/// online softmax, twice.
template <int kReads>
__global__ void __launch_bounds__(256) softmax_rows(const float4* x, float4* y, int n_4) {
  x += blockIdx.x * static_cast<long>(n_4), y += blockIdx.x * static_cast<long>(n_4);
  const int thread = static_cast<int>(threadIdx.x);
  float m = -INFINITY, s = 0;
  if (kReads == 3) {
    for (int i = thread; i < n_4; i += 256) m = fmaxf(m, fmaxf(fmaxf(x[i].x, x[i].y), fmaxf(x[i].z, x[i].w)));
    m = block_combine(m, -INFINITY, ct::gpu::Larger{});
    for (int i = thread; i < n_4; i += 256)
      s += expf(x[i].x - m) + expf(x[i].y - m) + expf(x[i].z - m) + expf(x[i].w - m);
    s = ct::gpu::block_sum(s);
  } else {
    ct::rows::OnlineSoftmax<float> seen;
    for (int i = thread; i < n_4; i += 256) {
      const float4 v = x[i];
      const float numbers[4] = {v.x, v.y, v.z, v.w};
      seen.add(numbers);
    }
    m = block_combine(seen.max, -INFINITY, ct::gpu::Larger{});
    s = ct::gpu::block_sum(seen.exps * expf(seen.max - m));
  }
  for (int i = thread; i < n_4; i += 256)
    y[i] =
        make_float4(expf(x[i].x - m) / s, expf(x[i].y - m) / s, expf(x[i].z - m) / s, expf(x[i].w - m) / s);
}

/// The same with one read: each thread keeps its N vectors of the row in registers. A row has 256 N of them.
template <int N>
__global__ void __launch_bounds__(256) softmax_kept(const float4* x, float4* y) {
  const long first = blockIdx.x * 256L * N + threadIdx.x;
  float4 v[N];
  for (int i = 0; i < N; ++i) v[i] = x[first + 256 * i];
  float m = -INFINITY, s = 0;
  for (int i = 0; i < N; ++i) m = fmaxf(m, fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w)));
  m = block_combine(m, -INFINITY, ct::gpu::Larger{});
  for (int i = 0; i < N; ++i) {
    v[i] = make_float4(expf(v[i].x - m), expf(v[i].y - m), expf(v[i].z - m), expf(v[i].w - m));
    s += v[i].x + v[i].y + v[i].z + v[i].w;
  }
  s = ct::gpu::block_sum(s);
  for (int i = 0; i < N; ++i)
    y[first + 256 * i] = make_float4(v[i].x / s, v[i].y / s, v[i].z / s, v[i].w / s);
}

/// Bytes a millisecond of a copy on the GPU, read and written.
double copy_rate() {
  const Tensor x = ct::empty({1 << 28}, {.device = ct::cuda(0)}),
               y = ct::empty({1 << 28}, {.device = ct::cuda(0)});
  const double bytes = 4.0 * (1 << 28);
  return 2 * bytes / book::gpu_ms([&] {
           CT_CUDA(cudaMemcpyAsync(y.raw_data(), x.raw_data(), std::size_t{4} << 28, cudaMemcpyDeviceToDevice,
                                   ct::gpu::native_stream()));
         });
}

void reads(double copy) {
  book::section("reads");
  std::printf("f32, 2^28 numbers in rows; GB/s of 8 bytes a number, and of a copy's %.0f\n", copy / 1e6);
  for (const std::int64_t n : {4096, 65536}) {
    const Tensor x = ct::randn({(1 << 28) / n, n}, {.device = ct::cuda(0)}), library = ct::softmax(x, -1);
    Tensor y = ct::empty(x.shape(), {.device = ct::cuda(0)});
    const float4* const from = reinterpret_cast<const float4*>(x.data<float>());
    float4* const to = reinterpret_cast<float4*>(y.data<float>());
    const auto blocks = static_cast<unsigned>(x.size(0));
    const auto row = [&](const char* name, const auto& work) {
      y.fill_(NAN);
      const double ms = book::gpu_ms(work), rate = 8.0 * (1 << 28) / ms;
      std::printf("rows of %5d, %-12s %7.3f ms %6.0f GB/s %4.0f %%\n", static_cast<int>(n), name, ms,
                  rate / 1e6, 100 * rate / copy);
    };
    const auto check = [&] {
      book::claim(ct::amax(ct::abs(y - library)).item() < 1e-6, "it is ct::softmax, but for rounding");
    };
    row("three reads", [&] {
      ct::gpu::launch("softmax", softmax_rows<3>, blocks, 256, 0, from, to, static_cast<int>(n / 4));
    });
    check();
    row("two reads", [&] {
      ct::gpu::launch("softmax", softmax_rows<2>, blocks, 256, 0, from, to, static_cast<int>(n / 4));
    });
    check();
    if (n == 4096) {
      row("one read", [&] { ct::gpu::launch("softmax", softmax_kept<4>, blocks, 256, 0, from, to); });
      check();
    }
    row("ct::softmax", [&] { ct::softmax(x, -1); });
  }
}

void ops(double copy) {
  book::section("ops");
  std::printf("32768 rows of 4096                   bytes a number          ms    of a copy's rate\n");
  const double numbers = 32768. * 4096;
  const auto line = [&](const char* name, const char* way, double bytes, double ms) {
    std::printf("%-20s %-10s %18.2f %13.3f %15.0f %%\n", name, way, bytes, ms,
                100 * bytes * numbers / ms / copy);
  };
  // Forward, and backward from a cotangent that is there, of one op of x.
  const auto both = [&](const char* name, ct::DType dtype, double forward, double backward, const auto& op) {
    const Tensor x = ct::randn({32768, 4096}, {.device = ct::cuda(0)}).to(dtype).set_requires_grad();
    line(name, "forward", forward, book::gpu_ms([&] {
           const ct::NoGrad guard;
           op(x);
         }));
    const Tensor y = op(x), g = ct::ones(y.shape(), {.dtype = y.dtype(), .device = ct::cuda(0)});
    line(name, "backward", backward, book::gpu_ms([&] {
           Tensor{x}.set_grad({});
           y.backward(g, true);
         }));
  };
  const auto vector = [](double value, ct::DType dtype) {
    return ct::full({4096}, value, {.dtype = dtype, .device = ct::cuda(0)});
  };
  both("softmax f32", ct::f32, 8, 12, [](const Tensor& x) { return ct::softmax(x, -1); });
  both("softmax bf16", ct::bf16, 4, 6, [](const Tensor& x) { return ct::softmax(x, -1); });
  for (const ct::DType dtype : {ct::f32, ct::bf16}) {
    const Tensor w = vector(1, dtype), b = vector(0, dtype);
    const double bytes = dtype == ct::f32 ? 4 : 2;
    both(dtype == ct::f32 ? "layer_norm f32" : "layer_norm bf16", dtype, 2 * bytes, 3 * bytes,
         [&](const Tensor& x) { return ct::layer_norm(x, w, b); });
  }
  const Tensor t = ct::randint(0, 4096, {32768}, {.dtype = ct::i64, .device = ct::cuda(0)});
  both("cross_entropy f32", ct::f32, 4, 8, [&](const Tensor& x) { return ct::cross_entropy(x, t); });
}

void chapter() {
  book::section("machine");
  book::machine();
  const double copy = copy_rate();
  reads(copy);
  ops(copy);
}

}  // namespace

int main() { return book::run(chapter); }
