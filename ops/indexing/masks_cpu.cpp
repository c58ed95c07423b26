#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/walk/copy.h>

// Each chunk counts, and when all have, writes behind those before it.

namespace ct::indexing_impl::masks {
namespace {

constexpr std::int64_t kGrain = 1 << 15;

void nonzero_cpu(const Forward& f) {
  const Tensor truth = converted(f.in(0), DType::boolean);
  const Shape& shape = truth.shape();
  const bool* const x = truth.data<bool>();
  const std::int64_t n = truth.numel(), chunks = chunk_count(n, kGrain);
  std::vector<std::int64_t> starts(static_cast<std::size_t>(chunks) + 1);
  parallel_chunks(n, kGrain, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    std::int64_t count = 0;
    for (std::int64_t i = begin; i < end; ++i) count += x[i];
    starts[static_cast<std::size_t>(chunk) + 1] = count;
  });
  for (std::size_t k = 1; k < starts.size(); ++k) starts[k] += starts[k - 1];
  const int rank = shape.size();
  std::int64_t* const out = f.allocate_out(0, {starts.back(), rank}).data<std::int64_t>();
  parallel_chunks(n, kGrain, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    std::int64_t* to = out + starts[static_cast<std::size_t>(chunk)] * rank;
    for (std::int64_t i = begin; i < end; ++i) {
      if (!x[i]) continue;
      std::int64_t rest = i;
      for (int k = rank - 1; k >= 0; rest /= shape[k--]) to[k] = rest % shape[k];
      to += rank;
    }
  });
}

}  // namespace
}  // namespace ct::indexing_impl::masks

CT_KERNELS(cpu, masks, forward_only("nonzero", indexing_impl::masks::nonzero_cpu))
