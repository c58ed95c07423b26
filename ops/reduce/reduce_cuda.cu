#include <cotangent/ops/reduce/cuda_forward_internal.cuh>

// sum, mean and prod on CUDA, and what the gradients need to know of factors and ties. The other kinds are in
// reduce_extremum_cuda.cu and reduce_statistics_cuda.cu, the gradients in gradient.cu: apart, so that each compiles
// quickly.

namespace ct::reduce {

template <Kind kind>
bool sum_or_mean(const Forward& f, const detail::Around* around) {
  const Tensor& x = f.in(0);
  const double count = f.out().numel() == 0 ? 1 : static_cast<double>(x.numel() / f.out().numel());
  return sum_around(x, axis_mask(f.op.name, f.attrs<Attrs>().axes, x.dim()), f.out(),
                    kind == Kind::mean ? count : 1, false, around);
}
template <Kind kind>
constexpr detail::AroundRecord kAround{false, sum_or_mean<kind>, nullptr};

template <Kind kind>
void sums_cuda(const Forward& f) {
  const Tensor& x = f.in(0);
  if constexpr (kind == Kind::prod) {
    visit_elements(x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      run_forward<T>(f, ProdFold<fold_t<T>>{}, Order::any, &f.out(), nullptr);
    });
  } else {
    sum_or_mean<kind>(f, nullptr);
  }
}

Side side_cuda(const Tensor& x, AxisMask mask, Gradient kind, bool smallest) {
  Tensor source = x;
  const Plan plan = plan_or_pack(source, mask, Order::any, Repeats::keep);
  const DType dtype = accumulate_type(x.dtype());
  const Side side{Tensor::allocate({plan.outputs}, dtype, x.device()),
                  Tensor::allocate({plan.outputs}, dtype, x.device())};
  const Out out{side.value.raw_data(), dtype, false, side.aux.raw_data()};
  gpu::visit_widths(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = fold_t<T>;
    const Compare compare = kind == Gradient::extremum ? Compare::value : Compare::absolute;
    kind == Gradient::product
        ? run_fold<T>("reduce_backward", ProdFold<C>{true}, plan, source, out)
        : run_fold<T>("reduce_backward", TiesFold<C>{{compare, smallest}}, plan, source, out);
  });
  return side;
}

}  // namespace ct::reduce

CT_KERNELS(cuda, reduce_sum, CT_FOLD(sums_cuda, sum), CT_FOLD(sums_cuda, mean),
           forward_only("sum around", hand_out<reduce::kAround<reduce::Kind::sum>>),
           forward_only("mean around", hand_out<reduce::kAround<reduce::Kind::mean>>))
CT_KERNELS(cuda, reduce_product, CT_FOLD(sums_cuda, prod))
