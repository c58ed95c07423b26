#include <cotangent/ops/engine/fold/sum.h>
#include <cotangent/ops/engine/fold/fold_cuda.cuh>
#include <cotangent/ops/engine/fold/sum_fold_cuda.cuh>

namespace ct::fold {

bool sum_around(const Tensor& x, AxisMask mask, const Tensor& out, double divisor, bool accumulate,
                const detail::Around* around) {
  Tensor source = x;
  const Plan plan = plan_or_pack(source, mask, Order::any, Repeats::drop);
  bool done = false;
  visit_elements(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = fold_t<T>;
    SumFold<C> fold;
    fold.scaled = divisor != 1 || plan.repeats != 1;
    fold.divisor = static_cast<C>(divisor);
    fold.repeats = static_cast<C>(plan.repeats);
    done =
        run_fold<T>("sum", fold, plan, source, Out{out.raw_data(), out.dtype(), accumulate, nullptr}, around);
  });
  return done;
}

void sum_cuda(const Tensor& x, AxisMask mask, const Tensor& out, double divisor, bool accumulate) {
  sum_around(x, mask, out, divisor, accumulate, nullptr);
}

}  // namespace ct::fold

CT_FUNCTIONS(cuda, SumFunctions, sums, fold::sum_cuda)
