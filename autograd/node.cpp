#include <cotangent/autograd/node.h>

#include <algorithm>
#include <cstring>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/op/execute.h>

namespace ct {

// ---- SavedTensor ------------------------------------------------------------------------------------------

namespace {
// A second TensorImpl over the same storage, without history.
Tensor alias_without_history(const Tensor& t) {
  const TensorImpl& from = *t.impl();
  auto impl = make_ref<TensorImpl>();
  impl->storage = from.storage;
  impl->offset = from.offset;
  impl->numel = from.numel;
  impl->shape = from.shape;
  impl->strides = from.strides;
  impl->dtype = from.dtype;
  impl->contiguous = from.contiguous;
  impl->is_view = from.is_view;
  impl->history_version = from.history_version;
  return Tensor(std::move(impl));
}
}  // namespace

SavedTensor::SavedTensor(const Tensor& t)
    : data_(alias_without_history(t)), version_(t.impl()->storage->version()) {}

void SavedTensor::fail_changed(std::string_view op, const std::string& role) const {
  detail::fail<AutogradError>(
      "backward", role, " of '", op, "', ", describe(data_), ", was saved at version ", version_,
      " and has been changed in place since (now at version ", data_.impl()->storage->version(),
      "); use the out-of-place form of the later op, or clone() the tensor before changing it");
}

bool SavedTensor::holds(const Tensor& t) const {
  return data_.defined() && data_.impl()->storage == t.impl()->storage &&
         data_.storage_offset() == t.storage_offset() && data_.shape() == t.shape() &&
         data_.strides() == t.strides();
}

Tensor Tensor::detach() const {
  get();
  return alias_without_history(*this);
}

// ---- Node -------------------------------------------------------------------------------------------------

namespace {
constinit thread_local std::uint64_t latest = 0;  // the highest number that this thread has given or seen
}

namespace detail {
std::uint64_t next_sequence() { return ++latest; }

LeafMeta& leaf_meta(TensorImpl& impl) {
  if (!impl.autograd) impl.autograd = std::make_unique<LeafMeta>();
  return static_cast<LeafMeta&>(*impl.autograd);
}

Edge gradient_edge(const Tensor& t) {
  Edge edge;
  if (!t.defined() || !t.requires_grad()) return edge;
  TensorImpl& impl = *t.impl();
  CT_CHECK(impl.history_version == impl.storage->history_version(), AutogradError, "autograd", "tensor ",
           describe(t),
           " is a view, or was made before its storage was changed in place by a recorded op, so its place "
           "on the tape "
           "is out of date; take the view again after the change, or use the out-of-place form");
  if (impl.grad_fn) {
    CT_CHECK(impl.unrecorded_version == impl.storage->unrecorded_version(), AutogradError, "autograd",
             "tensor ", describe(t), ", a result of '", t.grad_fn_name(),
             "', has been changed in place by a view made under NoGrad or a detached tensor, which the tape "
             "does not know "
             "of; change a clone() instead, or the tensor itself, or make the change under NoGrad");
    edge.node = Ref<Node>::share(static_cast<Node*>(impl.grad_fn.get()));
    edge.index = impl.output_index;
    latest = std::max(latest, edge.node->sequence());
  } else {
    edge.leaf = t.ref();
    edge.dtype = impl.dtype;
    edge.device = impl.storage->device();
    if (impl.autograd) latest = std::max(latest, static_cast<LeafMeta&>(*impl.autograd).sequence);
  }
  return edge;
}
}  // namespace detail

void detail::note_change(Storage& storage) {
  storage.bump_version();
  if (grad_enabled()) storage.bump_unrecorded_version();
}

Tensor detail::with_history(const Tensor& saved, const Edge& edge) {
  if (edge.leaf) return Tensor(edge.leaf);
  Tensor t = saved.detach();
  if (!edge.node) return t;
  set_history(t, edge.node, edge.index);
  // A saved tensor was not changed since, so `edge` is its place on the tape. An op in place saves its result before the
  // storage counts as having a new history.
  t.impl()->history_version = t.impl()->storage->history_version();
  return t;
}

Node::~Node() = default;
void Node::enter() { sequence_ = detail::next_sequence(); }

const std::string& Node::call_site() const {
  static const std::string& none = *new std::string;  // never destroyed: a backward may fail at exit
  return trace ? *trace : none;
}

void Node::release_zero() noexcept {
  // `dead` lists this thread's dead nodes; only the outermost call empties it.
  static constinit thread_local Node* dead = nullptr;
  static constinit thread_local bool emptying = false;
  next_dead_ = std::exchange(dead, this);
  if (emptying) return;
  emptying = true;
  while (dead) delete std::exchange(dead, dead->next_dead_);  // may list further nodes
  emptying = false;
}

// ---- OpNode -----------------------------------------------------------------------------------------------

namespace {
// As meta = t.meta(), without a copy in between.
void note(TensorMeta& meta, const Tensor& t) {
  meta.shape = t.shape();
  meta.dtype = t.dtype();
  meta.device = t.device();
}
}  // namespace

OpNode::OpNode(const OpDef& op, std::span<const Tensor* const> inputs, AttrsView attrs) : op_(op) {
  if (attrs.size > 0) std::memcpy(attrs_, attrs.data, attrs.size);
  attrs_size_ = static_cast<std::uint16_t>(attrs.size);
  std::uint32_t saved = 0;  // union of what the wanted gradients need
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = *inputs[i];
    TensorMeta& meta = input_metas_.emplace_back();
    Edge& edge = edges.emplace_back();
    if (!t.defined()) continue;
    note(meta, t);
    if (!t.requires_grad() || !mask_bit(op.differentiable_inputs, i)) continue;
    edge = detail::gradient_edge(t);
    saved |= saves_of(op, i).inputs;
  }
  saved_inputs_.resize(inputs.size());
  if (saved != 0)
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (mask_bit(saved, i) && inputs[i]->defined()) saved_inputs_[i] = SavedTensor(*inputs[i]);
  enter();
  if (anomaly_enabled()) trace = std::make_unique<std::string>(detail::current_call_site());
}

