#include <algorithm>
#include <type_traits>
#include <vector>

#include <cotangent/core/memory.h>
#include <cotangent/core/parallel.h>
#include <cotangent/core/pool.h>
#include <cotangent/ops/engine/rows/order_key.h>
#include <cotangent/ops/sorting/topk_internal.h>

// A row becomes pairs of key and position, of which the standard library selects and sorts the first k. All
// pairs differ, so there is one answer.

namespace ct::topk_kernels {
namespace {

template <class K>
struct Item {
  K key;
  std::uint32_t index;
  // Larger keys first, of equal ones the first.
  friend bool operator<(const Item& a, const Item& b) {
    return a.key != b.key ? a.key > b.key : a.index < b.index;
  }
};

template <class T>
void forward(const T* x, T* values, std::int64_t* indices, const Rows& rows, std::int64_t k) {
  using C = compute_t<T>;
  using I = Item<OrderKey<C>>;
  parallel_for(rows.rows, std::max<std::int64_t>(1, 4096 / rows.n),
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<I, PoolAllocator<I>> items(static_cast<std::size_t>(rows.n));
                 for (std::int64_t r = begin; r < end; ++r) {
                   const T* row = x + rows.start(r, rows.n);
                   for (std::int64_t i = 0; i < rows.n; ++i)
                     items[static_cast<std::size_t>(i)] = {order_key(static_cast<C>(row[i * rows.inner])),
                                                           static_cast<std::uint32_t>(i)};
                   const auto middle = items.begin() + k;
                   if (k < rows.n) std::nth_element(items.begin(), middle, items.end());
                   std::sort(items.begin(), middle);
                   const std::int64_t to = rows.start(r, k);
                   for (std::int64_t j = 0; j < k; ++j) {
                     const std::int64_t from = items[static_cast<std::size_t>(j)].index;
                     values[to + j * rows.inner] = row[from * rows.inner];
                     indices[to + j * rows.inner] = from;
                   }
                 }
               });
}

}  // namespace

void forward_cpu(const Forward& f) {
  if (f.out().numel() == 0) return;
  const Tensor& x = f.in(0);
  const auto& attrs = f.attrs<Attrs>();
  const Rows rows(x.shape(), wrap_axis("topk", attrs.axis, x.dim()));
  CT_CHECK(rows.n <= UINT32_MAX, ShapeError, "topk", "x is ", describe(x),
           "; rows have at most 2^32 - 1 elements");
  visit_numeric("topk", x.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_same_v<T, double>)  // that is topk_plain.cpp's
      forward(static_cast<const T*>(x.data<T>()), f.out().data<T>(), f.out(1).data<std::int64_t>(), rows,
              attrs.k);
  });
}

void backward_cpu(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor& dx = b.grad_in(0);
  zero_bytes(dx.raw_data(), dx.device(), static_cast<std::size_t>(dx.nbytes()));
  const Tensor& g = b.grad();
  if (g.numel() == 0) return;
  const auto& attrs = b.attrs<Attrs>();
  const Rows rows(dx.shape(), wrap_axis("topk", attrs.axis, dx.dim()));
  const std::int64_t* indices = b.out(1).data<std::int64_t>();
  visit_fast("topk", dx.dtype(), [&]<class T>(TypeTag<T>) {
    const T* from = g.data<T>();
    T* to = dx.data<T>();
    for (std::int64_t r = 0; r < rows.rows; ++r)
      for (std::int64_t j = 0; j < attrs.k; ++j) {
        const std::int64_t at = rows.start(r, attrs.k) + j * rows.inner;
        to[rows.start(r, rows.n) + indices[at] * rows.inner] = from[at];
      }
  });
}

}  // namespace ct::topk_kernels

CT_KERNELS(cpu, topk, {"topk", topk_kernels::forward_cpu, topk_kernels::backward_cpu})
