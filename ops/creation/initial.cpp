#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/creation/initial_internal.h>
#include <cotangent/ops/matmul/matmul.h>

namespace ct {
namespace {

// ---- truncated --------------------------------------------------------------------------------------------

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// The inverse of erfc, of q in (0, 1]. Winitzki's closed form is right to 0.4 %; Halley's iteration triples the digits each
// time.
double erfc_inverse(double q) {
  const double l = std::log(q * (2 - q));
  constexpr double k = 0.147;
  const double h = 2 / (std::numbers::pi * k) + l / 2;
  double x = std::sqrt(std::max(std::sqrt(h * h - l / k) - h, 0.0));
  for (int i = 0; i < 3; ++i) {
    const double f = q > 0.5 ? std::erf(x) - (1 - q) : q - std::erfc(x);  // that which keeps its digits
    const double u = f / (2 * std::numbers::inv_sqrtpi * std::exp(-x * x));
    x -= u / (1 + x * u);
  }
  return x;
}

// The place between two bounds, in standard deviations, that has the share v of what lies between them to its left.
double between(double low, double high, double v) {
  // So far out the tail falls off as that of exp(-x^2 / 2) x, but for a thousandth.
  if (low > 37) return std::sqrt(low * low - 2 * std::log1p(v * std::expm1((low * low - high * high) / 2)));
  if (low > 0) return -between(-high, -low, 1 - v);
  const double from = normal_cdf(low), p = from + (normal_cdf(high) - from) * v;
  const double q = 2 * std::min(p, 1 - p), x = std::numbers::sqrt2 * (q > 0 ? erfc_inverse(q) : 6);
  return p < 0.5 ? -x : x;
}

void truncated(const Forward& f) {
  const auto& a = f.attrs<TruncatedAttrs>();
  const double from = (a.low - a.mean) / a.std, to = (a.high - a.mean) / a.std;
  const bool mirrored = to < -37;
  const auto run = [&]<class T>(T* y) {
    parallel_for(f.out().numel(), 1 << 15, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto share = static_cast<double>(y[i]);
        const double z = mirrored ? -between(-to, -from, 1 - share) : between(from, to, share);
        y[i] = static_cast<T>(std::clamp(a.mean + a.std * z, a.low, a.high));
      }
    });
  };
  f.out().dtype() == DType::f64 ? run(f.out().data<double>()) : run(f.out().data<float>());
}

// ---- orthonormalize ---------------------------------------------------------------------------------------

// A block at a time, so that most of the work is products; and twice, since one pass loses digits.
void orthonormalize(const Forward& f) {
  constexpr std::int64_t kBlock = 32;
  const NoGrad guard;
  const Tensor& matrix = f.out();
  const std::int64_t length = matrix.size(1);
  for (std::int64_t first = 0; first < matrix.size(0); first += kBlock) {
    const std::int64_t count = std::min(kBlock, matrix.size(0) - first);
    Tensor block = matrix.narrow(0, first, count);
    const Tensor done = matrix.narrow(0, 0, first);
    for (int pass = 0; pass < 2; ++pass) {
      if (first > 0) block.sub_(mm(mm(block, done.t()), done));
      for (double *row = block.data<double>(), *end = row + count * length, *q = row; q != end; q += length) {
        for (const double* before = row; before != q; before += length) {
          const double shadow = std::inner_product(q, q + length, before, 0.0);
          for (std::int64_t i = 0; i < length; ++i) q[i] -= shadow * before[i];
        }
        const double norm = std::sqrt(std::inner_product(q, q + length, q, 0.0));
        for (std::int64_t i = 0; i < length; ++i) q[i] /= norm;
      }
    }
  }
}

void target_infer(Infer& i) { i.output(i.in(0).shape(), i.in(0).dtype()); }
constexpr InputDef kTarget[] = {{.name = "target", .gradient = false}};
constexpr OutputDef kWritten[] = {{.name = "y", .gradient = false}};
constexpr AttrDef kTruncatedAttributes[] = {
    CT_ATTRIBUTE(TruncatedAttrs, mean), CT_ATTRIBUTE(TruncatedAttrs, std), CT_ATTRIBUTE(TruncatedAttrs, low),
    CT_ATTRIBUTE(TruncatedAttrs, high)};

}  // namespace

constexpr OpDef k_truncated = checked({
    .name = "truncated",
    .formula = "y_i = the number of N(mean, std^2) in [low, high] that has the share x_i of them below it, "
               "in the memory of x",
    .inputs = kTarget,
    .outputs = kWritten,
    .attributes = kTruncatedAttributes,
    .infer = target_infer,
    .cpu = {truncated},
});
constexpr OpDef k_orthonormalize = checked({
    .name = "orthonormalize",
    .formula = "y = Q^T of x^T = Q R, with R's diagonal positive, in the memory of x",
    .inputs = kTarget,
    .outputs = kWritten,
    .infer = target_infer,
    .cpu = {orthonormalize},
});

}  // namespace ct
