#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/elementwise/gated_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// A thread handles kUnroll vectors of up to 16 bytes of each operand, all loads before the first use.
// Backward reads gate, up and the cotangent once and writes both gradients.

namespace ct::gated {
namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 2;

template <class T>
struct Args {
  const T* in[3];
  T* out[2];                     // forward: y; backward: dgate and dup, of which one may be null
  long long strides[3];          // of the inputs' rows, if there are several
  long long vectors;             // in all
  int tail;                      // elements behind the vectors; only with a single row
  bool single;                   // one row
  elementwise::Divider per_row;  // vectors of a row, if there are several
};

// Where vector v begins in the inputs.
template <class T, int N, int kInputs>
__device__ __forceinline__ void locate(const Args<T>& a, long long v, long long (&at)[kInputs]) {
  if (a.single) {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) at[k] = v * N;
    return;
  }
  const std::uint32_t row = a.per_row.divide(static_cast<std::uint32_t>(v));
  const long long column =
      static_cast<long long>(static_cast<std::uint32_t>(v) - row * a.per_row.divisor) * N;
#pragma unroll
  for (int k = 0; k < kInputs; ++k) at[k] = row * a.strides[k] + column;
}

template <Gate kGate, class T, int N>
__device__ __forceinline__ void forward_vector(const Args<T>& a, const gpu::Packed<T, N>& gate,
                                               const gpu::Packed<T, N>& up, long long to) {
  using C = compute_t<T>;
  C x[N], u[N];
  gate.to_compute(x);
  up.to_compute(u);
#pragma unroll
  for (int j = 0; j < N; ++j)
    x[j] = gate_of<kGate>(elementwise::Lane<C, sizeof(T) == 2>(x[j])).value.v * u[j];
  gpu::Packed<T, N>::from_compute(x).store(a.out[0] + to);
}

template <Gate kGate, class T, int N>
__global__ void __launch_bounds__(kThreads) forward_kernel(const Args<T> a) {
  using Pack = gpu::Packed<T, N>;
  const long long first = static_cast<long long>(blockIdx.x) * (kThreads * kUnroll) + threadIdx.x;
  Pack gate[kUnroll], up[kUnroll];
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    const long long v = first + i * kThreads;
    if (v >= a.vectors) break;
    long long at[2];
    locate<T, N>(a, v, at);
    gate[i] = Pack::load_streaming(a.in[0] + at[0]);
    up[i] = Pack::load_streaming(a.in[1] + at[1]);
  }
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    const long long v = first + i * kThreads;
    if (v >= a.vectors) break;
    forward_vector<kGate, T, N>(a, gate[i], up[i], v * N);
  }
  if (first < a.tail) {
    const long long at = a.vectors * N + first;
    using One = gpu::Packed<T, 1>;
    forward_vector<kGate, T, 1>(a, One::load(a.in[0] + at), One::load(a.in[1] + at), at);
  }
}

template <Gate kGate, class T, int N>
__device__ __forceinline__ void backward_vector(const Args<T>& a, const gpu::Packed<T, N>& gate,
                                                const gpu::Packed<T, N>& up, const gpu::Packed<T, N>& g,
                                                long long to) {
  using C = compute_t<T>;
  C x[N], u[N], c[N];
  gate.to_compute(x);
  up.to_compute(u);
  g.to_compute(c);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const auto v = gate_of<kGate>(elementwise::Lane<C, sizeof(T) == 2>(x[j]));
    x[j] = c[j] * u[j] * v.slope.v;
    u[j] = c[j] * v.value.v;
  }
  if (a.out[0]) gpu::Packed<T, N>::from_compute(x).store(a.out[0] + to);
  if (a.out[1]) gpu::Packed<T, N>::from_compute(u).store(a.out[1] + to);
}

template <Gate kGate, class T, int N>
__global__ void __launch_bounds__(kThreads) backward_kernel(const Args<T> a) {
  using Pack = gpu::Packed<T, N>;
  const long long first = static_cast<long long>(blockIdx.x) * (kThreads * kUnroll) + threadIdx.x;
  Pack gate[kUnroll], up[kUnroll], g[kUnroll];
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    const long long v = first + i * kThreads;
    if (v >= a.vectors) break;
    long long at[3];
    locate<T, N>(a, v, at);
    gate[i] = Pack::load_streaming(a.in[0] + at[0]);
    up[i] = Pack::load_streaming(a.in[1] + at[1]);
    g[i] = Pack::load_streaming(a.in[2] + at[2]);
  }
