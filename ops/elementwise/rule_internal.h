#pragma once

#include <cmath>
#include <utility>
#include <variant>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/engine/map/binary.h>
#include <cotangent/ops/rules_internal.h>

// The gradient formulas of the tables, evaluated on tensors instead of numbers: that is the rule of such an
// op, whose result is on the tape and can be differentiated again.

namespace ct::map {

// Tensor and number in either order, for functions that want the tensor first.
inline Tensor equal_of(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor equal_of(const Tensor& a, const ct::Scalar& b) { return eq(a, b); }
inline Tensor equal_of(const ct::Scalar& a, const Tensor& b) { return eq(b, a); }
inline Tensor unequal_of(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor unequal_of(const Tensor& a, const ct::Scalar& b) { return ne(a, b); }
inline Tensor unequal_of(const ct::Scalar& a, const Tensor& b) { return ne(b, a); }

/// A number of a formula (see engine/map/formulas.h) that is a whole tensor, or one number until it
/// meets a tensor.
class Symbol {
 public:
  using Scalar = double;

  Symbol(double number) : value_(number) {}
  explicit Symbol(Tensor tensor) : value_(std::move(tensor)) {}

  bool is_number() const { return std::holds_alternative<double>(value_); }
  double number() const { return std::get<double>(value_); }
  const Tensor& tensor() const { return std::get<Tensor>(value_); }

  /// f of a tensor, or of the number where there is no tensor yet.
  template <class F, class N>
  static Symbol map(const Symbol& x, F&& f, N&& of_number) {
    return x.is_number() ? Symbol(of_number(x.number())) : Symbol(f(x.tensor()));
  }
  /// f(a, b) of tensors, or of a tensor and a number on either side.
  template <class F, class N>
  static Symbol join(const Symbol& a, const Symbol& b, F&& f, N&& of_numbers) {
    if (a.is_number() && b.is_number()) return Symbol(of_numbers(a.number(), b.number()));
    if (a.is_number()) return Symbol(f(ct::Scalar(a.number()), b.tensor()));
    if (b.is_number()) return Symbol(f(a.tensor(), ct::Scalar(b.number())));
    return Symbol(f(a.tensor(), b.tensor()));
  }

 private:
  std::variant<double, Tensor> value_;
};

#define CT_SYMBOL_OPERATOR(symbol)                                             \
  inline Symbol operator symbol(const Symbol& a, const Symbol& b) {            \
    return Symbol::join(                                                       \
        a, b, [](const auto& x, const auto& y) { return Tensor(x symbol y); }, \
        [](double x, double y) { return x symbol y; });                        \
  }
CT_SYMBOL_OPERATOR(+)
CT_SYMBOL_OPERATOR(-)
CT_SYMBOL_OPERATOR(*)
CT_SYMBOL_OPERATOR(/)
CT_SYMBOL_OPERATOR(<)
CT_SYMBOL_OPERATOR(<=)
CT_SYMBOL_OPERATOR(>)
CT_SYMBOL_OPERATOR(>=)
#undef CT_SYMBOL_OPERATOR

inline Symbol operator==(const Symbol& a, const Symbol& b) {
  return Symbol::join(
      a, b, [](const auto& x, const auto& y) { return equal_of(x, y); },
      [](double x, double y) { return x == y; });
}
inline Symbol operator!=(const Symbol& a, const Symbol& b) {
  return Symbol::join(
      a, b, [](const auto& x, const auto& y) { return unequal_of(x, y); },
      [](double x, double y) { return x != y; });
}
inline Symbol operator&(const Symbol& a, const Symbol& b) {
  if (a.is_number()) return a.number() != 0 ? b : a;
  if (b.is_number()) return b.number() != 0 ? a : b;
  return Symbol(logical_and(a.tensor(), b.tensor()));
}
inline Symbol operator|(const Symbol& a, const Symbol& b) {
  if (a.is_number()) return a.number() != 0 ? a : b;
  if (b.is_number()) return b.number() != 0 ? b : a;
  return Symbol(logical_or(a.tensor(), b.tensor()));
}
inline Symbol operator-(const Symbol& x) {
  return Symbol::map(
      x, [](const Tensor& t) { return neg(t); }, [](double v) { return -v; });
}

#define CT_SYMBOL_FUNCTION(name, of_tensor, of_number)                                     \
  inline Symbol name(const Symbol& x) {                                                    \
    return Symbol::map(                                                                    \
        x, [](const Tensor& t) { return of_tensor; }, [](double t) { return of_number; }); \
  }
CT_SYMBOL_FUNCTION(abs, ct::abs(t), std::fabs(t))
CT_SYMBOL_FUNCTION(sign, ct::sign(t), double(t > 0) - double(t < 0))
CT_SYMBOL_FUNCTION(exp, ct::exp(t), std::exp(t))
CT_SYMBOL_FUNCTION(log, ct::log(t), std::log(t))
CT_SYMBOL_FUNCTION(sin, ct::sin(t), std::sin(t))
CT_SYMBOL_FUNCTION(cos, ct::cos(t), std::cos(t))
CT_SYMBOL_FUNCTION(sigmoid, ct::sigmoid(t), 1 / (1 + std::exp(-t)))
CT_SYMBOL_FUNCTION(log1p, ct::log1p(t), std::log1p(t))
CT_SYMBOL_FUNCTION(erfc, ct::erfc(t), std::erfc(t))
CT_SYMBOL_FUNCTION(rsqrt, ct::rsqrt(t), 1 / std::sqrt(t))
CT_SYMBOL_FUNCTION(sinh, ct::sinh(t), std::sinh(t))
CT_SYMBOL_FUNCTION(rint, ct::round(t), std::nearbyint(t))
CT_SYMBOL_FUNCTION(cosh, ct::cosh(t), std::cosh(t))
#undef CT_SYMBOL_FUNCTION
/// e^(-x^2 / 2)
inline Symbol gauss(const Symbol& x) { return exp(-0.5 * (x * x)); }
inline Symbol quotient(const Symbol& a, const Symbol& b) { return a / b; }
inline Symbol pow(const Symbol& a, const Symbol& b) {
  return Symbol::join(
      a, b, [](const auto& x, const auto& y) { return ct::pow(x, y); },
      [](double x, double y) { return std::pow(x, y); });
}
#define CT_SYMBOL_FUNCTION(name, of_numbers)                               \
  inline Symbol name(const Symbol& a, const Symbol& b) {                   \
    return Symbol::join(                                                   \
        a, b, [](const auto& x, const auto& y) { return ct::name(x, y); }, \
        [](double x, double y) { return of_numbers; });                    \
  }
CT_SYMBOL_FUNCTION(hypot, std::hypot(x, y))
CT_SYMBOL_FUNCTION(fmod, std::fmod(x, y))
CT_SYMBOL_FUNCTION(floor_divide, std::floor(x / y))
#undef CT_SYMBOL_FUNCTION
inline Symbol where(const Symbol& condition, const Symbol& a, const Symbol& b) {
  if (condition.is_number()) return condition.number() != 0 ? a : b;
  return Symbol::join(
      a, b, [&](const auto& x, const auto& y) { return ct::where(condition.tensor(), x, y); },
      [&](double x, double y) -> Symbol {
        if (x == y) return x;
        const Tensor& chosen = condition.tensor();
        CT_CHECK(static_cast<float>(x) == x && static_cast<float>(y) == y, Error, "where",
                 "a rule chooses between ", x, " and ", y,
                 ", which f32 does not hold; choose between tensors");
        return Symbol(ct::where(chosen, x, full({}, y, {.dtype = DType::f32, .device = chosen.device()})));
      });
}

/// A formula's result, in the shape of `like`.
inline Tensor tensor_of(const Symbol& result, const Tensor& like) {
  return result.is_number() ? full_like(like, result.number()) : result.tensor();
}

/// The rule of a table's op of one input.
template <class F>
void unary_rule(const Backward& b) {
  if (!b.needs(0)) return;
  const Parameters parameters = parameters_of(b.attrs_view);
  const Symbol g(b.grad()), p(parameters.p.to<double>()), q(parameters.q.to<double>());
  if constexpr (F::kSaved == Saved::none) {
    b.set_grad_in(0, tensor_of(F::eval(g, p, q), b.grad()));
  } else {
    const Symbol saved(F::kSaved == Saved::x ? b.in(0) : b.out());
    b.set_grad_in(0, tensor_of(F::eval(g, saved, p, q), b.grad()));
  }
}

/// The gradient of operand i of a table's op of two or three, by formula F.
template <class F>
void operand_rule(const Backward& b, int i) {
  if (!b.needs(i)) return;
  const Parameters parameters = parameters_of(b.attrs_view);
  const Shape& shape = b.in_meta(i).shape;
  // Linear in g alone: summed first, as kernels do.
  const Tensor cotangent = F::kSaves == 0 ? rules::unbroadcast(b.grad(), shape) : b.grad();
  const Symbol g(cotangent), p(parameters.p.to<double>()), q(parameters.q.to<double>());
  Symbol saved[] = {0, 0};
  int count = 0;
  for (int k = 0; k < 3; ++k)
    if (F::kSaves >> k & 1u) saved[count++] = Symbol(b.in(k));
  const auto result = [&]() -> Symbol {
    if constexpr (F::kInputs == 1)
      return F::eval(g, p, q);
    else if constexpr (F::kInputs == 2)
      return F::eval(g, saved[0], p, q);
    else
      return F::eval(g, saved[0], saved[1], p, q);
  };
  b.set_grad_in(i, rules::unbroadcast(tensor_of(result(), cotangent), shape));
}
/// The rule of an op whose backward kernel is joint_backward_cpu<F>.
template <class F>
void joint_rule(const Backward& b) {
  const Parameters parameters = parameters_of(b.attrs_view);
  const Symbol g(b.grad()), p(parameters.p.to<double>()), q(parameters.q.to<double>());
  [&]<int... i>(std::integer_sequence<int, i...>) {
    const auto gradients = F::eval(g, Symbol(b.in(i))..., p, q);
    for (int k = 0; k < F::kOutputs; ++k)
      if (b.needs(k))
        b.set_grad_in(k, rules::unbroadcast(tensor_of(gradients.of[k], b.grad()), b.in_meta(k).shape));
  }
  (std::make_integer_sequence<int, F::kInputs - 1>());
}

/// The rule of a table's op of two or three inputs.
template <class... D>
void operands_rule(const Backward& b) {
  int i = 0;
  (operand_rule<D>(b, i++), ...);
}

}  // namespace ct::map