void OpNode::set_outputs(std::span<const Tensor> outputs) {
  std::uint32_t saved = 0;
  for (std::size_t i = 0; i < edges.size(); ++i)
    if (edges[i]) saved |= saves_of(op_, i).outputs;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    note(output_metas_.emplace_back(), outputs[k]);
    SavedTensor& slot = saved_outputs_.emplace_back();
    if (mask_bit(saved, k)) slot = SavedTensor(outputs[k]);
  }
}

void OpNode::backward(NodeCall& call) {
  CT_CHECK(!released_, AutogradError, "backward", "the saved tensors of '", op_.name,
           "' have been freed: the tape was walked a second time; pass retain_graph = true to the first "
           "backward()");
  InlineVector<Tensor, 4> inputs;
  InlineVector<Tensor, 4> outputs;
  for (std::size_t i = 0; i < saved_inputs_.size(); ++i) {
    Tensor& t = inputs.emplace_back();
    if (!saved_inputs_[i].defined()) continue;
    t = saved_inputs_[i].unpack(op_.name, [&] { return "input '" + input_name(op_, i) + "'"; });
    if (call.record) t = detail::with_history(t, edges[i]);
  }
  for (std::size_t k = 0; k < saved_outputs_.size(); ++k) {
    Tensor& t = outputs.emplace_back();
    if (!saved_outputs_[k].defined()) continue;
    t = saved_outputs_[k].unpack(op_.name, [&] { return "output '" + output_name(op_, k) + "'"; });
    if (call.record && mask_bit(op_.differentiable_outputs, k) && is_floating(t.dtype()))
      t = detail::with_history(t, {Ref<Node>::share(this), {}, static_cast<std::uint32_t>(k)});
  }
  const Backward b{op_,          attrs(),       call.grads_out, inputs,   outputs,
                   input_metas_, call.grads_in, call.flags,     call.last};
  if (call.record) return run_rule(b, call);
  execute(output_metas_[0].device, b, inputs, outputs);
}

