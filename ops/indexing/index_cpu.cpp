#include <cotangent/core/device/index_error.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/indexing/index_internal.h>

namespace ct::indexing_impl::flat {
namespace {

void forward_cpu(const Forward& f) {
  const Lists lists(f);
  std::int64_t* const y = f.out().data<std::int64_t>();
  parallel_for(f.out().numel(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      y[i] = lists.at(i, [](std::int64_t index, std::int64_t size) {
        throw_index_error("index", IndexKind::index, index, size);
      });
  });
}

}  // namespace
}  // namespace ct::indexing_impl::flat

CT_KERNELS(cpu, index, forward_only("flat_index", indexing_impl::flat::forward_cpu))
