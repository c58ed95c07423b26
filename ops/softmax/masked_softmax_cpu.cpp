#include <limits>

#include <cotangent/ops/engine/fold/broadcast_grad.h>
#include <cotangent/ops/engine/rows/additive_mask_cpu.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/softmax/masked_softmax_internal.h>
#include <cotangent/ops/softmax/row_cpu.h>
#include <cotangent/ops/softmax/softmax_internal.h>

// masked_softmax on the CPU: softmax's row kernel, after a pass over the row in the cache that scales and
// masks it.

namespace ct::softmax_impl::masked {
namespace {

using rows::kBlock;

// work = scale x + mask of one row; says whether anything is seen.
template <class T>
bool prepare_row(const T* x, const Tensor& mask, std::int64_t at, std::int64_t step, float scale,
                 std::int64_t n, float* work) {
  constexpr float minus_inf = -std::numeric_limits<float>::infinity();
  float values[kBlock], elements[kBlock];
  int seen = 0;
  rows::for_blocks(n, [&](std::int64_t i, int m) {
    load_additive(mask.raw_data(), mask.dtype(), at + i * step, step, m, values);
    const float* from = rows::load_block<T, float>(x + i, 1, m, elements);
    // A hidden element counts for nothing, not even where it is NaN.
    for (int j = 0; j < m; ++j) {
      const float v = values[j] == minus_inf ? minus_inf : scale * from[j] + values[j];
      work[i + j] = v;
      seen |= v != minus_inf;
    }
  });
  return seen != 0;
}

template <class T>
void forward(const Forward& f) {
  const Tensor &x = f.in(0), &mask = f.in(1);
  const Shape& shape = x.shape();
  const std::int64_t n = shape.empty() ? 1 : shape.back();
  const MaskRows mask_rows(mask, shape);
  const auto scale = static_cast<float>(f.attrs<Attrs>().scale);
  const T* from = x.data<T>();
  T* to = f.out().data<T>();
  rows::for_rows(x.numel() / n, n, [&](std::int64_t begin, std::int64_t end) {
    rows::Work converted(simd::is_16_bit<T> ? n : 0);
    for (std::int64_t row = begin; row < end; ++row) {
      float* work = converted.data();
      if constexpr (!simd::is_16_bit<T>) work = to + row * n;
      if (prepare_row(from + row * n, mask, mask_rows.offset(row), mask_rows.step, scale, n, work)) {
        softmax_impl::softmax_row<false>(work, work, n);
      } else {
        std::fill_n(work, n, 0.0f);
      }
      if constexpr (simd::is_16_bit<T>)
        rows::store_block<T, float>(to + row * n, 0, work, static_cast<int>(n), false);
    }
  });
}

void forward_cpu(const Forward& f) {
  if (f.out().numel() == 0) return;
  visit_fast(f.op.name, f.out().dtype(), [&]<class T>(TypeTag<T>) { forward<T>(f); });
}

void backward_cpu(const Backward& b) {
  if (b.needs(0))
    softmax_impl::gradient_cpu(b.op.name, b.grad(), b.out(), b.grad_in(0), b.attrs<Attrs>().scale);
  if (!b.needs(1)) return;
  const Tensor scores = whole_grad(b, 1, b.out().shape(), b.out().dtype());
  softmax_impl::gradient_cpu(b.op.name, b.grad(), b.out(), scores, 1);
  set_summed_grad(b, 1, scores);
}

}  // namespace
}  // namespace ct::softmax_impl::masked

CT_KERNELS(cpu, masked_softmax,
           {"masked_softmax", softmax_impl::masked::forward_cpu, softmax_impl::masked::backward_cpu})