void OpNode::run_rule(const Backward& b, NodeCall& call) {
  CT_CHECK(op_.rule != nullptr, AutogradError, "backward", "'", op_.name,
           "' has no derivatives beyond the first: ",
           op_.no_rule ? op_.no_rule : "its OpDef states no rule; give it one, or leave out create_graph");
  // Kernels compute in f32 and round what they give; a rule that rounded each of its ops would give another gradient. One
  // that reads no number but the cotangent is linear, and its ops round once anyway.
  const auto low = [](const Tensor& t) { return t.defined() && is_low_precision(t.dtype()); };
  const auto any_low = [&](std::span<const Tensor> list) {
    return std::any_of(list.begin(), list.end(), low);
  };
  if (!op_.low_rule && !op_.converts && (any_low(b.saved_inputs) || any_low(b.saved_outputs))) {
    const auto widened = [&](std::span<const Tensor> list) {
      std::vector<Tensor> wide(list.begin(), list.end());
      for (Tensor& t : wide)
        if (low(t)) t = t.to(DType::f32);
      return wide;
    };
    const std::vector<Tensor> inputs = widened(b.saved_inputs), outputs = widened(b.saved_outputs),
                              grads = widened(b.grads);
    std::vector<TensorMeta> metas(b.input_metas.begin(), b.input_metas.end());
    for (TensorMeta& meta : metas)
      if (is_low_precision(meta.dtype)) meta.dtype = DType::f32;
    op_.rule({op_, b.attrs_view, grads, inputs, outputs, metas, b.grad_inputs, b.flags, b.last});
    for (std::size_t i = 0; i < edges.size(); ++i)
      if (Tensor& g = call.grads_in[i]; g.defined() && is_low_precision(input_metas_[i].dtype))
        g = g.to(input_metas_[i].dtype);
  } else {
    op_.rule(b);
  }
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const Tensor& g = call.grads_in[i];
    if (!(call.flags[i] & kGradNeeded) || !g.defined()) continue;
    CT_CHECK(g.shape() == input_metas_[i].shape && g.dtype() == input_metas_[i].dtype, AutogradError,
             op_.name, "its rule gives ", describe(g), " as the gradient of ", input_name(op_, i),
             ", which is ", describe(input_metas_[i]), "; shape and dtype must be equal");
  }
}

const Edge* OpNode::narrowed() const {
  const bool narrows = op_.converts && input_metas_[0].dtype == DType::f32 &&
                       is_low_precision(output_metas_[0].dtype) && output_hooks.empty();
  return narrows ? &edges[0] : nullptr;
}

void OpNode::release_saved() {
  bool any = false;
  for (SavedTensor& s : saved_inputs_) any = any || s.defined(), s.reset();
  for (SavedTensor& s : saved_outputs_) any = any || s.defined(), s.reset();
  // A node that saved nothing can be walked again: several losses may share it.
  released_ = released_ || any;
}

std::vector<KeptTensor> OpNode::kept() const {
  std::vector<KeptTensor> list;
  for (std::size_t i = 0; i < saved_inputs_.size(); ++i)
    if (saved_inputs_[i].defined()) list.push_back({input_name(op_, i), &saved_inputs_[i], edges[i]});
  for (std::size_t k = 0; k < saved_outputs_.size(); ++k)
    if (saved_outputs_[k].defined()) list.push_back({output_name(op_, k), &saved_outputs_[k], {}});
  return list;
}

void Backward::fail_not_saved(const std::string& what) const {
  detail::fail<Error>(op.name, "its backward reads ", what,
                      ", which its OpDef does not keep for the gradients wanted; name it in their `needs`");
}

Tensor& Backward::grad_in_over(int i, const Tensor& saved) const {
  Tensor& g = grad_inputs[static_cast<std::size_t>(i)];
  if (g.defined() || !last) return grad_in(i);
  const TensorMeta& meta = in_meta(i);
  const DType dtype = grad_dtype(i);
  const Ref<Storage>& storage = saved.impl()->storage;
  // The one tensor that holds it is the saved one: the tape refers to nodes, and to leaves by their own.
  const bool unseen = storage.unique() && storage->is_owned();
  if (!unseen || !saved.is_contiguous() || !(saved.shape() == meta.shape) || saved.dtype() != dtype)
    return grad_in(i);
  g = Tensor::from_storage(storage, meta.shape, contiguous_strides(meta.shape), saved.storage_offset(),
                           dtype);
  // Should the kernel fail half-way, then a second walk must not read what is no longer there.
  storage->bump_version();
  return g;
}

}  // namespace ct
