#include <cstdint>

#include <cotangent/nn/optim/multi_tensor_cuda.h>

// The steps of the optimizers. Every byte is touched once: Adam reads four arrays and writes three.

namespace ct::optim::internal {
namespace {

// Two sizes of table: launching costs time by the byte, which a small model feels.
using SmallTable = Table<Entry, 40>;
using LargeTable = Table<Entry, 320>;
static_assert(sizeof(SmallTable) < 4000 && sizeof(LargeTable) < 32000,
              "more than a kernel's parameters hold");

template <class T, int kMoments, int kWide, class Constants>
__device__ __forceinline__ void update_range(const Entry& e, std::int64_t begin, std::int64_t end,
                                             const Constants& constants) {
  using C = compute_t<T>;
  using M = moment_t<T>;
  const C a = static_cast<C>(e.scale[0]), b = static_cast<C>(e.scale[1]);
  T* const params = static_cast<T*>(e.param);
  const T* const grads = static_cast<const T*>(e.grad);
  for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * kWide; i < end;
       i += kThreads * kWide) {
    const auto grad = gpu::Packed<T, kWide>::load_streaming(grads + i);
    const auto param = gpu::Packed<T, kWide>::load(params + i);
    C g[kWide], p[kWide], moments[kMoments > 0 ? kMoments : 1][kWide];
#pragma unroll
    for (int k = 0; k < kMoments; ++k)
      gpu::Packed<M, kWide>::load(static_cast<const M*>(e.moments[k]) + i).to_compute(moments[k]);
    grad.to_compute(g);
    param.to_compute(p);
#pragma unroll
    for (int j = 0; j < kWide; ++j) {
      C m[kMaxMoments] = {};
#pragma unroll
      for (int k = 0; k < kMoments; ++k) m[k] = moments[k][j];
      constants.template update<kMoments>(p[j], g[j], m, a, b);
#pragma unroll
      for (int k = 0; k < kMoments; ++k) moments[k][j] = m[k];
    }
    gpu::Packed<T, kWide>::from_compute(p).store(params + i);
    // Nobody reads them before the next step. (A plain store is taken apart by the compiler here.)
#pragma unroll
    for (int k = 0; k < kMoments; ++k)
      gpu::Packed<M, kWide>::from_compute(moments[k]).store_streaming(static_cast<M*>(e.moments[k]) + i);
  }
}

template <class T, int kMoments, class TableT, class Constants>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const __grid_constant__ TableT table, const Constants constants) {
  const Piece piece = piece_of(table, blockIdx.x);
  const Entry& e = table.rows[piece.row];
  constexpr int kWide = kWidth<T>;
  bool wide = aligned_to(e.param, sizeof(T) * kWide) && aligned_to(e.grad, sizeof(T) * kWide);
#pragma unroll
  for (int k = 0; k < kMoments; ++k) wide &= aligned_to(e.moments[k], sizeof(moment_t<T>) * kWide);
  const std::int64_t middle = wide ? piece.begin + (piece.end - piece.begin) / kWide * kWide : piece.begin;
  update_range<T, kMoments, kWide>(e, piece.begin, middle, constants);
  update_range<T, kMoments, 1>(e, middle, piece.end, constants);
}

template <class T, int kMoments, class TableT, class Constants>
void launch_updates(const char* op, std::span<const Entry> entries, const Constants& constants) {
  for_tables<TableT>(
      entries, chunk_size(element_total(entries)), [](const Entry& e) { return e; },
      [&](const TableT& table, int blocks) {
        gpu::launch(op, update_kernel<T, kMoments, TableT, Constants>, dim3(static_cast<unsigned>(blocks)),
                    dim3(kThreads), 0, table, constants);
      });
}

}  // namespace

template <class Rule>
void apply_rule_cuda(const char* op, DType dtype, std::span<const Entry> entries, const Rule& rule) {
  visit_floating(op, dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto constants = rule.template constants<compute_t<T>>();
    const bool small = entries.size() <= SmallTable::capacity;
    if (rule.moment_count() == Rule::kFewest) {
      small ? launch_updates<T, Rule::kFewest, SmallTable>(op, entries, constants)
            : launch_updates<T, Rule::kFewest, LargeTable>(op, entries, constants);
    } else {
      small ? launch_updates<T, Rule::kMost, SmallTable>(op, entries, constants)
            : launch_updates<T, Rule::kMost, LargeTable>(op, entries, constants);
    }
  });
}
template void apply_rule_cuda(const char*, DType, std::span<const Entry>, const SgdRule&);
template void apply_rule_cuda(const char*, DType, std::span<const Entry>, const AdamRule&);

}  // namespace ct::optim::internal
