#include <bit>

#include <cotangent/ops/engine/fold/fold_cpu.h>
#include <cotangent/ops/engine/fold/order_folds_cpu.h>
#include <cotangent/ops/engine/fold/product_fold_cpu.h>
#include <cotangent/ops/engine/fold/statistic_folds_cpu.h>
#include <cotangent/ops/engine/rows/record.h>
#include <cotangent/ops/reduce/kinds_internal.h>

namespace ct::reduce {
namespace {

// Runs `fold` over x's reduced axes into the outputs of a forward call. The second output may be absent.
template <class F>
void run_forward(const Forward& f, const F& fold, const Tensor* values, const Tensor* second) {
  using C = typename F::C;
  Tensor x = f.in(0);
  AxisMask mask = axis_mask(f.op.name, f.attrs<Attrs>().axes, x.dim());
  const Plan plan = plan_or_pack(x, mask, F::kPositions ? Order::logical : Order::any, Repeats::keep);
  Sink<C> sink;
  if (values) sink = sink_of<C>(*values);
  if (second) sink.second = second->raw_data();
  run_fold(fold, plan, source_of<C>(x), sink);
}

template <class C>
void run_norm(const Forward& f) {
  const double p = f.attrs<Attrs>().number;
  if (std::isinf(p)) {
    return run_forward(f, ExtremumFold<C>{{Compare::absolute, p < 0}}, &f.out(), nullptr);
  }
  SumFold<C> fold;
  if (p == 2 && std::is_same_v<C, float>) {
    fold.mode = SumMode::root_of_squares;
  } else if (p == 0 || p == 1) {
    fold.mode = p == 1 ? SumMode::absolute : SumMode::nonzero;
  } else {
    return run_forward(f, NormFold<C>{{p}}, &f.out(), nullptr);
  }
  run_forward(f, fold, &f.out(), nullptr);
}

template <class F>
Side side_of(const F& fold, const Tensor& x, AxisMask mask, const Plan& plan) {
  using C = typename F::C;
  const Side side{Tensor::allocate({plan.outputs}, dtype_of<C>, Device{}),
                  Tensor::allocate({plan.outputs}, dtype_of<C>, Device{})};
  Sink<C> sink = sink_of<C>(side.value);
  sink.second = side.aux.raw_data();
  run_fold(fold, plan, source_of<C>(x), sink);
  return side;
}

template <Gradient kind, class C>
void gradient_block(const GradientCall& call, const C* x, C* dx, int n, std::int64_t output,
                    std::int64_t step) {
  const auto at = [](const Tensor& t) { return t.defined() ? static_cast<const C*>(t.raw_data()) : nullptr; };
  const C *g = at(call.g), *y = at(call.y), *aux = at(call.aux);
  const C scale = static_cast<C>(call.settings.scale), p = static_cast<C>(call.settings.p);
  const auto exp = [](C v) { return simd::exp(v); };  // of which the compiler makes vectors
  if (step == 0) {
    const C g0 = g[output], y0 = y ? y[output] : C(0), aux0 = aux ? aux[output] : C(0);
    for (int i = 0; i < n; ++i) dx[i] = gradient_of<kind>(x[i], g0, y0, aux0, scale, p, exp);
  } else {
    for (int i = 0; i < n; ++i) {
      const std::int64_t k = output + i;
      dx[i] = gradient_of<kind>(x[i], g[k], y ? y[k] : C(0), aux ? aux[k] : C(0), scale, p, exp);
    }
  }
}

// Calls body(first element, n, its output, step of outputs, its number within the output, step of numbers)
// for pieces of at most kBlock elements whose outputs are one and the same or follow one another.
template <class Body>
void walk(const Spread& spread, std::int64_t numel, const Body& body) {
  const std::int64_t inner = spread.size[0], runs = numel / inner;
  parallel_for(runs, std::max<std::int64_t>(1, kChunkWork / inner),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t run = begin; run < end; ++run) {
                   std::int64_t rest = run, output = 0, number = 0;
                   for (int a = 1; a < spread.rank; ++a) {
                     output += rest % spread.size[a] * spread.output_stride[a];
                     number += rest % spread.size[a] * spread.reduced_stride[a];
                     rest /= spread.size[a];
                   }
                   for (std::int64_t i = 0; i < inner; i += kBlock) {
                     const int n = static_cast<int>(std::min<std::int64_t>(kBlock, inner - i));
                     body(run * inner + i, n, output + i * spread.output_stride[0], spread.output_stride[0],
                          number + i * spread.reduced_stride[0], spread.reduced_stride[0]);
                   }
                 }
               });
}

