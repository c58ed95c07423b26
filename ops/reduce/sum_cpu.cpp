#include <cotangent/ops/reduce/cpu_engine_internal.h>
#include <cotangent/ops/reduce/cpu_folds_internal.h>
#include <cotangent/ops/reduce/reduce_kernels.h>

namespace ct::reduction {

void sum_cpu(const Tensor& x, AxisMask mask, const Tensor& out, double divisor, bool accumulate) {
  Tensor source = x;
  const Plan plan = plan_or_pack(source, mask, Order::any, Repeats::drop);
  visit_fold_type(x.dtype(), [&](auto element) {
    using C = decltype(element);
    SumFold<C> fold;
    fold.divisor = divisor;
    fold.repeats = plan.repeats;
    run_fold(fold, plan, source_of<C>(source), sink_of<C>(out, accumulate));
  });
}

}  // namespace ct::reduction
