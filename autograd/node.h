#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/inline_vector.h>
#include <cotangent/core/base/ref.h>
#include <cotangent/core/base/spin_lock.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/core/memory/pool.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/tensor/tensor.h>

// The tape. Every recorded op leaves one Node. A node knows where the gradients of its op's inputs go (its
// edges) and what backward needs to see (its saved tensors). Nodes are numbered in the order of recording, each above
// all that it uses, by whichever thread that was made: walking the numbers downwards visits every node after all
// nodes that use its results. That is all the ordering backward needs.

namespace ct {

class Node;

/// Where the gradient of one input goes: to output `index` of the node that made it, or to a leaf.
struct Edge {
  Ref<Node> node;
  Ref<TensorImpl> leaf;
  std::uint32_t index = 0;
  DType dtype = DType::f32;  // of a leaf when it was used
  Device device = {};
  explicit operator bool() const { return node || leaf; }
};

/// A tensor kept for backward: an alias without history (so that a node that saves its own output does not
/// keep itself alive) and the storage version at the time.
class CT_API SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(const Tensor& t);
  /// The tensor. Throws AutogradError if its values have been changed in place since it was saved; `op`
  /// names the op that saved it, role() says as what ("input 'x'").
  template <class Role>
  const Tensor& unpack(std::string_view op, const Role& role) const {
    if (data_.impl()->storage->version() != version_) [[unlikely]]
      fail_changed(op, role());
    return data_;
  }
  bool defined() const { return data_.defined(); }
  /// Whether it is `t`: the same elements in the same layout.
  bool holds(const Tensor& t) const;
  /// The tensor, changed since or not: for those who look and do not compute.
  const Tensor& peek() const { return data_; }
  void reset() { data_ = {}; }

 private:
  [[noreturn, gnu::cold]] void fail_changed(std::string_view op, const std::string& role) const;

  Tensor data_;
  std::uint32_t version_ = 0;
};

/// One of the tensors that a node keeps.
struct KeptTensor {
  std::string role;          // its name among the op's inputs and outputs
  const SavedTensor* saved;  // lives as long as the node keeps it
  Edge from;                 // of an input: its place on the tape
};

using TensorHook = std::function<Tensor(const Tensor&)>;
using PostAccumulateHook = std::function<void(const Tensor&)>;

/// Functions that are called in the order in which they came.
template <class Function>
class HookList {
 public:
  bool empty() const { return !list_ || list_->empty(); }
  /// The hooks as they are now: another object after each change, as long as somebody has it.
  std::shared_ptr<const void> list() const { return list_; }
  bool is(const std::shared_ptr<const void>& list) const { return list_ == list; }
  void add(std::uint64_t id, Function f) {
    List next = list_ ? *list_ : List{};
    next.emplace_back(id, std::make_shared<const Function>(std::move(f)));
    set(std::move(next));
  }
  void remove(std::uint64_t id) {
    if (!list_) return;
    List next = *list_;
    std::erase_if(next, [id](const auto& entry) { return entry.first == id; });
    set(std::move(next));
  }
  /// Calls call(hook) for the hooks that are there now. A hook may add and remove some, itself too, and
  /// outlives its own call; that counts from the next time.
  template <class Call>
  void each(const Call& call) const {
    const std::shared_ptr<const List> now = list_;
    if (!now) return;
    for (const auto& [id, hook] : *now) call(*hook);
  }

 private:
  using List = std::vector<std::pair<std::uint64_t, std::shared_ptr<const Function>>>;
  void set(List next) {
    list_ = std::make_shared<const List>(std::move(next));
    detail::bump_state_epoch();
  }
  std::shared_ptr<const List> list_;  // another one after each change, as the old may be in use
};

/// Hooks on one output of a node, and the place retain_grad() wants its gradient added to.
struct OutputHooks {
  std::uint32_t output = 0;
  HookList<TensorHook> hooks;
  std::shared_ptr<Tensor> retained;
};

/// Operands of a node's backward. `grads_in[i]` and `flags[i]` (GradFlag bits) belong to edge i.
struct NodeCall {
  std::span<Tensor> grads_out;
  std::span<Tensor> grads_in;
  std::span<const std::uint8_t> flags;
  bool last = false;    // release_saved() follows
  bool record = false;  // the gradients are to be on the tape
};

/// One recorded op.
class CT_API Node : public RefCounted {
 public:
  ~Node() override;

  virtual std::string_view name() const = 0;
  /// Shape, dtype and device of output k.
  virtual const TensorMeta& output_meta(std::uint32_t k) const = 0;
  virtual std::uint32_t output_count() const = 0;
  /// Whether gradient i can be added to an existing tensor by the kernel itself.
  virtual bool can_accumulate(std::uint32_t) const { return false; }
  /// Whether gradient i is available in f32 although the input has 16 bits (OpDef::wide_grads).
  virtual bool can_widen(std::uint32_t) const { return false; }
  /// For a node that does nothing but convert f32 to 16 bits, and that nobody listens to: where the gradient
  /// of its input goes. Null for all others.
  virtual const Edge* narrowed() const { return nullptr; }
  /// Whether a missing cotangent may stay undefined.
  virtual bool takes_undefined_grads() const { return false; }
  /// Computes call.grads_in from call.grads_out, with call.record as a function that is recorded itself. Throws
  /// AutogradError after release_saved(), or where there are no gradients of gradients.
  virtual void backward(NodeCall& call) = 0;
  /// True for a node that stands for a piece of tape which is recorded only when backward comes to it. Its
  /// backward() is not called.
  virtual bool expands() const { return false; }
  /// Records that piece, and returns the tensors that take the place of this node's outputs.
  virtual std::vector<Tensor> expand() { return {}; }
  /// Frees what was saved; backward can't run again.
  virtual void release_saved() = 0;
  /// Tensors that are kept alive for backward, for explain() (nn/explain/explain.h).
  virtual std::vector<KeptTensor> kept() const { return {}; }
  /// Whether release_saved() has freed something that backward() needs.
  virtual bool released() const { return false; }