// The gradient of an op that has these.
template <Gradient... kinds>
void gradient_cpu(const GradientCall& call) {
  const Spread spread = make_spread(call.dx.shape(), call.mask);
  visit_fold_type(call.dx.dtype(), [&](auto element) {
    using C = decltype(element);
    if constexpr (!std::is_integral_v<C>) {
      const Sink<C> sink = sink_of<C>(call.dx);
      if constexpr (((kinds == Gradient::position) || ...)) {
        const auto* winner = static_cast<const std::int64_t*>(call.aux.raw_data());
        const C* g = static_cast<const C*>(call.g.raw_data());
        walk(spread, call.dx.numel(),
             [&](std::int64_t first, int n, std::int64_t output, std::int64_t step, std::int64_t number,
                 std::int64_t number_step) {
               C dx[kBlock];
               for (int i = 0; i < n; ++i) {
                 const std::int64_t k = output + i * step;
                 dx[i] = winner[k] == number + i * number_step ? g[k] : C(0);
               }
               sink.store(sink.values, first, dx, n, false);
             });
      } else {
        const Source<C> source = source_of<C>(call.x);
        walk(spread, call.dx.numel(),
             [&](std::int64_t first, int n, std::int64_t output, std::int64_t step, std::int64_t,
                 std::int64_t) {
               C buffer[kBlock], dx[kBlock];
               const C* x = source.read(first, 1, n, buffer);
               ((call.kind == kinds ? gradient_block<kinds>(call, x, dx, n, output, step) : void()), ...);
               sink.store(sink.values, first, dx, n, false);
             });
      }
    }
  });
}

template <Gradient one>
Side side_cpu(const Tensor& x, AxisMask mask, Gradient kind, bool smallest) {
  Tensor source = x;
  const Plan plan = plan_or_pack(source, mask, Order::any, Repeats::keep);
  Side side;
  visit_fold_type(x.dtype(), [&](auto element) {
    using C = decltype(element);
    if constexpr (!std::is_integral_v<C>) {
      if constexpr (one == Gradient::product) {
        side = side_of(ProdFold<C>{true}, source, mask, plan);
      } else {
        const Compare compare = kind == Gradient::extremum ? Compare::value : Compare::absolute;
        side = side_of(TiesFold<C>{{compare, smallest}}, source, mask, plan);
      }
    }
  });
  return side;
}

constexpr DeviceFunctions functions(Kind kind) {
  using G = Gradient;
  switch (kind) {
    case Kind::prod: return {sum_cpu, side_cpu<G::product>, gradient_cpu<G::product>};
    case Kind::amax:
    case Kind::amin: return {sum_cpu, side_cpu<G::extremum>, gradient_cpu<G::extremum>};
    case Kind::max:
    case Kind::min: return {sum_cpu, nullptr, gradient_cpu<G::position>};
    case Kind::var: return {sum_cpu, nullptr, gradient_cpu<G::variance>};
    case Kind::std: return {sum_cpu, nullptr, gradient_cpu<G::deviation>};
    case Kind::norm:
      return {sum_cpu, side_cpu<G::norm_extremum>,
              gradient_cpu<G::norm1, G::norm2, G::norm_extremum, G::norm>};
    default: return {sum_cpu, nullptr, gradient_cpu<G::log_sum_exp>};
  }
}

