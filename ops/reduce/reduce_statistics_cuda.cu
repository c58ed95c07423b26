#include <cotangent/ops/reduce/cuda_forward_internal.cuh>

// var, std and logsumexp on CUDA.

namespace ct::reduce {

template <Kind kind>
void statistics_cuda(const Forward& f) {
  const double number = f.attrs<Attrs>().number;
  gpu::visit_widths(f.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = fold_t<T>;
    if constexpr (kind == Kind::var || kind == Kind::std) {
      const VarFold<C> fold{{static_cast<C>(number), kind == Kind::std}};
      run_forward<T>(f, fold, Order::any, &f.out(0), &f.out(1));
    } else {
      run_forward<T>(f, LogSumExpFold<C>{}, Order::any, &f.out(0), &f.out(1));
    }
  });
}

}  // namespace ct::reduce

CT_KERNELS(cuda, reduce_statistics, CT_FOLD(statistics_cuda, var), CT_FOLD(statistics_cuda, std))
CT_KERNELS(cuda, reduce_logsumexp, CT_FOLD(statistics_cuda, logsumexp))
