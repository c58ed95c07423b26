#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

// Are gradients right? Central differences, of first and second order. Link Cotangent::testing.

namespace ct {

struct GradcheckOptions {
  /// Half the width of the central difference. With f64 inputs of magnitude 1 the difference is good to about
  /// eps^2 (truncation) and 1e-16/eps (rounding): at 1e-6 to 1e-10, at 5e-6, where the two balance, to 1e-11.
  double eps = 1e-6;
  double atol = 1e-7;
  double rtol = 1e-6;
  /// Seed of the random cotangents.
  std::uint64_t seed = 1;
  /// Elements checked per input; larger inputs are checked at that many places spread over them.
  std::int64_t max_elements = 256;
  /// Runs on the GPU as well if there is one (inputs on the CPU are copied there).
  bool all_devices = true;
};

/// The result of gradcheck: true if every derivative agreed, else the first that did not, in words.
struct GradcheckResult {
  bool ok = true;
  std::string message;
  explicit operator bool() const { return ok; }
};

using GradcheckFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Compares the gradients that backward() computes with central differences
///     dL/dx_i ~ (L(x + eps e_i) - L(x - eps e_i)) / (2 eps),   L = sum_k <c_k, f_k(x)>
/// for random cotangents c_k, so that symmetric mistakes can't cancel. Inputs that are f64 are checked, at
/// any strides; others (indices, masks) are passed on as they are. `f` must be deterministic. Throws
/// DTypeError if no input is f64 (other floating dtypes are too coarse for differences).
CT_API GradcheckResult gradcheck(const GradcheckFunction& f, const std::vector<Tensor>& inputs,
                                 const GradcheckOptions& options = {});

/// Compares second derivatives with central differences: gradcheck() of the function that maps the inputs and
/// cotangents of f's outputs to f's gradients. It holds the rules of the ops (OpDef::rule) to the truth. Throws
/// as gradcheck(), and AutogradError where f contains an op without a rule.
CT_API GradcheckResult gradgradcheck(const GradcheckFunction& f, const std::vector<Tensor>& inputs,
                                     const GradcheckOptions& options = {});

namespace detail {
template <class F, std::size_t... I>
Tensor call_unpacked(F& f, const std::vector<Tensor>& in, std::index_sequence<I...>) {
  return f(in[I]...);
}
template <std::size_t N, class F>
GradcheckFunction unpacked(F f) {
  return [f](const std::vector<Tensor>& in) mutable {
    return std::vector<Tensor>{call_unpacked(f, in, std::make_index_sequence<N>())};
  };
}
// A function of a vector of tensors to one, or of one to four tensors, as one from vector to vector.
template <class F>
GradcheckFunction as_gradcheck_function(F f) {
  using T = const Tensor&;
  if constexpr (std::is_invocable_r_v<Tensor, F&, const std::vector<Tensor>&>)
    return [f](const std::vector<Tensor>& in) mutable { return std::vector<Tensor>{f(in)}; };
  else if constexpr (std::invocable<F, T>)
    return unpacked<1>(f);
  else if constexpr (std::invocable<F, T, T>)
    return unpacked<2>(f);
  else if constexpr (std::invocable<F, T, T, T>)
    return unpacked<3>(f);
  else
    return unpacked<4>(f);
}
}  // namespace detail

/// The same for a function as value_and_grad() takes it, of a vector of tensors or of one to one tensor, and for one of
/// up to four: `gradcheck(swish, x)`, `gradcheck(swish, {x})`, `gradcheck([](auto& a, auto& b)
/// {...}, {a, b})`. A lambda of one tensor names its type, `[](const Tensor& x) {...}`: one of `auto` would
/// also be tried with a vector of tensors.
template <class F>
requires(!std::convertible_to<F, GradcheckFunction>) GradcheckResult
    gradcheck(F f, const std::vector<Tensor>& inputs, const GradcheckOptions& options = {}) {
  return gradcheck(detail::as_gradcheck_function(f), inputs, options);
}
template <class F>
requires(!std::convertible_to<F, GradcheckFunction>) GradcheckResult
    gradgradcheck(F f, const std::vector<Tensor>& inputs, const GradcheckOptions& options = {}) {
  return gradgradcheck(detail::as_gradcheck_function(f), inputs, options);
}
template <class F, detail::OneTensor X>
GradcheckResult gradcheck(F f, const X& x, const GradcheckOptions& options = {}) {
  return gradcheck(std::move(f), std::vector<Tensor>{x}, options);
}
template <class F, detail::OneTensor X>
GradcheckResult gradgradcheck(F f, const X& x, const GradcheckOptions& options = {}) {
  return gradgradcheck(std::move(f), std::vector<Tensor>{x}, options);
}

}  // namespace ct
