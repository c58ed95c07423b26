#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/engine/rows/order_key.h>
#include <cotangent/ops/sorting/searchsorted_internal.h>

namespace ct::sorting::searched {
namespace {

void forward_cpu(const Forward& f) {
  const Tensor &list = f.in(0), &values = f.in(1);
  if (values.numel() == 0) return;
  const bool right = f.attrs<Attrs>().right;
  const std::int64_t n = list.shape().back(), m = list.dim() > 1 ? values.shape().back() : values.numel();
  std::int64_t* const out = f.out().data<std::int64_t>();
  visit_numeric(f.op.name, list.dtype(), [&]<class T>(TypeTag<T>) {
    const T *all = list.data<T>(), *v = values.data<T>();
    const auto key = [](T x) { return order_key(static_cast<compute_t<T>>(x)); };
    parallel_for(values.numel(), 2048, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* const row = all + i / m * n;
        out[i] = position(n, key(v[i]), right, [&](std::int64_t j) { return key(row[j]); });
      }
    });
  });
}

}  // namespace
}  // namespace ct::sorting::searched

CT_KERNELS(cpu, searchsorted, forward_only("searchsorted", sorting::searched::forward_cpu))
