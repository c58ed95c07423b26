#pragma once

#include <optional>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/scalar.h>
#include <cotangent/core/tensor/tensor.h>

// Functions of one tensor, element by element. The result has the shape of the input, is contiguous and
// differentiable. "floats": f32, f64, f16, bf16 are computed in their precision (16-bit types in f32);
// integers and bool are converted to f32 first. "numbers": integers keep their dtype and wrap around. Other
// dtypes throw DTypeError. NaN gives NaN. Gradients at kinks are those of PyTorch.

namespace ct {

/// -x. Numbers except u8.
CT_API Tensor neg(const Tensor& x);
/// |x|; its gradient at 0 is 0. Numbers.
CT_API Tensor abs(const Tensor& x);
/// -1, 0 or 1; NaN for NaN (NumPy's rule; PyTorch gives 0). The gradient is 0. Numbers.
CT_API Tensor sign(const Tensor& x);
/// e^x. Floats.
CT_API Tensor exp(const Tensor& x);
/// The natural logarithm: -inf at 0, NaN below. Floats.
CT_API Tensor log(const Tensor& x);
/// The square root: NaN below 0; its gradient at 0 is infinite. Floats.
CT_API Tensor sqrt(const Tensor& x);
/// 1 / sqrt(x). Floats.
CT_API Tensor rsqrt(const Tensor& x);
/// x * x. Numbers.
CT_API Tensor square(const Tensor& x);
/// 1 / x. Floats.
CT_API Tensor reciprocal(const Tensor& x);
/// The sine and the cosine of an angle in radians. Floats.
CT_API Tensor sin(const Tensor& x);
CT_API Tensor cos(const Tensor& x);
/// The hyperbolic tangent. Floats.
CT_API Tensor tanh(const Tensor& x);
/// 1 / (1 + e^-x). Floats.
CT_API Tensor sigmoid(const Tensor& x);
/// max(x, 0); its gradient at 0 is 0. Numbers.
CT_API Tensor relu(const Tensor& x);
/// x where x > 0, else slope * x; its gradient at 0 is slope. Floats.
CT_API Tensor leaky_relu(const Tensor& x, double slope = 0.01);

/// Formulas of gelu.
enum class Gelu {
  exact,  ///< x Phi(x), with the normal distribution Phi(x) = (1 + erf(x / sqrt 2)) / 2
  tanh    ///< x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, the form that GPT-2 uses
};
/// The Gaussian error linear unit (Hendrycks and Gimpel, 2016). Floats.
CT_API Tensor gelu(const Tensor& x, Gelu approximate = Gelu::exact);
/// x * sigmoid(x). Floats.
CT_API Tensor silu(const Tensor& x);
/// ln(1 + e^(beta x)) / beta, and x itself where beta x > threshold. Floats. Throws ValueError for beta = 0.
CT_API Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);
/// The error function, 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x. Floats.
CT_API Tensor erf(const Tensor& x);
/// 1 - erf(x), which keeps its digits where erf is near 1. Floats.
CT_API Tensor erfc(const Tensor& x);

/// ln(1 + x) and e^x - 1, exact also near 0. Floats.
CT_API Tensor log1p(const Tensor& x);
CT_API Tensor expm1(const Tensor& x);
/// The logarithms to the bases 2 and 10: -inf at 0, NaN below. Floats.
CT_API Tensor log2(const Tensor& x);
CT_API Tensor log10(const Tensor& x);
/// 2^x. Floats.
CT_API Tensor exp2(const Tensor& x);
/// The tangent of an angle in radians, and the angles that have a sine, cosine or tangent: asin and acos are NaN outside
/// of [-1, 1], and their gradients infinite at its ends. Floats.
CT_API Tensor tan(const Tensor& x);
CT_API Tensor asin(const Tensor& x);
CT_API Tensor acos(const Tensor& x);
CT_API Tensor atan(const Tensor& x);
/// The hyperbolic sine and cosine, and the inverses: acosh is NaN below 1, atanh outside of [-1, 1], infinite at its ends.
/// Floats.
CT_API Tensor sinh(const Tensor& x);
CT_API Tensor cosh(const Tensor& x);
CT_API Tensor asinh(const Tensor& x);
CT_API Tensor acosh(const Tensor& x);
CT_API Tensor atanh(const Tensor& x);

