#pragma once

#include <concepts>
#include <functional>
#include <utility>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

// Derivatives of functions: f goes in, numbers come out, and no tensor's grad() changes.
//
// Common to all: f maps tensors to one tensor, either a list to a tensor or, where there is one input, a tensor to a tensor.
// It is called with leaves that share the data of `inputs`, whatever history these have, and is recorded also inside of a
// NoGrad. An input that f's result does not depend on has derivatives of 0. Throws DTypeError for an input that is not
// floating, and what f and backward() throw. Tensors that f refers to beside its arguments are constants.

namespace ct {

using TensorsFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// A function's value, and what belongs to each of its inputs.
struct ValueAndGrad {
  Tensor value;
  std::vector<Tensor> gradients;
};

/// f(inputs), a tensor of one element, and its gradients. Throws ShapeError if f gives more than one element.
CT_API ValueAndGrad value_and_grad(const TensorsFunction& f, const std::vector<Tensor>& inputs);

/// f(inputs), and v^T J, where J is the matrix of f's derivatives: the gradients with the cotangent `v`, which has the
/// shape of f(inputs). One backward pass.
CT_API ValueAndGrad vjp(const TensorsFunction& f, const std::vector<Tensor>& inputs, const Tensor& v);

/// A function's value and its derivative in one direction, both of the shape of f(inputs).
struct ValueAndDerivative {
  Tensor value;
  Tensor derivative;
};

/// f(inputs), and J v: how f changes as the inputs go in the directions `v`, one for each of them, of its shape. As
/// v^T J is linear in v, its gradient with respect to v is J^T: two backward passes, for which f's ops need rules
/// (OpDef::rule). Throws ValueError for another number of directions.
CT_API ValueAndDerivative jvp(const TensorsFunction& f, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& v);

/// All derivatives: of input i a tensor of shape f(inputs).shape + inputs[i].shape. A backward pass for each element of
/// the result. Throws ShapeError beyond 8 axes.
CT_API std::vector<Tensor> jacobian(const TensorsFunction& f, const std::vector<Tensor>& inputs);

/// All second derivatives of an f with one element: [i][j] has the shape inputs[i].shape + inputs[j].shape. Needs rules, as
/// jvp() does. Throws ShapeError if f gives more than one element, or beyond 8 axes.
CT_API std::vector<std::vector<Tensor>> hessian(const TensorsFunction& f, const std::vector<Tensor>& inputs);

// ---- The same for functions of one tensor --------------------------------------------------------------
namespace detail {
template <class F>
concept OfOneTensor =
    std::is_invocable_r_v<Tensor, F&, const Tensor&> && !std::is_invocable_v<F&, const std::vector<Tensor>&>;
template <class F>
TensorsFunction of_one(F& f) {
  return [&f](const std::vector<Tensor>& inputs) -> Tensor { return f(inputs[0]); };
}
}  // namespace detail

/// The value and the gradient: `auto [loss, dx] = ct::value_and_grad(f, x);`
template <detail::OfOneTensor F>
std::pair<Tensor, Tensor> value_and_grad(F&& f, const Tensor& x) {
  auto [value, gradients] = value_and_grad(detail::of_one(f), {x});
  return {std::move(value), std::move(gradients[0])};
}
template <detail::OfOneTensor F>
std::pair<Tensor, Tensor> vjp(F&& f, const Tensor& x, const Tensor& v) {
  auto [value, gradients] = vjp(detail::of_one(f), {x}, v);
  return {std::move(value), std::move(gradients[0])};
}
template <detail::OfOneTensor F>
ValueAndDerivative jvp(F&& f, const Tensor& x, const Tensor& v) {
  return jvp(detail::of_one(f), {x}, {v});
}
template <detail::OfOneTensor F>
Tensor jacobian(F&& f, const Tensor& x) {
  return jacobian(detail::of_one(f), {x})[0];
}
template <detail::OfOneTensor F>
Tensor hessian(F&& f, const Tensor& x) {
  return hessian(detail::of_one(f), {x})[0][0];
}

}  // namespace ct
