#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/elementwise/where.h>

namespace ct {

class Expr;
namespace detail {
struct ExprAccess;
}

/// A value in a formula that is given to fuse(): a number of each element. It has the operators of tensors and their functions
/// element by element, with numbers on either side, but neither shape nor values: tensors other than the arguments are passed
/// as further arguments.
class Expr {
 public:
  /// The same in another dtype: a floating one, rounded to it, or bool.
  Expr to(DType dtype) const { return Expr(tensor_.to(dtype)); }

#define CT_EXPR_OPERATOR(symbol)                        \
  template <class A, class B>                           \
  friend Expr operator symbol(const A& a, const B& b) { \
    return Expr(of(a) symbol of(b));                    \
  }
  CT_EXPR_OPERATOR(+)
  CT_EXPR_OPERATOR(-)
  CT_EXPR_OPERATOR(*)
  CT_EXPR_OPERATOR(/)
  CT_EXPR_OPERATOR(<)
  CT_EXPR_OPERATOR(<=)
  CT_EXPR_OPERATOR(>)
  CT_EXPR_OPERATOR(>=)
#undef CT_EXPR_OPERATOR
  friend Expr operator-(const Expr& x) { return Expr(-x.tensor_); }
  friend Expr operator!(const Expr& x) { return Expr(!x.tensor_); }

  // Each is the function of that name with tensors in place of expressions (ops/elementwise).
#define CT_EXPR_FUNCTION(name)       \
  template <class... A>              \
  friend Expr name(const A&... a) {  \
    return Expr(ct::name(of(a)...)); \
  }
#define CT_EXPR_FUNCTIONS(each)                                                                           \
  each(neg) each(abs) each(sign) each(exp) each(log) each(sqrt) each(rsqrt) each(square) each(reciprocal) \
      each(sin) each(cos) each(tanh) each(sigmoid) each(relu) each(leaky_relu) each(gelu) each(silu)      \
          each(softplus) each(erf) each(erfc) each(log1p) each(expm1) each(log2) each(log10) each(exp2)   \
              each(tan) each(asin) each(acos) each(atan) each(sinh) each(cosh) each(asinh) each(acosh)    \
                  each(atanh) each(floor) each(ceil) each(round) each(trunc) each(isnan) each(isinf)      \
                      each(isfinite) each(nan_to_num) each(elu) each(selu) each(hardtanh) each(relu6)     \
                          each(hardsigmoid) each(hardswish) each(mish) each(softsign) each(logsigmoid)    \
                              each(clamp) each(add) each(sub) each(mul) each(div) each(pow) each(maximum) \
                                  each(minimum) each(fmod) each(remainder) each(floor_divide) each(atan2) \
                                      each(hypot) each(xlogy) each(lerp) each(addcmul) each(addcdiv)      \
                                          each(eq) each(ne) each(lt) each(le) each(gt) each(ge)           \
                                              each(isclose) each(logical_and) each(logical_or)            \
                                                  each(logical_xor) each(logical_not) each(where)
  CT_EXPR_FUNCTIONS(CT_EXPR_FUNCTION)
#undef CT_EXPR_FUNCTIONS
#undef CT_EXPR_FUNCTION

 private:
  friend struct detail::ExprAccess;
  explicit Expr(Tensor tensor) : tensor_(std::move(tensor)) {}
  static const Tensor& of(const Expr& x) { return x.tensor_; }
  template <class T>
  static const T& of(const T& other) {
    static_assert(!std::is_same_v<T, Tensor>, "a tensor in a fused formula: pass it as a further argument");
    return other;
  }
  Tensor tensor_;  // of one element: it stands for the value while the formula is read
};

namespace detail {
struct ExprAccess {
  static Expr expr(const Tensor& t) { return Expr(t); }
  static const Tensor& tensor(const Expr& x) { return x.tensor_; }
};
using FormulaFn = std::function<void(std::span<const Tensor> inputs, std::span<Tensor> results)>;
struct FusedState;
CT_API std::shared_ptr<FusedState> make_fused(std::size_t inputs, std::size_t outputs, FormulaFn formula);
CT_API void call_fused(FusedState& state, std::span<const Tensor* const> inputs, std::span<Tensor> outputs);
CT_API std::string explain_fused(FusedState& state);

template <std::size_t>
struct Argument {
  using type = const Expr&;
};
template <class F, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return std::is_invocable_v<F&, typename Argument<I>::type...>;
}
// The least number of expressions that F takes; 0 for more than 24.
template <class F, std::size_t count = 1>
constexpr std::size_t arity() {
  if constexpr (count > 24)
    return 0;
  else if constexpr (takes<F>(std::make_index_sequence<count>()))
    return count;
  else
    return arity<F, count + 1>();
}
template <class R>
inline constexpr std::size_t kResults = 0;
template <>
inline constexpr std::size_t kResults<Expr> = 1;
template <std::size_t n>
inline constexpr std::size_t kResults<std::array<Expr, n>> = n;
}  // namespace detail