#pragma unroll
  for (int i = 0; i < kUnroll; ++i) {
    const long long v = first + i * kThreads;
    if (v >= a.vectors) break;
    backward_vector<kGate, T, N>(a, gate[i], up[i], g[i], v * N);
  }
  if (first < a.tail) {
    const long long at = a.vectors * N + first;
    using One = gpu::Packed<T, 1>;
    backward_vector<kGate, T, 1>(a, One::load(a.in[0] + at), One::load(a.in[1] + at), One::load(a.in[2] + at),
                                 at);
  }
}

// Calls go(args, elements per vector as a constant).
template <class T, class Go>
void with_vectors(const char* op, Rows rows, T* out0, T* out1, int inputs, const Go& go) {
  constexpr int kPack = gpu::Packed<T>::size;
  Args<T> a{};
  const std::int64_t numel = rows.rows * rows.columns;
  if (numel >= std::int64_t{1} << 31 && rows.rows > 1) {  // too large for the division
    for (Tensor& t : rows.inputs)
      if (t.defined()) t = packed(t);
    rows.rows = 1;
    rows.columns = numel;
  }
  a.single = rows.rows == 1;
  bool packs = a.single || rows.columns % kPack == 0;
  for (int k = 0; k < inputs; ++k) {
    a.in[k] = static_cast<const T*>(rows.inputs[k].raw_data());
    a.strides[k] = rows.strides[k];
    packs = packs && gpu::is_aligned(a.in[k], 16) && (a.single || rows.strides[k] % kPack == 0);
  }
  a.out[0] = out0;
  a.out[1] = out1;
  packs = packs && gpu::is_aligned(out0, 16) && gpu::is_aligned(out1, 16);
  const int n = packs ? kPack : 1;
  a.vectors = numel / n;
  a.tail = static_cast<int>(numel % n);
  if (!a.single) a.per_row = elementwise::Divider(static_cast<std::uint32_t>(rows.columns / n));
  const auto kernel = packs ? go(std::integral_constant<int, kPack>{}) : go(std::integral_constant<int, 1>{});
  // At least one block, for the tail.
  gpu::launch(op, kernel, gpu::blocks_for(op, std::max<std::int64_t>(a.vectors, 1), kThreads * kUnroll),
              kThreads, 0, a);
}

}  // namespace

template <Gate kGate>
void forward_cuda(const Forward& f) {
  if (f.out().numel() == 0) return;
  const Rows rows(f.out(), {&f.in(0), &f.in(1)});
  visit_floating(f.op.name, f.out().dtype(), [&]<class T>(TypeTag<T>) {
    with_vectors<T>(f.op.name, rows, static_cast<T*>(f.out().raw_data()), nullptr, 2,
                    [](auto n) { return &forward_kernel<kGate, T, n()>; });
  });
}

template <Gate kGate>
void backward_cuda(const Backward& b) {
  const Tensor dgate = b.needs(0) ? b.grad_in(0) : Tensor{}, dup = b.needs(1) ? b.grad_in(1) : Tensor{};
  if (b.grad().numel() == 0 || (!dgate.defined() && !dup.defined())) return;
  const Rows rows(dgate.defined() ? dgate : dup, {&b.in(0), &b.in(1), &b.grad()});
  visit_floating(b.op.name, b.grad().dtype(), [&]<class T>(TypeTag<T>) {
    with_vectors<T>(b.op.name, rows, dgate.defined() ? static_cast<T*>(dgate.raw_data()) : nullptr,
                    dup.defined() ? static_cast<T*>(dup.raw_data()) : nullptr, 3,
                    [](auto n) { return &backward_kernel<kGate, T, n()>; });
  });
}

}  // namespace ct::gated

#define CT_GATE(name, gate) \
  { name, gated::forward_cuda<gated::Gate::gate>, gated::backward_cuda<gated::Gate::gate> }
CT_KERNELS(cuda, gated, CT_GATE("swiglu", silu), CT_GATE("geglu", gelu), CT_GATE("geglu_tanh", gelu_tanh))
