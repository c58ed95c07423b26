#include <cstdint>
#include <type_traits>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/update/rules_internal.h>
#include <cotangent/ops/update/many_cuda.cuh>

// The steps of the optimizers. Every byte is touched once: Adam reads four arrays and writes three.

namespace ct::update {
namespace {

using namespace update::many;

// Numbers in device memory, or null: whether a step is made at all, a factor on every gradient, the learning rate, the norm
// that gradients are clipped by, and a counter of blocks, 0 between launches.
struct StepState {
  const float* found_inf;
  const float* scale;
  const double* lr;
  const void* norm;
  bool f64_norm;
  unsigned* done;
};

// Two sizes of table: launching costs time by the byte, which a small model feels. The large one is for f32 parameters
// and the usual moments of SGD and Adam; other steps take more launches.
using SmallTable = Table<Entry, 40>;
using LargeTable = Table<Entry, 320>;
static_assert(sizeof(SmallTable) < 4000 && sizeof(LargeTable) < 32000,
              "more than a kernel's parameters hold");

__device__ __forceinline__ float scaled(float g, float factor) { return __fmul_rn(g, factor); }
__device__ __forceinline__ double scaled(double g, double factor) { return __dmul_rn(g, factor); }

// kMaster: the parameters are f32 and leave rounded copies of dtype T.
template <class T, int kMoments, bool kMaster, int kWide, class Constants>
__device__ __forceinline__ void update_range(const Entry& e, std::int64_t begin, std::int64_t end,
                                             const Constants& constants, compute_t<T> a, compute_t<T> b,
                                             compute_t<T> factor, compute_t<T> clip, bool f16) {
  using C = compute_t<T>;
  using M = moment_t<T>;
  using P = std::conditional_t<kMaster, C, T>;
  P* const params = static_cast<P*>(e.param);
  T* const grads = static_cast<T*>(e.grad);
  for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * kWide; i < end;
       i += kThreads * kWide) {
    auto grad = gpu::Vector<T, kWide>::load_streaming(grads + i);
    const auto param = gpu::Vector<P, kWide>::load(params + i);
    C g[kWide], p[kWide], moments[kMoments > 0 ? kMoments : 1][kWide];
#pragma unroll
    for (int k = 0; k < kMoments; ++k)
      gpu::Vector<M, kWide>::load(static_cast<const M*>(e.moments[k]) + i).to_compute(moments[k]);
    gpu::unpack(grad, f16, g);
    if (clip != C(1)) {
#pragma unroll
      for (int j = 0; j < kWide; ++j) g[j] = scaled(g[j], clip);
      grad = gpu::pack<T>(g, f16);
      grad.store(grads + i);
      gpu::unpack(grad, f16, g);
    }
    gpu::unpack(param, f16, p);
#pragma unroll
    for (int j = 0; j < kWide; ++j) {
      C m[kMaxMoments] = {};
#pragma unroll
      for (int k = 0; k < kMoments; ++k) m[k] = moments[k][j];
      // Rounded on its own, so that a factor of 1 leaves no trace.
      constants.template update<kMoments>(p[j], scaled(g[j], factor), m, a, b);
#pragma unroll
      for (int k = 0; k < kMoments; ++k) moments[k][j] = m[k];
    }
    gpu::pack<P>(p, f16).store(params + i);
    if constexpr (kMaster) gpu::pack<T>(p, f16).store(static_cast<T*>(e.copy) + i);
      // Nobody reads them before the next step. (A plain store is taken apart by the compiler here.)
#pragma unroll
    for (int k = 0; k < kMoments; ++k)
      gpu::Vector<M, kWide>::from_compute(moments[k]).store_streaming(static_cast<M*>(e.moments[k]) + i);
  }
}

template <class T, int kMoments, bool kMaster, class TableT, class Rule>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const __grid_constant__ TableT table, const Rule rule, const StepState state, bool f16) {
  using C = compute_t<T>;
  using P = std::conditional_t<kMaster, C, T>;
  gpu::wait_for_previous();
  if (state.found_inf && *state.found_inf != 0) return;
  const Piece piece = piece_of(table, blockIdx.x);
  const Entry& e = table.rows[piece.row];
  // The step's numbers, in f64, are one thread's work: many GPUs have few units for that.
  __shared__ decltype(rule.template constants<C>()) shared_constants;
  __shared__ C shared_scale[3];
  if (threadIdx.x == 0) {
    const Rule now = at_rate(rule, state.lr);
    shared_constants = now.template constants<C>();
    double scale[2];
    next_scales(now, e.step, scale);
    shared_scale[0] = static_cast<C>(scale[0]), shared_scale[1] = static_cast<C>(scale[1]);
    shared_scale[2] = static_cast<C>(clip_factor(rule.max_norm, state.norm, state.f64_norm));
  }
  __syncthreads();
  const auto constants = shared_constants;
  const C factor = state.scale ? *state.scale : 1.f, a = shared_scale[0], b = shared_scale[1],
          clip = shared_scale[2];
  constexpr int kWide = kWidth<T>;
  bool wide = aligned_to(e.param, sizeof(P) * kWide) && aligned_to(e.grad, sizeof(T) * kWide);
  if constexpr (kMaster) wide &= aligned_to(e.copy, sizeof(T) * kWide);
#pragma unroll
  for (int k = 0; k < kMoments; ++k) wide &= aligned_to(e.moments[k], sizeof(moment_t<T>) * kWide);
  const std::int64_t middle = wide ? piece.begin + (piece.end - piece.begin) / kWide * kWide : piece.begin;
  update_range<T, kMoments, kMaster, kWide>(e, piece.begin, middle, constants, a, b, factor, clip, f16);
  update_range<T, kMoments, kMaster, 1>(e, middle, piece.end, constants, a, b, factor, clip, f16);
  if (!state.done || !is_last(state.done, gridDim.x)) return;
  for (int k = static_cast<int>(threadIdx.x); k < table.size; k += kThreads) ++*table.rows[k].step;
}

