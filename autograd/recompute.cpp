#include <cotangent/autograd/recompute.h>

#include <utility>

#include <cotangent/autograd/autocast_mode.h>
#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/autograd/node.h>
#include <cotangent/core/base/rng.h>

namespace ct {
namespace {

using Call = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// Sets the default generator back for a while.
class GeneratorGuard {
 public:
  explicit GeneratorGuard(const GeneratorState& state) : previous_(default_generator().state()) {
    default_generator().set_state(state);
  }
  ~GeneratorGuard() { default_generator().set_state(previous_); }
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

 private:
  GeneratorState previous_;
};

// Sets the forward scope for a while.
class ScopeGuard {
 public:
  explicit ScopeGuard(const detail::ForwardScope* scope)
      : previous_(std::exchange(detail::forward_scope(), scope)) {}
  ~ScopeGuard() { detail::forward_scope() = previous_; }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  const detail::ForwardScope* previous_;
};

class RecomputeNode final : public Node {
 public:
  RecomputeNode(Call fn, std::vector<SavedTensor> saved, const std::vector<Tensor>& inputs,
                const GeneratorState& draws)
      : fn_(std::move(fn)), inputs_(std::move(saved)), draws_(draws), mode_(detail::autocast_mode()) {
    if (const detail::ForwardScope* const scope = detail::forward_scope()) scope_ = scope->shared_from_this();
    for (const Tensor& t : inputs) edges.emplace_back(detail::gradient_edge(t));
    enter();
    if (anomaly_enabled()) trace = std::make_unique<std::string>(detail::current_call_site());
  }

  void set_outputs(std::vector<Tensor>& outputs, const Ref<Node>& self) {
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      Tensor& out = outputs[k];
      CT_CHECK(out.defined(), AutogradError, "recompute", "fn returned an undefined tensor as output ", k,
               "; return only tensors that were computed");
      output_metas_.push_back(out.meta());
      if (!is_floating(out.dtype())) continue;
      // fn may return an input as it is, or one tensor twice.
      if (out.requires_grad() || !out.ref().unique()) out = out.detach();
      detail::set_history(out, self, static_cast<std::uint32_t>(k));
    }
  }

  std::string_view name() const override { return "recompute"; }
  const TensorMeta& output_meta(std::uint32_t k) const override { return output_metas_[k]; }
  std::uint32_t output_count() const override { return static_cast<std::uint32_t>(output_metas_.size()); }
  bool takes_undefined_grads() const override { return true; }
  void backward(NodeCall&) override { CT_ASSERT(false); }  // the engine expands it

  bool expands() const override { return true; }
  std::vector<Tensor> expand() override {
    CT_CHECK(fn_ != nullptr, AutogradError, "backward",
             "the inputs of 'recompute' have been freed: the tape was walked a second time; pass "
             "retain_graph = true to the first backward()");
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      Tensor& t = inputs.emplace_back();
      if (!inputs_[i].defined()) continue;
      // The gradient flows on from here as if nothing were in between.
      t = detail::with_history(inputs_[i].unpack("recompute", [&] { return detail::cat("input ", i); }),
                               edges[i]);
    }
    std::vector<Tensor> outputs;
    {
      const EnableGrad recorded;
      const GeneratorGuard draws(draws_);
      const detail::AutocastModeGuard mode(mode_, true);
      const ScopeGuard scope(scope_.get());
      outputs = fn_(inputs);
    }
    CT_CHECK(outputs.size() == output_metas_.size(), AutogradError, "recompute", "fn returned ",
             outputs.size(), " tensors, the first time ", output_metas_.size(),
             "; it must compute the same each time");
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const TensorMeta& first = output_metas_[k];
      CT_CHECK(outputs[k].defined() && outputs[k].shape() == first.shape &&
                   outputs[k].dtype() == first.dtype && outputs[k].device() == first.device,
               AutogradError, "recompute", "fn returned ",
               outputs[k].defined() ? describe(outputs[k]) : "an undefined tensor", " as output ", k,
               ", the first time ", describe(first), "; it must compute the same each time");
    }
    return outputs;
  }

  void release_saved() override {
    fn_ = nullptr;
    scope_ = nullptr;
    inputs_.clear();
  }
  std::vector<KeptTensor> kept() const override {
    std::vector<KeptTensor> list;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].defined()) list.push_back({detail::cat("input ", i), &inputs_[i], edges[i]});
    return list;
  }
  bool released() const override { return fn_ == nullptr; }

 private:
  Call fn_;
  std::vector<SavedTensor> inputs_;
  std::vector<TensorMeta> output_metas_;
  GeneratorState draws_;
  detail::AutocastMode mode_;
  std::shared_ptr<const detail::ForwardScope> scope_;
};

}  // namespace

const detail::ForwardScope*& detail::forward_scope() {
  thread_local const ForwardScope* scope = nullptr;
  return scope;
}

std::vector<Tensor> recompute(Call fn, const std::vector<Tensor>& inputs) {
  CT_CHECK(fn, ValueError, "recompute", "fn is empty; pass a function");
  if (!grad_enabled()) return fn(inputs);
  const GeneratorState draws = default_generator().state();
  std::vector<SavedTensor> saved;  // before fn can change them
  saved.reserve(inputs.size());
  for (const Tensor& t : inputs) saved.push_back(t.defined() ? SavedTensor(t) : SavedTensor());
  std::vector<Tensor> outputs;
  {
    const NoGrad unrecorded;
    outputs = fn(inputs);
  }
  auto node = make_ref<RecomputeNode>(std::move(fn), std::move(saved), inputs, draws);
  node->set_outputs(outputs, node);
  return outputs;
}

Tensor recompute(std::function<Tensor(const Tensor&)> fn, const Tensor& input) {
  CT_CHECK(fn, ValueError, "recompute", "fn is empty; pass a function");
  return recompute([fn = std::move(fn)](
                       const std::vector<Tensor>& inputs) -> std::vector<Tensor> { return {fn(inputs[0])}; },
                   std::vector<Tensor>{input})[0];
}

}  // namespace ct
