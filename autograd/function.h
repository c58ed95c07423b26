#pragma once

#include <any>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/autograd/node.h>

namespace ct {

/// Carries values from a custom function's forward to its backward.
class CT_API FunctionContext {
 public:
  /// Keeps tensors for backward; in-place changes to them are caught. For gradients of gradients keep inputs and
  /// outputs only: what forward computed in between has no history.
  void save_for_backward(const std::vector<Tensor>& tensors);
  /// The kept tensors, in order.
  std::vector<Tensor> saved() const;
  /// Whether the gradient of input i is wanted.
  bool needs_input_grad(std::size_t i) const { return i < needs_.size() && needs_[i]; }
  /// Anything else that backward wants to know.
  std::any data;

 private:
  friend class FunctionNode;
  struct Kept {
    SavedTensor tensor;
    Edge edge;  // where it stands on the tape; of an output only while a recorded backward runs
    std::int64_t output = -1;
  };
  std::vector<Kept> saved_;
  std::vector<bool> needs_;
  Node* recording_ = nullptr;  // the node whose backward runs and is recorded
  std::string name_;
};

using FunctionBackward = std::vector<Tensor> (*)(FunctionContext&, const std::vector<Tensor>&);

/// The node of a custom function.
class CT_API FunctionNode final : public Node {
 public:
  FunctionNode(std::string name, FunctionBackward backward, const std::vector<Tensor>& inputs);
  FunctionContext& context() { return context_; }
  /// Gives the outputs their place on the tape.
  void set_outputs(std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs, const Ref<Node>& self);

  std::string_view name() const override { return context_.name_; }
  const TensorMeta& output_meta(std::uint32_t k) const override { return output_metas_[k]; }
  std::uint32_t output_count() const override { return static_cast<std::uint32_t>(output_metas_.size()); }
  void backward(NodeCall& call) override;
  void release_saved() override;
  std::vector<KeptTensor> kept() const override;
  bool released() const override { return released_; }

 private:
  FunctionContext context_;
  FunctionBackward backward_;
  std::vector<TensorMeta> input_metas_;
  std::vector<TensorMeta> output_metas_;
  bool released_ = false;
};

namespace detail {
CT_API std::string type_name(const std::type_info& type);
CT_API bool any_requires_grad(const std::vector<Tensor>& tensors);
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
    const bool record = grad_enabled() && detail::any_requires_grad(inputs);
    auto node = make_ref<FunctionNode>(detail::type_name(typeid(Derived)), &Derived::backward, inputs);
    std::vector<Tensor> outputs;
    {
      NoGrad guard;
      outputs = Derived::forward(node->context(), inputs);
    }
    if (record) node->set_outputs(outputs, inputs, node);
    return outputs;
  }
};

}  // namespace ct