template <class T, int kMoments, bool kMaster, class TableT, class Rule>
void launch_updates(const char* op, std::span<const Entry> entries, const Rule& rule, const StepState& state,
                    bool f16) {
  for_tables<TableT, true>(
      entries, chunk_size(element_total(entries)), [](const Entry& e) { return e; },
      [&](const TableT& table, int blocks) {
        gpu::launch_waiting(op, update_kernel<T, kMoments, kMaster, TableT, Rule>,
                            dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, table, rule, state, f16);
      });
}

template <class T, int kMoments, bool kMaster, class Rule>
void launch_updates(const char* op, std::span<const Entry> entries, const Rule& rule, const StepState& state,
                    bool f16) {
  constexpr bool kOften = decltype(rule.template constants<float>())::kOften;
  if constexpr (kOften && (kMaster || std::is_same_v<T, float>)&&kMoments < 3)
    if (entries.size() > SmallTable::capacity)
      return launch_updates<T, kMoments, kMaster, LargeTable>(op, entries, rule, state, f16);
  launch_updates<T, kMoments, kMaster, SmallTable>(op, entries, rule, state, f16);
}

template <class Rule, class Attrs>
void step_cuda(const Forward& call) {
  const char* const op = call.op.name;
  const Rule rule{call.attrs<Attrs>()};
  const std::span<const Entry> entries = step_entries(call, rule);
  // The last number of `steps` is the counter.
  const Tensor& steps = *call.inputs[kSteps];
  unsigned* const done =
      steps.defined()
          ? reinterpret_cast<unsigned*>(optional_number<std::int64_t>(call, kSteps) + steps.numel() - 1)
          : nullptr;
  const Tensor& norm = *call.inputs[kNorm];
  const StepState state{optional_number(call, kFoundInf),
                        optional_number(call, kInverseScale),
                        optional_number<double>(call, kLr),
                        optional_number<void>(call, kNorm),
                        norm.defined() && norm.dtype() == DType::f64,
                        done};
  const DType dtype = step_dtype<Rule>(call);
  gpu::visit_widths(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto launch = [&]<bool kMaster>() {
      rule.moment_count() == Rule::kFewest
          ? launch_updates<T, Rule::kFewest, kMaster>(op, entries, rule, state, dtype == DType::f16)
          : launch_updates<T, Rule::kMost, kMaster>(op, entries, rule, state, dtype == DType::f16);
    };
    if constexpr (std::is_same_v<T, compute_t<T>>) {
      launch.template operator()<false>();
    } else {
      entries[0].copy ? launch.template operator()<true>() : launch.template operator()<false>();
    }
  });
}

// ---- Averages -------------------------------------------------------------------------------------------

template <class T, int kWide>
__device__ __forceinline__ void lerp_range(const Entry& e, std::int64_t begin, std::int64_t end,
                                           Lerp<compute_t<T>> lerp, bool f16) {
  using C = compute_t<T>;
  C* const averages = static_cast<C*>(e.param);
  const T* const values = static_cast<const T*>(e.grad);
  for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * kWide; i < end;
       i += kThreads * kWide) {
    C average[kWide], value[kWide];
    gpu::Vector<C, kWide>::load(averages + i).to_compute(average);
    gpu::unpack(gpu::Vector<T, kWide>::load(values + i), f16, value);
#pragma unroll
    for (int j = 0; j < kWide; ++j) average[j] = lerp(average[j], value[j]);
    gpu::Vector<C, kWide>::from_compute(average).store(averages + i);
  }
}

