#pragma once

#include <any>
#include <cstddef>
#include <string>
#include <typeinfo>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

class Node;

/// Carries values from a custom function's forward to its backward.
class CT_API FunctionContext {
 public:
  FunctionContext();
  ~FunctionContext();
  FunctionContext(const FunctionContext&) = delete;
  FunctionContext& operator=(const FunctionContext&) = delete;

  /// Keeps tensors for backward; in-place changes to them are caught. For gradients of gradients keep inputs and
  /// outputs only: intermediate results of forward have no history.
  void save_for_backward(const std::vector<Tensor>& tensors);
  /// The kept tensors, in order.
  std::vector<Tensor> saved() const;
  /// Whether the gradient of input i is wanted.
  bool needs_input_grad(std::size_t i) const { return i < needs_.size() && needs_[i]; }
  /// Anything else that backward wants to know.
  std::any data;

 private:
  friend class FunctionNode;
  struct Kept;
  std::vector<Kept> saved_;
  std::vector<bool> needs_;
  Node* recording_ = nullptr;  // the node whose backward runs and is recorded
  std::string name_;
};

/// The two directions of a custom function.
using FunctionForward = std::vector<Tensor> (*)(FunctionContext&, const std::vector<Tensor>&);
using FunctionBackward = FunctionForward;

namespace detail {
CT_API std::string type_name(const std::type_info& type);
CT_API std::vector<Tensor> apply_function(const std::type_info& type, FunctionForward forward,
                                          FunctionBackward backward, const std::vector<Tensor>& inputs);
}  // namespace detail

/// A function with a backward of the user's own. Derive and give it two static members:
///
///     struct Cube : ct::Function<Cube> {
///       static std::vector<ct::Tensor> forward(ct::FunctionContext& ctx, const std::vector<ct::Tensor>& in);
///       static std::vector<ct::Tensor> backward(ct::FunctionContext& ctx, const std::vector<ct::Tensor>&
///       grads);
///     };
///     ct::Tensor y = Cube::apply({x})[0];
///
/// forward runs without recording; backward returns one gradient per input (undefined = none). It is recorded
/// where gradients of gradients are asked for (create_graph), so it is then to be made of differentiable ops.
template <class Derived>
struct Function {
  static std::vector<Tensor> apply(const std::vector<Tensor>& inputs) {
    const auto forward = [](FunctionContext& context, const std::vector<Tensor>& in) -> std::vector<Tensor> {
      return Derived::forward(context, in);
    };
    return detail::apply_function(typeid(Derived), forward, &Derived::backward, inputs);
  }
};

}  // namespace ct
