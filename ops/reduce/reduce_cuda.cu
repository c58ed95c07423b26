#include <cotangent/ops/reduce/cuda_forward_internal.cuh>

// sum, mean and prod on CUDA. The other kinds are in extremum_cuda.cu, position_cuda.cu and
// statistics_cuda.cu, the gradients in gradient_cuda.cu: apart, so that each compiles quickly.

namespace ct::reduction {

void sum_cuda(const Tensor& x, AxisMask mask, const Tensor& out, double divisor, bool accumulate) {
  Tensor source = x;
  const Plan plan = plan_or_pack(source, mask, Order::any, Repeats::drop);
  visit_all("sum", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = fold_t<T>;
    SumFold<C> fold;
    fold.scaled = divisor != 1 || plan.repeats != 1;
    fold.divisor = static_cast<C>(divisor);
    fold.repeats = static_cast<C>(plan.repeats);
    run_fold<T>("sum", fold, plan, source, Out{out.raw_data(), out.dtype(), accumulate, nullptr});
  });
}

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

CT_INSTANTIATE_BOTH(sum)
CT_INSTANTIATE_BOTH(mean)
CT_INSTANTIATE_BOTH(prod)

}  // namespace ct::reduction