/// The nearest whole number: below, above, either (ties to the even one), or towards 0. The gradient is 0. Numbers.
CT_API Tensor floor(const Tensor& x);
CT_API Tensor ceil(const Tensor& x);
CT_API Tensor round(const Tensor& x);
CT_API Tensor trunc(const Tensor& x);

/// Whether an element is NaN, infinite, or neither. Results are bool, without a gradient. Any dtype.
CT_API Tensor isnan(const Tensor& x);
CT_API Tensor isinf(const Tensor& x);
CT_API Tensor isfinite(const Tensor& x);
/// x with other numbers for NaN, inf and -inf: by default 0 and the largest and the lowest number of the dtype. The
/// gradient is 0 where x was replaced. Integers and bool are copied. Throws ValueError for an infinite `nan` together with
/// a `posinf` or `neginf` that is NaN.
CT_API Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = std::nullopt,
                         std::optional<double> neginf = std::nullopt);

/// x where x > 0, else alpha (e^x - 1) (Clevert et al., 2016); its gradient at 0 is alpha. Floats.
CT_API Tensor elu(const Tensor& x, double alpha = 1);
/// scale elu(x, alpha), with the two numbers under which activations normalise themselves (Klambauer et al., 2017). Floats.
CT_API Tensor selu(const Tensor& x);
/// min(max(x, low), high). Its gradient is 0 at both bounds, where clamp's is 1. Floats. Throws ValueError for bounds that
/// are NaN or cross.
CT_API Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
/// min(max(x, 0), 6); its gradient is 0 at 0 and at 6. Floats.
CT_API Tensor relu6(const Tensor& x);
/// min(max(x + 3, 0), 6) / 6; its gradient is 0 at -3 and at 3. Floats.
CT_API Tensor hardsigmoid(const Tensor& x);
/// x min(max(x + 3, 0), 6) / 6; its gradient is 0 at -3 and 1 at 3. Floats.
CT_API Tensor hardswish(const Tensor& x);
/// x tanh(softplus(x)) (Misra, 2019). Floats.
CT_API Tensor mish(const Tensor& x);
/// x / (1 + |x|). Floats.
CT_API Tensor softsign(const Tensor& x);
/// ln(sigmoid(x)), which does not overflow. Floats.
CT_API Tensor logsigmoid(const Tensor& x);

/// min(max(x, low), high); either bound may be left out, not both (ValueError). Its gradient is 1 from bound
/// to bound, both included, and 0 outside. A floating bound makes an integer tensor f32. Throws ValueError
/// for a bound that is NaN, or that an integer dtype can't hold. Numbers.
CT_API Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high = std::nullopt);

// The same in place. x is changed and returned. Throws DTypeError where the result's dtype is not x's, and
// AutogradError for a leaf that requires a gradient while recording.
CT_API Tensor& neg_(Tensor& x);
CT_API Tensor& abs_(Tensor& x);
CT_API Tensor& exp_(Tensor& x);
CT_API Tensor& log_(Tensor& x);
CT_API Tensor& sqrt_(Tensor& x);
CT_API Tensor& rsqrt_(Tensor& x);
CT_API Tensor& square_(Tensor& x);
CT_API Tensor& reciprocal_(Tensor& x);
CT_API Tensor& tanh_(Tensor& x);
CT_API Tensor& sigmoid_(Tensor& x);
CT_API Tensor& relu_(Tensor& x);
CT_API Tensor& clamp_(Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high = std::nullopt);

/// -x
inline Tensor operator-(const Tensor& x) { return neg(x); }

}  // namespace ct