template <Kind kind>
void forward_cpu(const Forward& f) {
  const Tensor& x = f.in(0);
  const Attrs& attrs = f.attrs<Attrs>();
  if constexpr (kind == Kind::sum || kind == Kind::mean) {
    const double count = f.out().numel() == 0 ? 1 : static_cast<double>(x.numel() / f.out().numel());
    sum_cpu(x, axis_mask(f.op.name, attrs.axes, x.dim()), f.out(), kind == Kind::mean ? count : 1, false);
  } else {
    visit_fold_type(x.dtype(), [&](auto element) {
      using C = decltype(element);
      constexpr bool smallest =
          kind == Kind::amin || kind == Kind::all || kind == Kind::min || kind == Kind::argmin;
      if constexpr (kind == Kind::prod) {
        run_forward(f, ProdFold<C>{}, &f.out(), nullptr);
      } else if constexpr (kind == Kind::amax || kind == Kind::amin) {
        run_forward(f, ExtremumFold<C>{{Compare::value, smallest}}, &f.out(), nullptr);
      } else if constexpr (kind == Kind::any || kind == Kind::all) {
        run_forward(f, ExtremumFold<C>{{Compare::truth, smallest}}, &f.out(), nullptr);
      } else if constexpr (kind == Kind::max || kind == Kind::min) {
        run_forward(f, PositionFold<C>{{Compare::value, smallest}}, &f.out(0), &f.out(1));
      } else if constexpr (kind == Kind::argmax || kind == Kind::argmin) {
        run_forward(f, PositionFold<C>{{Compare::value, smallest}}, nullptr, &f.out(0));
      } else if constexpr (!std::is_integral_v<C>) {
        if constexpr (kind == Kind::std && std::is_same_v<C, double>) {
          run_forward(f, DeviationFold{{attrs.number, true}}, &f.out(0), &f.out(1));
        } else if constexpr (kind == Kind::var || kind == Kind::std) {
          run_forward(f, VarFold<C>{attrs.number, kind == Kind::std}, &f.out(0), &f.out(1));
        } else if constexpr (kind == Kind::norm) {
          run_norm<C>(f);
        } else {
          run_forward(f, LogSumExpFold<C>{}, &f.out(0), &f.out(1));
        }
      }
    });
  }
}

template <Kind kind>
void backward_cpu(const Backward& b) {
  if constexpr (kind == Kind::sum || kind == Kind::mean) {
    spread_sum(kind, b, sum_cpu);
  } else {
    static constexpr DeviceFunctions device = functions(kind);
    backward_by(kind, b, device);
  }
}

// The last axes, short enough that no row is cut into pieces (engine/fold/fold_cpu.cpp).
int last_axes(AttrsView view, const Shape& x) {
  const Dims& named = static_cast<const Attrs*>(view.data)->axes;
  const AxisMask mask = axis_mask("reduce", named, x.size());
  std::int64_t count = 1;
  int axes = 0;
  for (; axes < x.size() && (mask >> (x.size() - 1 - axes) & 1u); ++axes) count *= x[x.size() - 1 - axes];
  return count <= 2 * kChunkWork && axes == std::popcount(mask) && axes < x.size() ? axes : 0;
}
constexpr rows::RowRecord kLastAxes{.axes = last_axes, .backward = false};

// The same, or all of them.
template <bool mean>
constexpr rows::RowRecord kSums{
    .axes =
        [](AttrsView view, const Shape& x) {
          const Dims& named = static_cast<const Attrs*>(view.data)->axes;
          const bool all = std::popcount(axis_mask("reduce", named, x.size())) == x.size();
          return all ? rows::RowRecord::kWhole : last_axes(view, x);
        },
    .backward = false,
    .forward_within =
        [](const Forward& f, const rows::Passes& passes) {
          sum_within(f.in(0), f.out(), mean ? static_cast<double>(f.in(0).numel()) : 1, passes);
        }};

}  // namespace
}  // namespace ct::reduce

#define CT_FOLD(kind) \
  { #kind, reduce::forward_cpu < reduce::Kind::kind>, reduce::backward_cpu < reduce::Kind::kind> }
#define CT_PREDICATE(kind) forward_only(#kind, reduce::forward_cpu<reduce::Kind::kind>)
#define CT_FOLD_ROWS(kind) CT_FOLD(kind), forward_only(#kind " rows", hand_out<reduce::kLastAxes>)
CT_KERNELS(cpu, reduce_sum, CT_FOLD(sum), CT_FOLD(mean),
           forward_only("sum rows", hand_out<reduce::kSums<false>>),
           forward_only("mean rows", hand_out<reduce::kSums<true>>))
CT_KERNELS(cpu, reduce_product, CT_FOLD(prod))
CT_KERNELS(cpu, reduce_extremum, CT_FOLD_ROWS(amax), CT_FOLD_ROWS(amin))
CT_KERNELS(cpu, reduce_truth, CT_PREDICATE(any), CT_PREDICATE(all))
CT_KERNELS(cpu, reduce_position, CT_FOLD(max), CT_FOLD(min))
CT_KERNELS(cpu, reduce_argument, CT_PREDICATE(argmax), CT_PREDICATE(argmin))
CT_KERNELS(cpu, reduce_statistics, CT_FOLD_ROWS(var), CT_FOLD_ROWS(std))
CT_KERNELS(cpu, reduce_norm, CT_FOLD_ROWS(norm))
CT_KERNELS(cpu, reduce_logsumexp, CT_FOLD_ROWS(logsumexp))