  std::uint64_t sequence() const { return sequence_; }
  /// Where the forward op was called, if anomaly mode was on.
  const std::string& call_site() const;

  InlineVector<Edge, 4> edges;
  std::vector<OutputHooks> output_hooks;
  std::unique_ptr<std::string> trace;  // set in anomaly mode

 protected:
  // Nodes form long chains; destroying one must not destroy the next from inside it, or a long tape
  // overflows the stack. The last reference puts the node on a list that one loop empties.
  void release_zero() noexcept override;
  // Takes the node's number; once its edges are there.
  void enter();

 private:
  union {
    std::uint64_t sequence_ = 0;
    Node* next_dead_;  // on that list: it needs no memory, so that nothing can fail
  };
};

/// The node of a registered op.
class CT_API OpNode final : public Node, public Pooled {
 public:
  /// Records op(inputs) -> outputs: edges, metadata and the tensors that the needed gradients depend on.
  OpNode(const OpDef& op, std::span<const Tensor* const> inputs, AttrsView attrs);
  /// Saves the declared outputs and notes their metadata; called once the kernel has run.
  void set_outputs(std::span<const Tensor> outputs);

  std::string_view name() const override { return op_.name; }
  const OpDef& op() const { return op_; }
  const TensorMeta& output_meta(std::uint32_t k) const override { return output_metas_[k]; }
  std::uint32_t output_count() const override { return static_cast<std::uint32_t>(output_metas_.size()); }
  bool can_accumulate(std::uint32_t i) const override { return mask_bit(op_.accumulates, i); }
  bool can_widen(std::uint32_t i) const override {
    return mask_bit(op_.wide_grads, i) && is_low_precision(input_metas_[i].dtype);
  }
  const Edge* narrowed() const override;
  // Where one output has a gradient it is why the node is visited; others need none.
  bool takes_undefined_grads() const override {
    return op_.undefined_grads || std::has_single_bit(op_.differentiable_outputs);
  }
  void backward(NodeCall& call) override;
  void release_saved() override;
  std::vector<KeptTensor> kept() const override;
  bool released() const override { return released_; }
  /// The attributes of the call; they live as long as the node.
  AttrsView attrs() const { return {attrs_, attrs_size_}; }

 private:
  // Runs the op's rule on the saved values as they stand on the tape; in f32 for 16 bits.
  void run_rule(const Backward& b, NodeCall& call);

  const OpDef& op_;
  bool released_ = false;
  std::uint16_t attrs_size_ = 0;
  InlineVector<TensorMeta, 3> input_metas_;
  InlineVector<TensorMeta, 1> output_metas_;
  InlineVector<SavedTensor, 4> saved_inputs_;  // indexed like the inputs
  InlineVector<SavedTensor, 2> saved_outputs_;
  alignas(16) std::byte attrs_[kMaxAttrBytes];
};

namespace detail {
/// A leaf's record: its gradient, its place in the order, its hooks.
struct LeafMeta final : AutogradMeta {
  Tensor grad;
  mutable SpinLock lock;  // of `grad`, the handle, and, while backward adds to them, of its values
  std::uint64_t sequence = 0;
  HookList<TensorHook> hooks;
  HookList<PostAccumulateHook> post_hooks;
  std::shared_ptr<Tensor> retained;  // for non-leaves
};
CT_API LeafMeta& leaf_meta(TensorImpl& impl);

/// The next number of the tape: above those of all nodes and leaves that this thread has made or built on. Threads count
/// each by itself, so that none waits for another's; what is built on nothing in common may have one number.
CT_API std::uint64_t next_sequence();

/// Notes an in-place change of a storage that is not recorded.
CT_API void note_change(Storage& storage);

/// The request of retain_grad() holds for the value that `t` has: call these around set_history() where it changes.
CT_API std::shared_ptr<Tensor> take_retained(const Tensor& t);
CT_API void put_retained(const Tensor& t, std::shared_ptr<Tensor> retained);

/// The edge along which the gradient of `t` flows; empty if it wants none.
CT_API Edge gradient_edge(const Tensor& t);

/// A saved tensor as it stood on the tape: with the history that `edge` says.
CT_API Tensor with_history(const Tensor& saved, const Edge& edge);

/// Makes `t` output `index` of `node`.
inline void set_history(const Tensor& t, Ref<Node> node, std::uint32_t index) {
  TensorImpl& impl = *t.impl();
  impl.requires_grad = true;
  impl.output_index = index;
  impl.unrecorded_version = impl.storage->unrecorded_version();
  impl.grad_fn = std::move(node);
}
}  // namespace detail
}  // namespace ct
