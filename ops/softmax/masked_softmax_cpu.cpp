#include <limits>

#include <cotangent/ops/engine/fold/sum_to.h>
#include <cotangent/ops/engine/rows/additive_mask_cpu.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/softmax/masked_softmax_internal.h>
#include <cotangent/ops/softmax/row_cpu.h>
#include <cotangent/ops/softmax/softmax_internal.h>

// masked_softmax on the CPU: softmax's row kernel, after a pass over the row in the cache that scales and
// masks it.

namespace ct::masked_softmax_kernels {
namespace {

using fold::kBlock;

// work = scale x + mask of one row; says whether anything is seen.
template <class T, class C>
bool prepare_row(const T* x, const Tensor& mask, std::int64_t at, std::int64_t step, C scale, std::int64_t n,
                 C* work) {
  constexpr C minus_inf = -std::numeric_limits<C>::infinity();
  C values[kBlock], elements[kBlock];
  int seen = 0;
  for (std::int64_t i = 0; i < n; i += kBlock) {
    const int m = static_cast<int>(std::min<std::int64_t>(kBlock, n - i));
    load_additive(mask.raw_data(), mask.dtype(), at + i * step, step, m, values);
    const C* from = fold::load_block<T, C>(x + i, 1, m, elements);
    // A hidden element counts for nothing, not even where it is NaN.
    for (int j = 0; j < m; ++j) {
      const C v = values[j] == minus_inf ? minus_inf : scale * from[j] + values[j];
      work[i + j] = v;
      seen |= v != minus_inf;
    }
  }
  return seen != 0;
}

template <class T>
void forward(const Forward& f) {
  using C = compute_t<T>;
  const Tensor &x = f.in(0), &mask = f.in(1);
  const Shape& shape = x.shape();
  const std::int64_t n = shape.empty() ? 1 : shape.back(), count = x.numel() / n;
  const MaskRows rows(mask, shape);
  const auto scale = static_cast<C>(f.attrs<Attrs>().scale);
  const T* from = x.data<T>();
  T* to = f.out().data<T>();
  parallel_for(count, std::max<std::int64_t>(1, softmax_kernels::kGrain / n),
               [&](std::int64_t begin, std::int64_t end) {
                 constexpr bool kConvert = !std::is_same_v<T, C>;
                 C buffer[kConvert ? kBlock : 1];
                 Tensor scratch;
                 if (kConvert && n > kBlock) scratch = Tensor::allocate({n}, dtype_of<C>, cpu);
                 C* const converted = scratch.defined() ? scratch.data<C>() : buffer;
                 for (std::int64_t row = begin; row < end; ++row) {
                   C* work = converted;
                   if constexpr (!kConvert) work = to + row * n;
                   if (prepare_row(from + row * n, mask, rows.offset(row), rows.step, scale, n, work)) {
                     softmax_kernels::softmax_row<false>(work, work, n);
                   } else {
                     std::fill_n(work, n, C(0));
                   }
                   if constexpr (kConvert)
                     fold::store_block<T, C>(to + row * n, 0, work, static_cast<int>(n), false);
                 }
               });
}

void forward_cpu(const Forward& f) {
  if (f.out().numel() == 0) return;
  visit_fast(f.op.name, f.out().dtype(), [&]<class T>(TypeTag<T>) { forward<T>(f); });
}

void backward_cpu(const Backward& b) {
  if (b.needs(0))
    softmax_kernels::gradient_cpu(b.op.name, b.grad(), b.out(), b.grad_in(0), b.attrs<Attrs>().scale);
  if (!b.needs(1)) return;
  const Tensor scores = Tensor::allocate(b.out().shape(), b.out().dtype(), b.out().device());
  softmax_kernels::gradient_cpu(b.op.name, b.grad(), b.out(), scores, 1);
  b.set_grad_in(1, converted(sum_to(scores, b.in_meta(1).shape), b.in_meta(1).dtype));
}

}  // namespace
}  // namespace ct::masked_softmax_kernels

CT_KERNELS(cpu, masked_softmax,
           {"masked_softmax", masked_softmax_kernels::forward_cpu, masked_softmax_kernels::backward_cpu})
