#include <algorithm>

#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/rotary/rotary_embedding_internal.h>

// A thread turns N pairs, two vectors of up to 16 bytes, of one row and of several heads, which have the
// angles in common; or it copies two vectors of what is not turned. Neighbouring threads work on neighbouring
// vectors. In f64 N is 1.

namespace ct::rotary {
namespace {

constexpr int kThreads = 128;

template <class T>
struct Args {
  using C = compute_t<T>;
  const T* x;
  T* y;
  Positions positions;
  long long batch, heads, length, columns, batch_stride, head_stride, row_stride, position_stride;
  int pairs;
  int turning, units;  // threads of a row that turn pairs; with those that copy
  int heads_per_thread;
  bool interleaved;
  C direction;  // 1, or -1 for backward
  Frequencies<C> frequency;
};

__device__ __forceinline__ void sine_cosine(float angle, float* sine, float* cosine) {
  sincosf(angle, sine, cosine);
}
__device__ __forceinline__ void sine_cosine(double angle, double* sine, double* cosine) {
  sincos(angle, sine, cosine);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) turn_kernel(const __grid_constant__ Args<T> a) {
  using C = compute_t<T>;
  using Pack = gpu::Vector<T, N>;
  long long rest = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  const int unit = static_cast<int>(rest % a.units);
  rest /= a.units;
  const long long t = rest % a.length, b = rest / a.length;
  if (b >= a.batch) return;
  const long long first_head = static_cast<long long>(blockIdx.y) * a.heads_per_thread;
  const long long last_head =
      first_head + a.heads_per_thread < a.heads ? first_head + a.heads_per_thread : a.heads;
  const T* x = a.x + b * a.batch_stride + t * a.row_stride;
  T* y = a.y + (b * a.heads * a.length + t) * a.columns;

  if (unit >= a.turning) {
    const long long at = 2 * a.pairs + static_cast<long long>(unit - a.turning) * 2 * N;
    const bool both = at + N < a.columns;
    for (long long h = first_head; h < last_head; ++h) {
      const T* from = x + h * a.head_stride + at;
      T* to = y + h * a.length * a.columns + at;
      Pack::load(from).store(to);
      if (both) Pack::load(from + N).store(to + N);
    }
    return;
  }

  const int pair = unit * N;
  const int first = a.interleaved ? 2 * pair : pair, second = a.interleaved ? first + N : pair + a.pairs;
  const C position = static_cast<C>(a.positions[b * a.position_stride + t]);
  C sine[N], cosine[N];
#pragma unroll
  for (int j = 0; j < N; ++j) {
    sine_cosine(position * a.frequency.of[pair + j], &sine[j], &cosine[j]);
    sine[j] *= a.direction;
  }
#pragma unroll 2
  for (long long h = first_head; h < last_head; ++h) {
    const T* from = x + h * a.head_stride;
    T* to = y + h * a.length * a.columns;
    C u[N], v[N];
    Pack::load_readonly(from + first).to_compute(u);
    Pack::load_readonly(from + second).to_compute(v);
    if (a.interleaved) {
      C in[2 * N];
#pragma unroll
      for (int j = 0; j < N; ++j) {
        in[j] = u[j];
        in[N + j] = v[j];
      }
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const C p = in[2 * j], q = in[2 * j + 1];
        in[2 * j] = p * cosine[j] - q * sine[j];
        in[2 * j + 1] = p * sine[j] + q * cosine[j];
      }
#pragma unroll
      for (int j = 0; j < N; ++j) {
        u[j] = in[j];
        v[j] = in[N + j];
      }
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const C p = u[j], q = v[j];
        u[j] = p * cosine[j] - q * sine[j];
        v[j] = p * sine[j] + q * cosine[j];
      }
    }
    Pack::from_compute(u).store(to + first);
    Pack::from_compute(v).store(to + second);
  }
}

template <class T>
void run(const Call& call) {
  using C = compute_t<T>;
  constexpr int kPack = gpu::kFastShapes<T> ? gpu::Vector<T>::size : 1;
  Args<T> a{static_cast<const T*>(call.x.raw_data()),
            static_cast<T*>(call.y.raw_data()),
            Positions(call.positions),
            call.batch,
            call.heads,
            call.length,
            call.columns,
            call.batch_stride,
            call.head_stride,
            call.row_stride,
            call.position_stride,
            static_cast<int>(call.pairs),
            0,
            0,
            1,
            call.options.interleaved,
            call.back ? C(-1) : C(1),
            frequencies<C>(call.options, 2 * call.pairs)};
  const bool packs = call.pairs % kPack == 0 && call.columns % kPack == 0 && call.row_stride % kPack == 0 &&
                     call.batch_stride % kPack == 0 && call.head_stride % kPack == 0 &&
                     gpu::is_aligned(a.x, 16) && gpu::is_aligned(a.y, 16);
  const int n = packs ? kPack : 1;
  a.turning = a.pairs / n;
  a.units = a.turning + static_cast<int>(gpu::ceil_div(call.columns - 2 * call.pairs, 2 * n));
  // Angles are shared by as many heads as leave enough threads to fill the GPU.
  const long long rows = call.batch * call.length * a.units;
  const long long wanted =
      std::max<long long>(1, gpu::ceil_div(std::int64_t{gpu::multiprocessors()} * 1024, rows));
  const long long groups = std::min<long long>({call.heads, wanted, 65535});
  a.heads_per_thread = static_cast<int>(gpu::ceil_div(call.heads, groups));
  const dim3 grid(gpu::blocks_for(call.op, rows, kThreads),
                  static_cast<unsigned>(gpu::ceil_div(call.heads, a.heads_per_thread)));
  gpu::launch(call.op, packs ? turn_kernel<T, kPack> : turn_kernel<T, 1>, grid, kThreads, 0, a);
}

void run(const Call& call) {
  visit_floating(call.op, call.y.dtype(), [&]<class T>(TypeTag<T>) { run<T>(call); });
}

void forward_cuda(const Forward& f) {
  if (f.out().numel() == 0) return;
  run(Call(f.op.name, f.in(0), f.in(1), f.out(), f.attrs<Attrs>(), false));
}
void backward_cuda(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor& dx = b.grad_in(0);
  if (dx.numel() > 0) run(Call(b.op.name, b.grad(), b.in(1), dx, b.attrs<Attrs>(), true));
}

}  // namespace
}  // namespace ct::rotary

CT_KERNELS(cuda, rotary_embedding, {"rotary_embedding", rotary::forward_cuda, rotary::backward_cuda})