/// A formula of kInputs tensors as one op: fuse() makes it. Copies share what was compiled.
template <std::size_t kInputs, std::size_t kOutputs>
class Fused {
 public:
  explicit Fused(std::shared_ptr<detail::FusedState> state) : state_(std::move(state)) {}

  /// The formula's result for tensors that broadcast, or an array of its results.
  template <class... T>
  requires(sizeof...(T) == kInputs && (std::is_base_of_v<Tensor, T> && ...)) auto operator()(
      const T&... tensors) const {
    const Tensor* const inputs[] = {&static_cast<const Tensor&>(tensors)...};
    std::array<Tensor, kOutputs> outputs;
    detail::call_fused(*state_, inputs, outputs);
    if constexpr (kOutputs == 1)
      return std::move(outputs[0]);
    else
      return outputs;
  }
  /// Account of the calls so far: for each combination of dtypes its steps, the passes over memory and the bytes of an
  /// element, beside those of the ops one by one, forward and for the gradients that were asked for.
  std::string explain() const { return detail::explain_fused(*state_); }

 private:
  std::shared_ptr<detail::FusedState> state_;
};

/// Makes one op of a formula:
///
///     auto f = ct::fuse([](auto x, auto b) { return gelu(x + b); });
///     ct::Tensor y = f(x, b);
///
/// y and, in backward, all gradients are one pass over memory each, on either device: intermediate values stay in the caches
/// of the CPU, or in the registers of the GPU, and are computed again for the gradients, not kept. Gradients of gradients, jvp
/// and Autocast work. The formula takes 1 to 24 expressions (Expr) and returns one, or a std::array of up to 4 of one shape. It
/// is called at the first call with each combination of dtypes: what it captures is read then, so a number that changes is
/// passed as a tensor of rank 0.
///
/// Results have the dtypes that the ops give one by one; f32 and f64 have their bits on the CPU. 16 bits are computed in f32 and
/// rounded once, at the end. A GPU without NVRTC runs the ops one by one.
///
/// Calls throw ShapeError for tensors that do not broadcast, or results of several shapes, DTypeError for integers, ValueError
/// for more than 64 steps, for an argument that the formula does not use, and for the 4097th formula of a program, and what
/// the formula's functions throw.
template <class F>
auto fuse(F&& formula) {
  using Formula = std::decay_t<F>;
  constexpr std::size_t inputs = detail::arity<Formula>();
  static_assert(inputs > 0,
                "a formula takes 1 to 24 expressions: fuse([](auto x, auto b) { return x + b; })");
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    using Result = std::decay_t<std::invoke_result_t<Formula&, typename detail::Argument<I>::type...>>;
    constexpr std::size_t outputs = detail::kResults<Result>;
    static_assert(outputs >= 1 && outputs <= 4,
                  "a formula returns an expression, or a std::array of up to 4");
    return Fused<inputs, outputs>(detail::make_fused(
        inputs, outputs,
        [formula = std::forward<F>(formula)](std::span<const Tensor> in, std::span<Tensor> out) mutable {
          const Result results = formula(detail::ExprAccess::expr(in[I])...);
          if constexpr (outputs == 1 && std::is_same_v<Result, Expr>)
            out[0] = detail::ExprAccess::tensor(results);
          else
            for (std::size_t k = 0; k < outputs; ++k) out[k] = detail::ExprAccess::tensor(results[k]);
        }));
  }
  (std::make_index_sequence<inputs>());
}

}  // namespace ct
