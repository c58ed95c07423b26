#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cotangent/autograd/function.h>
#include <cotangent/autograd/node.h>
#include <cotangent/core/base/export.h>

namespace ct {

struct FunctionContext::Kept {
  SavedTensor tensor;
  Edge edge;  // where it stands on the tape; of an output only while a recorded backward runs
  std::int64_t output = -1;
};

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
  bool takes_undefined_grads() const override { return takes_undefined_; }
  /// Whether backward is to get missing cotangents as undefined tensors, and not as zeros.
  void take_undefined_grads(bool value) { takes_undefined_ = value; }

 private:
  FunctionContext context_;
  FunctionBackward backward_;
  std::vector<TensorMeta> input_metas_;
  std::vector<TensorMeta> output_metas_;
  bool released_ = false;
  bool takes_undefined_ = false;
};

namespace detail {
CT_API bool any_requires_grad(const std::vector<Tensor>& tensors);
}  // namespace detail

}  // namespace ct
