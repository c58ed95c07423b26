#include <cotangent/core/simd/add_wide.h>
#include <cotangent/ops/engine/fold/sum.h>
#include <cotangent/ops/engine/fold/sum_fold_cpu.h>

namespace ct::fold {

namespace {

// The sum of n numbers that lie one after the other, of f32, f16 or bf16. A lane of f32 sees eight additions, as in a block;
// blocks are added up in lanes too, so that they need not wait for one another.
template <class T>
double run_sum(const void* run, std::int64_t n) {
  using V = simd::FixedVector<float>;
  constexpr std::int64_t w = V::kSize;
  const T* x = static_cast<const T*>(run);
  simd::FixedVector<double> totals[] = {0, 0};
  simd::Vector<float> hidden(1);
  simd::keep(hidden);
  const V one(hidden.v[0]);  // every second addition is a multiply-add, which other units do
  const auto add_two = [&](V(&sums)[2], const T* from) {
    V a, b;
    V::load_pair(from, a, b);
    sums[0] += a, sums[1] = simd::is_16_bit<T> ? fma(b, one, sums[1]) : sums[1] + b;
  };
  std::int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    V even[] = {0, 0}, odd[] = {0, 0};
#pragma GCC unroll 1  // unrolled, the compiler would read first for one sum and then for the next
    for (std::int64_t k = 0; k < kBlock; k += 4 * w)
      add_two(even, x + i + k), add_two(odd, x + i + k + 2 * w);
    simd::add_wide(totals[0], totals[1], (even[0] + even[1]) + (odd[0] + odd[1]));
  }
  if (i < n) {
    V rest[] = {0, 0};
    for (; i + 2 * w <= n; i += 2 * w) add_two(rest, x + i);
    if (i + w <= n) rest[0] += V::load(x + i), i += w;
    if (i < n) rest[1] += V::load(x + i, V::first(n - i));
    simd::add_wide(totals[0], totals[1], rest[0] + rest[1]);
  }
  return (totals[0] + totals[1]).across(kPlus);
}

// SumFold::quad() of f16 or bf16 as they are stored.
template <class T>
void add_quad(double* acc, std::array<const void*, 4> rows, int n) {
  using V = simd::FixedVector<float>;
  using Doubles = simd::FixedVector<double>;
  const auto row = [&](std::size_t i, int j) { return static_cast<const T*>(rows[i]) + j; };
  int j = 0;
  for (; j + V::kSize <= n; j += V::kSize) {
    const V sum = (V::load(row(0, j)) + V::load(row(1, j))) + (V::load(row(2, j)) + V::load(row(3, j)));
    Doubles low = Doubles::load(acc + j), high = Doubles::load(acc + j + Doubles::kSize);
    simd::add_wide(low, high, sum);
    low.store(acc + j), high.store(acc + j + Doubles::kSize);
  }
  const auto number = [&](std::size_t i) { return static_cast<float>(*row(i, j)); };
  for (; j < n; ++j) acc[j] += (number(0) + number(1)) + (number(2) + number(3));
}

// Fast path: sum of one short contiguous f32 run into one number (a loss). Returns false otherwise.
bool sum_run(const Tensor& x, const Tensor& out, double divisor, bool accumulate,
             const rows::Passes* passes) {
  const bool short_run = x.is_contiguous() && x.numel() > 0 && x.numel() <= kBlock && out.numel() == 1;
  if (!short_run || x.dtype() != DType::f32 || out.dtype() != DType::f32) return false;
  using Fold = SumFold<float>;
  Fold fold;
  fold.divisor = divisor;
  const Fold::Acc acc = run_sum<float>(passes ? passes->load(0, x.numel()) : x.raw_data(), x.numel());
  float sum;
  fold.finish_run(&acc, &sum, 1);
  float& y = *static_cast<float*>(out.raw_data());
  y = accumulate ? y + sum : sum;
  return true;
}

void sum_of(const Tensor& x, AxisMask mask, const Tensor& out, double divisor, bool accumulate,
            const rows::Passes* passes) {
  if (sum_run(x, out, divisor, accumulate, passes)) return;
  Tensor source = x;
  const Plan plan = plan_or_pack(source, mask, Order::any, Repeats::drop);
  visit_fold_type(x.dtype(), [&](auto element) {
    using C = decltype(element);
    SumFold<C> fold;
    fold.divisor = divisor;
    fold.repeats = plan.repeats;
    fold.passes = passes;
    if constexpr (std::is_same_v<C, float>)
      visit_fast("sum", x.dtype(), [&]<class T>(TypeTag<T>) {
        fold.run = run_sum<T>;
        if constexpr (simd::is_16_bit<T>) fold.stored_quad = add_quad<T>;
      });
    run_fold(fold, plan, source_of<C>(source), sink_of<C>(out, accumulate));
  });
}

}  // namespace

void sum_cpu(const Tensor& x, AxisMask mask, const Tensor& out, double divisor, bool accumulate) {
  sum_of(x, mask, out, divisor, accumulate, nullptr);
}
void sum_within(const Tensor& x, const Tensor& out, double divisor, const rows::Passes& passes) {
  sum_of(x, (AxisMask{1} << x.dim()) - 1, out, divisor, false, &passes);
}

CT_SUM_FOLD(float, );
CT_SUM_FOLD(double, );
CT_SUM_FOLD(std::int64_t, );

}  // namespace ct::fold

CT_FUNCTIONS(cpu, SumFunctions, sums, fold::sum_cpu)