template <class T, class TableT>
__global__ void __launch_bounds__(kThreads)
    lerp_kernel(const __grid_constant__ TableT table, const AverageAttrs attrs, std::int64_t* updates,
                unsigned all_blocks, bool f16) {
  gpu::wait_for_previous();
  __shared__ Lerp<compute_t<T>> shared_lerp;
  if (threadIdx.x == 0) shared_lerp = Lerp<compute_t<T>>(next_weight(attrs, updates));
  __syncthreads();
  const auto lerp = shared_lerp;
  const Piece piece = piece_of(table, blockIdx.x);
  const Entry& e = table.rows[piece.row];
  constexpr int kWide = kWidth<T>;
  const bool wide =
      aligned_to(e.param, sizeof(compute_t<T>) * kWide) && aligned_to(e.grad, sizeof(T) * kWide);
  const std::int64_t middle = wide ? piece.begin + (piece.end - piece.begin) / kWide * kWide : piece.begin;
  lerp_range<T, kWide>(e, piece.begin, middle, lerp, f16);
  lerp_range<T, 1>(e, middle, piece.end, lerp, f16);
  // All launches of a call are one update. The second number is the counter of their blocks.
  if (updates && is_last(reinterpret_cast<unsigned*>(updates + 1), all_blocks) && threadIdx.x == 0)
    ++*updates;
}

void average_cuda(const Forward& call) {
  const DType dtype = call.in(2).dtype();
  const auto entries = average_entries(call);
  const int chunk = chunk_size(element_total(entries));
  unsigned all_blocks = 0;
  for (const Entry& e : entries) all_blocks += static_cast<unsigned>((e.count + chunk - 1) / chunk);
  gpu::visit_widths(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_tables<SmallTable>(
        entries, chunk, [](const Entry& e) { return e; },
        [&](const SmallTable& table, int blocks) {
          gpu::launch_waiting(call.op.name, lerp_kernel<T, SmallTable>, dim3(static_cast<unsigned>(blocks)),
                              dim3(kThreads), 0, table, call.attrs<AverageAttrs>(),
                              optional_number<std::int64_t>(call, 0), all_blocks, dtype == DType::f16);
        });
  });
}

// ---- Rounding -------------------------------------------------------------------------------------------

struct Rounded {
  void* target;
  const float* source;
  std::int64_t count;
};
using RoundTable = Table<Rounded, 128>;
static_assert(sizeof(RoundTable) < 4000, "more than a kernel's parameters hold");

__global__ void __launch_bounds__(kThreads) round_kernel(const __grid_constant__ RoundTable table, bool f16) {
  gpu::wait_for_previous();
  const Piece piece = piece_of(table, blockIdx.x);
  const Rounded& row = table.rows[piece.row];
  BFloat16* const to = static_cast<BFloat16*>(row.target);
  const auto range = [&]<int N>(std::integral_constant<int, N>, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * N; i < end; i += kThreads * N) {
      float values[N];
      gpu::Vector<float, N>::load(row.source + i).to_compute(values);
      gpu::pack<BFloat16>(values, f16).store(to + i);
    }
  };
  const bool wide = aligned_to(to, 8) && aligned_to(row.source, 16);
  const std::int64_t middle = wide ? piece.begin + (piece.end - piece.begin) / 4 * 4 : piece.begin;
  range(std::integral_constant<int, 4>{}, piece.begin, middle);
  range(std::integral_constant<int, 1>{}, middle, piece.end);
}

void round_cuda(const Forward& call) {
  const auto entries = round_entries(call);
  for_tables<RoundTable>(
      entries, chunk_size(element_total(entries)),
      [](const Entry& e) {
        return Rounded{e.param, static_cast<const float*>(e.grad), e.count};
      },
      [&](const RoundTable& table, int blocks) {
        gpu::launch_waiting(call.op.name, round_kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads),
                            0, table, call.in(1).dtype() == DType::f16);
      });
}

}  // namespace
}  // namespace ct::update

CT_KERNELS(cuda, sgd_step, forward_only("sgd_step", update::step_cuda<update::SgdRule, update::SgdAttrs>))
CT_KERNELS(cuda, adam_step, forward_only("adam_step", update::step_cuda<update::AdamRule, update::AdamAttrs>))
CT_KERNELS(cuda, rmsprop_step,
           forward_only("rmsprop_step", update::step_cuda<update::RmspropRule, update::RmspropAttrs>))
CT_KERNELS(cuda, adagrad_step,
           forward_only("adagrad_step", update::step_cuda<update::AdagradRule, update::AdagradAttrs>))
CT_KERNELS(cuda, lion_step, forward_only("lion_step", update::step_cuda<update::LionRule, update::LionAttrs>))
CT_KERNELS(cuda, average_step, forward_only("average_step", update::average_cuda))
CT_KERNELS(cuda, round_all, forward_only("round_all", update::round_cuda))
