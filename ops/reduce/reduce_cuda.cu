#include <cotangent/ops/reduce/cuda_forward_internal.cuh>

// sum, mean and prod on CUDA. The other kinds are in reduce_extremum_cuda.cu, reduce_position_cuda.cu and
// reduce_statistics_cuda.cu, the gradients in gradient.cu: apart, so that each compiles quickly.

namespace ct::reduction {

template <Kind kind>
void forward_cuda(const Forward& f) {
  const Tensor& x = f.in(0);
  if constexpr (kind == Kind::prod) {
    visit_all(f.op.name, x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      run_forward<T>(f, ProdFold<fold_t<T>>{}, Order::any, &f.out(), nullptr);
    });
  } else {
    const double count = f.out().numel() == 0 ? 1 : static_cast<double>(x.numel() / f.out().numel());
    sum_cuda(x, axis_mask(f.op.name, f.attrs<Attrs>().axes, x.dim()), f.out(), kind == Kind::mean ? count : 1,
             false);
  }
}

}  // namespace ct::reduction

CT_KERNELS(cuda, reduce_sum, CT_FOLD(sum), CT_FOLD(mean))
CT_KERNELS(cuda, reduce_product, CT_FOLD(prod))
