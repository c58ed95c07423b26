#include <cotangent/autograd/function_node.h>

#include <cxxabi.h>

#include <cstdlib>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>

namespace ct {

FunctionContext::FunctionContext() = default;
FunctionContext::~FunctionContext() = default;

void FunctionContext::save_for_backward(const std::vector<Tensor>& tensors) {
  saved_.clear();
  for (const Tensor& t : tensors) {
    Kept& kept = saved_.emplace_back();
    if (!t.defined()) continue;
    kept.tensor = SavedTensor(t);
    kept.edge = detail::gradient_edge(t);
  }
}

std::vector<Tensor> FunctionContext::saved() const {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < saved_.size(); ++i) {
    const Kept& kept = saved_[i];
    Tensor& t = tensors.emplace_back();
    if (!kept.tensor.defined()) continue;
    t = kept.tensor.unpack(name_, [&] { return detail::cat("saved tensor ", i); });
    if (!recording_) continue;
    const bool output = kept.output >= 0;
    t = detail::with_history(
        t,
        output ? Edge{Ref<Node>::share(recording_), {}, static_cast<std::uint32_t>(kept.output)} : kept.edge);
  }
  return tensors;
}

FunctionNode::FunctionNode(std::string name, FunctionBackward backward, const std::vector<Tensor>& inputs)
    : backward_(backward) {
  context_.name_ = std::move(name);
  for (const Tensor& t : inputs)
    context_.needs_.push_back(grad_enabled() && t.defined() && t.requires_grad());
}

void FunctionNode::set_outputs(std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                               const Ref<Node>& self) {
  for (const Tensor& t : inputs) {
    input_metas_.push_back(t.defined() ? t.meta() : TensorMeta{});
    edges.emplace_back(detail::gradient_edge(t));
  }
  enter();
  if (anomaly_enabled()) trace = std::make_unique<std::string>(detail::current_call_site());
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    Tensor& out = outputs[k];
    CT_CHECK(out.defined(), AutogradError, name().data(), "forward returned an undefined tensor as output ",
             k, "; return only tensors that were computed");
    output_metas_.push_back(out.meta());
    if (!is_floating(out.dtype())) continue;
    for (FunctionContext::Kept& kept : context_.saved_)
      if (!kept.edge && kept.tensor.holds(out)) kept.output = static_cast<std::int64_t>(k);
    // forward may return an input as it is: its history stays the input's own.
    if (out.requires_grad() || !out.ref().unique()) out = out.detach();
    detail::set_history(out, self, static_cast<std::uint32_t>(k));
  }
}

void FunctionNode::backward(NodeCall& call) {
  CT_CHECK(!released_, AutogradError, "backward", "the saved tensors of '", name(),
           "' have been freed: the tape was walked a second time; pass retain_graph = true to the first "
           "backward()");
  context_.recording_ = call.record ? this : nullptr;
  const std::vector<Tensor> grads = backward_(context_, {call.grads_out.begin(), call.grads_out.end()});
  CT_CHECK(grads.size() == edges.size(), AutogradError, name().data(), "backward returned ", grads.size(),
           " gradients for ", edges.size(), " inputs; return one per input, undefined where there is none");
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!(call.flags[i] & kGradNeeded) || !grads[i].defined()) continue;
    CT_CHECK(grads[i].shape() == input_metas_[i].shape, ShapeError, name().data(), "backward returned ",
             describe(grads[i]), " as the gradient of input ", i, ", which is ", describe(input_metas_[i]),
             "; their shapes must be equal");
    CT_CHECK(grads[i].dtype() == input_metas_[i].dtype, DTypeError, name().data(), "backward returned ",
             describe(grads[i]), " as the gradient of input ", i, ", which is ", describe(input_metas_[i]),
             "; their dtypes must be equal");
    call.grads_in[i] = grads[i];
  }
}

void FunctionNode::release_saved() {
  released_ = released_ || !context_.saved_.empty();
  context_.saved_.clear();
  context_.data.reset();
}

std::vector<KeptTensor> FunctionNode::kept() const {
  std::vector<KeptTensor> list;
  for (std::size_t i = 0; i < context_.saved_.size(); ++i) {
    const FunctionContext::Kept& kept = context_.saved_[i];
    if (kept.tensor.defined()) list.push_back({detail::cat("saved ", i), &kept.tensor, kept.edge});
  }
  return list;
}

namespace detail {

std::string type_name(const std::type_info& type) {
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : type.name();
}

bool any_requires_grad(const std::vector<Tensor>& tensors) {
  for (const Tensor& t : tensors)
    if (t.defined() && t.requires_grad()) return true;
  return false;
}

std::vector<Tensor> apply_function(const std::type_info& type, FunctionForward forward,
                                   FunctionBackward backward, const std::vector<Tensor>& inputs) {
  const bool record = grad_enabled() && any_requires_grad(inputs);
  const auto node = make_ref<FunctionNode>(type_name(type), backward, inputs);
  std::vector<Tensor> outputs;
  {
    const NoGrad guard;
    outputs = forward(node->context(), inputs);
  }
  if (record) node->set_outputs(outputs, inputs, node);
  return outputs;
}

}  // namespace detail
}  // namespace ct
