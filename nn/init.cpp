#include <cotangent/nn/init.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/op/execute.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/view/view.h>

namespace ct::nn::init {
namespace {

constexpr std::int64_t kGrain = 1 << 15;

thread_local bool t_skip = false;

// One draw of the default generator, or none where it would be for nothing.
GeneratorState draw(const char* op) {
  return t_skip ? GeneratorState{} : ct::detail::on_host(op, default_generator().reserve());
}

// Computes the values on the CPU, in f64 for f64 tensors and in f32 otherwise, and brings them to the tensor.
// `make(first, values)` fills a run of elements. In a draw by element the cut into runs does not matter.
template <class Make>
const Tensor& fill_with(const char* op, const Tensor& t, Make&& make) {
  CT_CHECK(is_floating(t.dtype()), DTypeError, op, "got ", describe(t),
           "; initialisers need a floating dtype");
  if (t_skip) return t;
  const NoGrad guard;
  const auto run = [&](auto tag) {
    using T = typename decltype(tag)::type;
    const bool in_place = t.is_cpu() && t.dtype() == dtype_of<T> && t.is_contiguous();
    const Tensor target = in_place ? t : Tensor::allocate(t.shape(), dtype_of<T>, cpu);
    T* out = target.template data<T>();
    ct::detail::work(
        op, [&] { return std::vector{target}; },
        [&] {
          parallel_for(t.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
            make(begin, std::span<T>(out + begin, static_cast<std::size_t>(end - begin)));
          });
        });
    if (in_place) {
      t.impl()->storage->bump_version();
    } else {
      Tensor handle = t;
      handle.copy_(target);
    }
  };
  if (t.dtype() == DType::f64) {
    run(TypeTag<double>{});
  } else {
    run(TypeTag<float>{});
  }
  return t;
}

struct Fans {
  double in = 0, out = 0;
};

Fans fans(const char* op, const Tensor& t) {
  CT_CHECK(t.dim() >= 2, ShapeError, op, "got ", describe(t), "; fan_in and fan_out need at least 2 axes");
  double field = 1;
  for (int i = 2; i < t.dim(); ++i) field *= static_cast<double>(t.shape()[i]);
  return {static_cast<double>(t.shape()[1]) * field, static_cast<double>(t.shape()[0]) * field};
}

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

const Tensor& uniform_as(const char* op, const Tensor& t, double low, double high) {
  CT_CHECK(low <= high && std::isfinite(high - low), ValueError, op, "got the bounds ", low, " and ", high,
           "; they must be finite, and the first not above the second");
  const GeneratorState state = draw(op);
  return fill_with(op, t, [=]<class T>(std::int64_t first, std::span<T> out) {
    fill_uniform(state, static_cast<std::uint64_t>(first), static_cast<std::int64_t>(out.size()), out.data());
    const T scale = static_cast<T>(high - low), shift = static_cast<T>(low);
    for (T& v : out) v = v * scale + shift;
  });
}

const Tensor& normal_as(const char* op, const Tensor& t, double mean, double std) {
  ct::detail::check_finite(op, "mean", mean);
  ct::detail::check_not_negative(op, "std", std);
  const GeneratorState state = draw(op);
  return fill_with(op, t, [=]<class T>(std::int64_t first, std::span<T> out) {
    fill_normal(state, static_cast<std::uint64_t>(first), static_cast<std::int64_t>(out.size()), out.data());
    const T scale = static_cast<T>(std), shift = static_cast<T>(mean);
    for (T& v : out) v = v * scale + shift;
  });
}

double kaiming_scale(const char* op, const Tensor& t, const KaimingOptions& options) {
  ct::detail::check_finite(op, "a", options.a);
  const Fans f = fans(op, t);
  const double fan = options.mode == FanMode::fan_in ? f.in : f.out;
  return fan > 0 ? gain(options.nonlinearity, options.a) / std::sqrt(fan) : 0;
}

double xavier_scale(const char* op, const Tensor& t, double gain) {
  ct::detail::check_not_negative(op, "gain", gain);
  const Fans f = fans(op, t);
  return f.in + f.out > 0 ? gain * std::sqrt(2 / (f.in + f.out)) : 0;
}

// Makes the rows of a matrix in f64 orthonormal, by Gram and Schmidt: of each row remains what the rows before it do not
// span. A block at a time, so that most of the work is products; and twice, since one pass loses digits.
void orthonormalize(const Tensor& matrix) {
  constexpr std::int64_t kBlock = 32;
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

}  // namespace

Skip::Skip() : previous_(t_skip) { t_skip = true; }
Skip::~Skip() { t_skip = previous_; }

double gain(Nonlinearity nonlinearity, double a) {
  switch (nonlinearity) {
    case Nonlinearity::tanh: return 5.0 / 3;
    case Nonlinearity::relu: return std::numbers::sqrt2;
    case Nonlinearity::leaky_relu: return std::sqrt(2 / (1 + a * a));
    case Nonlinearity::selu: return 0.75;
    default: return 1;
  }
}

const Tensor& constant_(const Tensor& t, double value) {
  return fill_with("constant_", t, [=]<class T>(std::int64_t, std::span<T> out) {
    std::fill(out.begin(), out.end(), static_cast<T>(value));
  });
}

const Tensor& uniform_(const Tensor& t, double low, double high) {
  return uniform_as("uniform_", t, low, high);
}
const Tensor& normal_(const Tensor& t, double mean, double std) { return normal_as("normal_", t, mean, std); }

const Tensor& trunc_normal_(const Tensor& t, double mean, double std, double low, double high) {
  ct::detail::check_finite("trunc_normal_", "mean", mean);
  CT_CHECK(std > 0 && std::isfinite(std) && low < high, ValueError, "trunc_normal_", "got std ", std,
           " and the bounds ", low, ", ", high,
           "; std must be finite and > 0, and the first bound below the second");
  const double from = (low - mean) / std, to = (high - mean) / std;
  const bool mirrored = to < -37;
  const GeneratorState state = draw("trunc_normal_");
  return fill_with("trunc_normal_", t, [=]<class T>(std::int64_t first, std::span<T> out) {
    fill_uniform(state, static_cast<std::uint64_t>(first), static_cast<std::int64_t>(out.size()), out.data());
    for (T& v : out) {
      const auto share = static_cast<double>(v);
      const double x = mean + std * (mirrored ? -between(-to, -from, 1 - share) : between(from, to, share));
      v = static_cast<T>(std::clamp(x, low, high));
    }
  });
}

const Tensor& xavier_uniform_(const Tensor& t, double gain) {
  const double bound = std::sqrt(3.0) * xavier_scale("xavier_uniform_", t, gain);
  return uniform_as("xavier_uniform_", t, -bound, bound);
}

const Tensor& xavier_normal_(const Tensor& t, double gain) {
  return normal_as("xavier_normal_", t, 0, xavier_scale("xavier_normal_", t, gain));
}

const Tensor& kaiming_uniform_(const Tensor& t, KaimingOptions options) {
  const double bound = std::sqrt(3.0) * kaiming_scale("kaiming_uniform_", t, options);
  return uniform_as("kaiming_uniform_", t, -bound, bound);
}

const Tensor& kaiming_normal_(const Tensor& t, KaimingOptions options) {
  return normal_as("kaiming_normal_", t, 0, kaiming_scale("kaiming_normal_", t, options));
}

const Tensor& orthogonal_(const Tensor& t, double gain) {
  CT_CHECK(t.dim() >= 2, ShapeError, "orthogonal_", "got ", describe(t), "; at least 2 axes are needed");
  CT_CHECK(is_floating(t.dtype()), DTypeError, "orthogonal_", "got ", describe(t),
           "; a floating dtype is needed");
  ct::detail::check_finite("orthogonal_", "gain", gain);
  if (t.numel() == 0 || t_skip) return t;
  const NoGrad guard;
  const std::int64_t rows = t.shape()[0], columns = t.numel() / rows;
  const Tensor normal = Tensor::allocate({std::max(rows, columns), std::min(rows, columns)}, DType::f64, cpu);
  fill_normal(draw("orthogonal_"), 0, normal.numel(), normal.data<double>());
  Tensor q = normal.t().contiguous();
  orthonormalize(q);
  if (rows > columns) q = q.t().contiguous();
  return fill_with("orthogonal_", t, [&]<class T>(std::int64_t first, std::span<T> out) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<T>(gain * q.data<double>()[first + static_cast<std::int64_t>(i)]);
  });
}

}  // namespace ct::nn::init
