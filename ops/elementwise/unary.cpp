#include <cotangent/ops/elementwise/unary.h>

#include <cmath>
#include <string_view>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/rule_internal.h>
#include <cotangent/ops/elementwise/unary_formulas_internal.h>
#include <cotangent/ops/engine/map/op.h>
#include <cotangent/ops/engine/walk/copy.h>

namespace ct {
#define CT_UNARY(name, text, types, saved, samples, y, dx) CT_KERNEL_TABLES(name)
#include <cotangent/ops/elementwise/unary_table.inc>
namespace {

using namespace map;

// ---- Definitions ----------------------------------------------------------------------------------------

// Ops that Autocast runs in f32: in 16 bits their results or gradients overflow or lose too many digits (PyTorch's list).
consteval AutocastPolicy autocast_policy(std::string_view name) {
  for (const std::string_view steep :
       {"exp", "log", "rsqrt", "square", "cube", "reciprocal", "softplus", "log1p", "expm1", "log2", "log10",
        "exp2", "tan", "asin", "acos", "sinh", "cosh"})
    if (name == steep) return AutocastPolicy::f32;
  return AutocastPolicy::promote;
}

}  // namespace

namespace elementwise::unary {
#define CT_UNARY(name, text, types, saved, samples, y, dx)                                                 \
  extern constexpr OpDef k_##name =                                                                        \
      define_row(#name, text, types, unary_inputs(Saved::saved), false, infer_unary, &kernel_tables::name, \
                 unary_rule<formulas::name##_dx>, autocast_policy(#name), false);
#include <cotangent/ops/elementwise/unary_table.inc>
}  // namespace elementwise::unary

namespace rooms {
namespace {
constexpr const OpDef* unary_ops[] = {
#define CT_UNARY(name, text, types, saved, samples, y, dx) &ct::elementwise::unary::k_##name,
#include <cotangent/ops/elementwise/unary_table.inc>
};
}  // namespace
extern const Room unary;
const Room unary{"unary", unary_ops};
}  // namespace rooms

// ---- Functions ------------------------------------------------------------------------------------------

#define CT_PLAIN(name)                                                                 \
  Tensor name(const Tensor& x) { return dispatch(elementwise::unary::k_##name, {x}); } \
  Tensor Tensor::name() const { return ct::name(*this); }
CT_PLAIN(neg)
CT_PLAIN(abs)
CT_PLAIN(sign)
CT_PLAIN(exp)
CT_PLAIN(log)
CT_PLAIN(sqrt)
CT_PLAIN(rsqrt)
CT_PLAIN(square)
CT_PLAIN(reciprocal)
CT_PLAIN(sin)
CT_PLAIN(cos)
CT_PLAIN(tanh)
CT_PLAIN(sigmoid)
CT_PLAIN(relu)
CT_PLAIN(silu)
CT_PLAIN(erf)
CT_PLAIN(erfc)
CT_PLAIN(log1p)
CT_PLAIN(expm1)
CT_PLAIN(log2)
CT_PLAIN(log10)
CT_PLAIN(exp2)
CT_PLAIN(tan)
CT_PLAIN(asin)
CT_PLAIN(acos)
CT_PLAIN(atan)
CT_PLAIN(sinh)
CT_PLAIN(cosh)
CT_PLAIN(asinh)
CT_PLAIN(acosh)
CT_PLAIN(atanh)
CT_PLAIN(floor)
CT_PLAIN(ceil)
CT_PLAIN(round)
CT_PLAIN(trunc)
CT_PLAIN(selu)
CT_PLAIN(hardsigmoid)
CT_PLAIN(hardswish)
CT_PLAIN(mish)
CT_PLAIN(softsign)
CT_PLAIN(logsigmoid)
#undef CT_PLAIN

#define CT_IN_PLACE(name)                                                                      \
  Tensor& name##_(Tensor& x) { return dispatch_inplace(elementwise::unary::k_##name, x, {}); } \
  Tensor& Tensor::name##_() { return ct::name##_(*this); }
CT_IN_PLACE(neg)
CT_IN_PLACE(abs)
CT_IN_PLACE(exp)
CT_IN_PLACE(log)
CT_IN_PLACE(sqrt)
CT_IN_PLACE(rsqrt)
CT_IN_PLACE(square)
CT_IN_PLACE(reciprocal)
CT_IN_PLACE(tanh)
CT_IN_PLACE(sigmoid)
CT_IN_PLACE(relu)
#undef CT_IN_PLACE

Tensor leaky_relu(const Tensor& x, double slope) {
  detail::check_finite("leaky_relu", "slope", slope);
  return dispatch(elementwise::unary::k_leaky_relu, {x}, Parameters{slope, 0});
}

Tensor elu(const Tensor& x, double alpha) {
  detail::check_finite("elu", "alpha", alpha);
  return dispatch(elementwise::unary::k_elu, {x}, Parameters{alpha, 0});
}

Tensor hardtanh(const Tensor& x, double low, double high) {
  CT_CHECK(low <= high, ValueError, "hardtanh", "the bounds are ", low, " and ", high,
           "; they must be numbers, the lower one first");
  return dispatch(elementwise::unary::k_hardtanh, {x}, Parameters{low, high});
}
Tensor relu6(const Tensor& x) { return hardtanh(x, 0, 6); }

namespace {
double largest(DType dtype) {
  switch (dtype) {
    case DType::f16: return 65504;
    case DType::bf16: return 0x1.fep127;
    case DType::f32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}
}  // namespace

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  if (x.defined() && !is_floating(x.dtype())) return x.clone();
  const double high = posinf.value_or(largest(x.dtype())), low = neginf.value_or(-largest(x.dtype()));
  const bool gives_nan = std::isnan(high) || std::isnan(low);
  CT_CHECK(!(gives_nan && std::isinf(nan)), ValueError, "nan_to_num",
           "NaN is to become infinite and an infinity NaN; use where() for one of them");
  // A value that one of the two puts in is not replaced by the other.
  const auto without_nan = [&](const Tensor& t) {
    return dispatch(elementwise::unary::k_nan_to_num, {t}, Parameters{nan, 0});
  };
  const auto without_inf = [&](const Tensor& t) {
    return dispatch(elementwise::unary::k_inf_to_num, {t}, Parameters{high, low});
  };
  return gives_nan ? without_inf(without_nan(x)) : without_nan(without_inf(x));
}

Tensor gelu(const Tensor& x, Gelu approximate) {
  return dispatch(approximate == Gelu::tanh ? elementwise::unary::k_gelu_tanh : elementwise::unary::k_gelu,
                  {x});
}

Tensor softplus(const Tensor& x, double beta, double threshold) {
  CT_CHECK(std::isfinite(beta) && beta != 0, ValueError, "softplus", "beta is ", beta,
           "; it must be finite and not 0 (1 is usual)");
  CT_CHECK(!std::isnan(threshold), ValueError, "softplus", "threshold is ", threshold,
           "; it must be a number (20 is usual)");
  return dispatch(elementwise::unary::k_softplus, {x}, Parameters{beta, threshold});
}

namespace {
// A bound that was left out is the end of the range. 16-bit tensors hold the bounds rounded to their dtype,
// and an element that equals the rounded bound counts as inside.
Parameters clamp_bounds(DType dtype, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  CT_CHECK(low || high, ValueError, "clamp", "got neither a lower nor an upper bound; pass one of them");
  for (const auto& bound : {low, high})
    if (bound) {
      CT_CHECK(!std::isnan(bound->to<double>()), ValueError, "clamp",
               "a bound is NaN; leave it out, or pass a number");
      check_fits("clamp", *bound, dtype);
    }
  if (!is_floating(dtype))
    return {low ? *low : Scalar(std::numeric_limits<std::int64_t>::min()),
            high ? *high : Scalar(std::numeric_limits<std::int64_t>::max())};
  const double inf = std::numeric_limits<double>::infinity();
  return {low ? rounded(*low, dtype) : Scalar(-inf), high ? rounded(*high, dtype) : Scalar(inf)};
}
DType clamp_dtype(DType dtype, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  if (low) dtype = promote(dtype, *low);
  return high ? promote(dtype, *high) : dtype;
}
}  // namespace

Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  const DType dtype = clamp_dtype(x.dtype(), low, high);
  const Parameters bounds = clamp_bounds(dtype, low, high);
  if (dtype != x.dtype()) return dispatch(elementwise::unary::k_clamp, {x.to(dtype)}, bounds);
  return dispatch(elementwise::unary::k_clamp, {x}, bounds);
}

Tensor& clamp_(Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  const DType dtype = clamp_dtype(x.dtype(), low, high);
  CT_CHECK(dtype == x.dtype(), DTypeError, "clamp", "a result of dtype ", dtype,
           " can't be written in place into ", describe(x), "; use the out-of-place form or integer bounds");
  return dispatch_inplace(elementwise::unary::k_clamp, x, {}, clamp_bounds(dtype, low, high));
}

CT_MEMBER(Tensor, clamp, (std::optional<Scalar> low, std::optional<Scalar> high) const, low, high)
CT_MEMBER(Tensor&, clamp_, (std::optional<Scalar> low, std::optional<Scalar> high), low, high)

}  // namespace ct
