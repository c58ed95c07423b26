#include <cotangent/ops/engine/fold/broadcast_grad.h>
#include <cotangent/ops/softmax/masked_softmax_internal.h>
#include <cotangent/ops/engine/rows/additive_mask.cuh>
#include <cotangent/ops/softmax/rows.cuh>

// masked_softmax on CUDA: softmax's kernels with an input that scales and masks what it reads. Rows of up to 1024
// elements (384, if they are no whole vectors) lie in the registers of a warp; others, and those of f64, are read
// twice, the second time out of L2.

namespace ct::softmax_impl::masked {
namespace {

struct Masked {
  static constexpr bool hides = true;
  rows::MaskKind kind;
  const void* data;
  double scale;
  MaskRows rows;

  __device__ __forceinline__ std::int64_t row_offset(std::int64_t row) const { return rows.offset(row); }
  /// Elements column, column + 1, ... of a row whose mask begins at `offset`.
  template <class C, int N>
  __device__ __forceinline__ void operator()(std::int64_t offset, std::int64_t column, C (&v)[N]) const {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const C m = rows::mask_value<C>(kind, data, offset + (column + j) * rows.step);
      // A hidden element counts for nothing, not even where it is NaN.
      v[j] = m == -C(INFINITY) ? m : v[j] * static_cast<C>(scale) + m;
    }
  }
};

void forward_cuda(const Forward& f) {
  const Tensor& y = f.out();
  if (y.numel() == 0) return;
  const Tensor &x = f.in(0), &mask = f.in(1);
  const rows::Extents e = rows::extents(f.op.name, y.shape(), -1);
  const Masked input{rows::mask_kind(mask), mask.raw_data(), f.attrs<Attrs>().scale,
                     MaskRows(mask, y.shape())};
  const bool aligned = gpu::is_aligned(x.raw_data(), 16) && gpu::is_aligned(y.raw_data(), 16);
  visit_floating(f.op.name, y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    rows::run<T>(f.op.name, softmax_impl::ForwardKernels<false, T, Masked>{},
                 softmax_impl::ForwardCall<T, Masked>{false, x.data<T>(), y.data<T>(), input}, e, aligned);
  });
}

void backward_cuda(const Backward& b) {
  if (b.needs(0))
    softmax_impl::gradient_cuda(b.op.name, b.grad(), b.out(), b.grad_in(0), b.attrs<Attrs>().scale);
  if (!b.needs(1)) return;
  const Tensor scores = whole_grad(b, 1, b.out().shape(), b.out().dtype());
  softmax_impl::gradient_cuda(b.op.name, b.grad(), b.out(), scores, 1);
  set_summed_grad(b, 1, scores);
}

}  // namespace
}  // namespace ct::softmax_impl::masked

CT_KERNELS(cuda, masked_softmax,
           {"masked_softmax", softmax_impl::masked::forward_cuda, softmax_impl::masked::backward_cuda})
