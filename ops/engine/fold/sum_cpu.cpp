#include <cotangent/ops/engine/fold/fold_cpu.h>
#include <cotangent/ops/engine/fold/folds_cpu.h>
#include <cotangent/ops/engine/fold/sum.h>

namespace ct::fold {

namespace {
// One number of one short run, as a loss is: there is nothing to plan. False where the call is another.
bool sum_run(const Tensor& x, const Tensor& out, double divisor, bool accumulate) {
  const bool short_run = x.is_contiguous() && x.numel() > 0 && x.numel() <= kBlock && out.numel() == 1;
  if (!short_run || x.dtype() != DType::f32 || out.dtype() != DType::f32) return false;
  using Fold = SumFold<float>;
  Fold fold;
  fold.divisor = divisor;
  Fold::Acc acc = Fold::identity();
  fold.block(acc, static_cast<const float*>(x.raw_data()), static_cast<int>(x.numel()), 0);
  float sum;
  Fold::Second unused;
  fold.finish(acc, sum, unused);
  float& y = *static_cast<float*>(out.raw_data());
  y = accumulate ? y + sum : sum;
  return true;
}
}  // namespace

void sum_cpu(const Tensor& x, AxisMask mask, const Tensor& out, double divisor, bool accumulate) {
  if (sum_run(x, out, divisor, accumulate)) return;
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
