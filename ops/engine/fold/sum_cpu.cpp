#include <cotangent/ops/engine/fold/fold_cpu.h>
#include <cotangent/ops/engine/fold/folds_cpu.h>
#include <cotangent/ops/engine/fold/sum.h>

namespace ct::fold {

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

}  // namespace ct::fold

CT_CPU_TABLE(SumCpu, sums, fold::sum_cpu)
