#include <cotangent/autograd/engine.h>

#include <execinfo.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>

#include <cotangent/autograd/autocast_mode.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/autograd/grad_request_internal.h>
#include <cotangent/autograd/node.h>
#include <cotangent/core/base/per_thread.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/ops/engine/walk/calls.h>

// Going back. Three facts make the engine small:
//   - nodes are numbered in the order of recording, and a leaf is older than every node that uses it, so a
//     heap that always yields the youngest pending node visits each one exactly once, after all its users;
//   - every pending node and leaf has a slot that collects the cotangents of its outputs;
//   - the state belongs to one call and nothing recurses: all that threads share is the leaves, and each has
//     a lock that is held while something is added to its gradient.

namespace ct {
namespace {

using detail::AddressTable;
using detail::GradRequest;
using detail::key_of;

struct Slot {
  Node* node = nullptr;  // one of the two is set; the tape keeps it alive
  TensorImpl* leaf = nullptr;
  std::uint32_t first = 0;  // of its cotangents in Pass::grads_
  bool done = false;        // what arrives from now on would be lost
};

struct Pending {
  std::uint64_t sequence;
  std::uint32_t slot;
  bool operator<(const Pending& other) const { return sequence < other.sequence; }
};

// True if no other handle sees the values, so that they may be changed or taken over.
bool is_exclusive(const Tensor& t) {
  return t.ref().unique() && t.impl()->storage.unique() && t.is_contiguous();
}

// A copy, recorded if recording is on.
Tensor clone_of(const Tensor& t) { return grad_enabled() ? t.clone() : walk::calls::moved(t, t.device()); }

class Pass {
 public:
  // With `record` everything is on the tape: nodes run their rules, sums are recorded, nothing is done in place.
  void run(std::span<const Tensor> roots, std::span<const Tensor> gradients, bool retain_graph, bool record,
           GradRequest* request) {
    retain_graph_ = retain_graph || record;
    record_ = record;
    request_ = request;
    for (std::size_t r = 0; r < roots.size(); ++r) {
      const Edge edge = detail::gradient_edge(roots[r]);
      Tensor gradient = root_gradient(roots[r], r < gradients.size() ? gradients[r] : Tensor{});
      if (wanted(edge)) deposit(edge, std::move(gradient));
    }
    start_ = detail::next_sequence();
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      Slot& next = slots_[heap_.back().slot];
      const Slot slot = next;
      next.done = true;  // after the copy, which reads it in one piece with its neighbours
      heap_.pop_back();
      if (slot.node) {
        visit(slot);
      } else {
        arrive(slot);
      }
    }
  }

  void clear() {
    slots_.clear();
    grads_.clear();
    heap_.clear();
    table_.clear();
    expanded_.clear();
  }

 private:
  Tensor root_gradient(const Tensor& root, const Tensor& gradient) const {
    CT_CHECK(root.requires_grad(), AutogradError, "backward", "tensor ", describe(root),
             " does not require a gradient and was not made from one that does; call set_requires_grad() on "
             "the leaves "
             "before the forward pass, and check that no NoGrad guard is alive");
    if (!gradient.defined()) {
      CT_CHECK(root.numel() == 1, AutogradError, "backward", "the root is ", describe(root),
               "; only a tensor with one element has an implied gradient: reduce it (sum, mean) or pass one "
               "of its shape");
      return detail::filled(root.meta(), 1);
    }
    CT_CHECK(gradient.shape() == root.shape(), ShapeError, "backward", "the gradient is ", describe(gradient),
             ", the root ", describe(root), "; they must have the same shape");
    CT_CHECK(gradient.dtype() == root.dtype(), DTypeError, "backward", "the gradient is ", describe(gradient),
             ", the root ", describe(root), "; they must have the same dtype");
    CT_CHECK(gradient.device() == root.device(), DeviceError, "backward", "the gradient is ",
             describe(gradient), ", the root ", describe(root), "; they must be on the same device");
    return without_history(gradient);
  }

  // A cotangent from outside is a constant, unless the pass is recorded.
  Tensor without_history(const Tensor& t) const { return !record_ && t.requires_grad() ? t.detach() : t; }

  // Whether to follow the edge of a root, or of the result of a piece of tape.
  bool wanted(const Edge& edge) {
    if (request_) request_->explore(edge);
    return !request_ || request_->wants(edge);
  }

  Slot& slot_of(const Edge& edge) {
    const void* key = key_of(edge);
    if (const std::uint32_t* found = table_.find(key)) {
      CT_CHECK(
          !slots_[*found].done, AutogradError, "backward", "a gradient reached ",
          edge.node ? edge.node->name() : "a leaf",
          " after its turn: a function given to recompute() uses a tensor that was made after that call; "
          "capture by value what it uses");
      return slots_[*found];
    }
    const auto index = static_cast<std::uint32_t>(slots_.size());
    Slot& slot = slots_.emplace_back();
    slot.first = static_cast<std::uint32_t>(grads_.size());
    std::uint64_t sequence;
    if (edge.node) {
      slot.node = edge.node.get();
      grads_.resize(grads_.size() + slot.node->output_count());
      sequence = slot.node->sequence();
    } else {
      slot.leaf = edge.leaf.get();
      grads_.emplace_back();
      sequence = detail::leaf_meta(*slot.leaf).sequence;
    }
    table_.insert(key, index);
    heap_.push_back({sequence, index});
    std::push_heap(heap_.begin(), heap_.end());
    return slot;
  }

  static bool is_frozen(const Edge& edge) { return edge.leaf && !edge.leaf->requires_grad; }
  // False for a leaf that was converted, or moved, since it was used.
  static bool is_as_used(const Edge& edge) {
    return !edge.leaf || (edge.leaf->dtype == edge.dtype && edge.leaf->storage->device() == edge.device);
  }

  // Adds a cotangent to what has been collected for `edge`. The first one is kept as it is, without a copy.
  void deposit(const Edge& edge, Tensor grad) {
    if (!edge || !grad.defined()) return;
    if (!is_as_used(edge)) [[unlikely]]
      grad = grad.to(edge.leaf->storage->device()).to(edge.leaf->dtype);
    Tensor& sum = grads_[slot_of(edge).first + edge.index];
    if (!sum.defined()) {
      sum = std::move(grad);
    } else {
      if (!record_ && !is_exclusive(sum) && is_exclusive(grad)) std::swap(sum, grad);
      detail::add_gradient(sum, grad, !record_ && is_exclusive(sum));
    }
  }

  // Leaves whose gradients a kernel adds to; nobody else does meanwhile.
  struct Claim {
    detail::LeafMeta* leaf;
    std::unique_lock<detail::SpinLock> lock;
  };
  using Claims = InlineVector<Claim, 4>;

  // The tensor that a kernel may add the gradient of `edge` to instead of making one of its own, if any. None
  // where another thread is adding to the leaf: waiting for one leaf with another claimed could be a deadlock.
  Tensor accumulation_target(const Edge& edge, Claims& claims) {
    if (!is_as_used(edge)) [[unlikely]]
      return {};
    if (const std::uint32_t* found = table_.find(key_of(edge))) {
      Tensor& sum = grads_[slots_[*found].first + edge.index];
      if (sum.defined()) return is_exclusive(sum) ? std::move(sum) : Tensor{};
    }
    if (!edge.leaf || request_ || !edge.leaf->autograd) return {};
    note_gradient(edge.leaf.get());
    detail::LeafMeta& meta = detail::leaf_meta(*edge.leaf);
    if (!meta.hooks.empty()) return {};
    std::unique_lock lock(meta.lock, std::try_to_lock);
    if (!lock || !meta.grad.defined() || !meta.grad.is_contiguous() || meta.grad.requires_grad()) return {};
    claims.emplace_back(Claim{&meta, std::move(lock)});
    return meta.grad;
  }

  // Where the gradient of input i of `node` goes. A kernel that can write f32 although its input has 16 bits
  // serves an f32 leaf directly, past the conversion in between: nothing is rounded on the way, and the
  // leaf's gradient is added to where it lies.
  const Edge& destination(const Node& node, std::size_t i) const {
    const Edge& edge = node.edges[i];
    if (record_ || !edge.node || !node.can_widen(static_cast<std::uint32_t>(i))) return edge;
    const Edge* beyond = edge.node->narrowed();
    if (!beyond || !beyond->leaf) return edge;
    return request_ && request_->asked(edge.node.get()) ? edge : *beyond;
  }

  void visit(const Slot& slot) {
    Node& node = *slot.node;
    const std::uint32_t outputs = node.output_count();
    InlineVector<Tensor, 4> grads_out;
    for (std::uint32_t k = 0; k < outputs; ++k) grads_out.emplace_back(std::move(grads_[slot.first + k]));
    if (node.expands()) return expand(node, grads_out);
    hand_out(node, grads_out);

    InlineVector<Tensor, 4> grads_in;
    InlineVector<std::uint8_t, 16> flags;
    InlineVector<const Edge*, 4> destinations;
    Claims claims;
    bool any = false;
    for (std::size_t i = 0; i < node.edges.size(); ++i) {
      const Edge& edge = *destinations.emplace_back(&destination(node, i));
      Tensor& target = grads_in.emplace_back();
      std::uint8_t& flag = flags.emplace_back(0);
      if (!edge || (request_ && !request_->wants(edge)) || is_frozen(edge)) continue;
      any = true;
      flag = kGradNeeded;
      if (&edge != &node.edges[i]) flag |= kGradWide;
      if (record_ || !node.can_accumulate(static_cast<std::uint32_t>(i))) continue;
      target = accumulation_target(edge, claims);
      if (target.defined()) flag |= kGradAccumulate;
    }
    if (!any) return;
    if (!node.takes_undefined_grads())
      for (std::uint32_t k = 0; k < outputs; ++k)
        if (!grads_out[k].defined()) grads_out[k] = detail::filled(node.output_meta(k), 0);

    const bool last = is_last(node);
    NodeCall call{grads_out, grads_in, flags, last, record_};
    node.backward(call);
    if (last) node.release_saved();

    for (std::size_t i = 0; i < node.edges.size(); ++i) {
      if (!(flags[i] & kGradNeeded) || !grads_in[i].defined()) continue;
      const Edge& edge = *destinations[i];
      if (anomaly_enabled()) detail::check_finite(node.name(), "backward", grads_in[i], node.call_site());
      const auto in_place = [&](const Claim& claim) { return claim.leaf->grad.is_same(grads_in[i]); };
      if (std::any_of(claims.begin(), claims.end(), in_place)) {
        slot_of(edge);  // its turn comes, for those who wait for it
        grads_in[i].impl()->storage->bump_version();
      } else {
        deposit(edge, std::move(grads_in[i]));
      }
    }
  }

  // Whether nobody will visit the node again: what was recorded during this pass is nobody else's.
  bool is_last(const Node& node) const { return !record_ && (!retain_graph_ || node.sequence() > start_); }

  // Lets a node record the piece of tape that it stands for, which is newer than all that is pending: it is
  // walked next, and leads to where the node's own inputs came from.
  void expand(Node& node, std::span<Tensor> grads) {
    if (request_ && !request_->leads(node)) return hand_out(node, grads);
    std::vector<Tensor> outputs = node.expand();
    const std::size_t first = expanded_.size();
    bool any = false;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      Edge& edge = expanded_.emplace_back();
      if (grads[k].defined() && outputs[k].requires_grad()) edge = detail::gradient_edge(outputs[k]);
      if (!wanted(edge)) edge = {};
      any = any || edge;
      outputs[k] = {};  // the values may go, the tape may not
    }
    if (request_ && !any) {  // it stays as it was
      if (request_->asked(&node)) hand_out(node, grads);
      return;
    }
    hand_out(node, grads);
    if (is_last(node)) node.release_saved();
    for (std::size_t k = 0; k < outputs.size(); ++k) deposit(expanded_[first + k], std::move(grads[k]));
  }

  // The gradients of a node's outputs are complete.
  void hand_out(Node& node, std::span<Tensor> grads) {
    run_output_hooks(node, grads);
    if (request_) request_->take(&node, grads);
  }

  // A hook's result takes the place of the gradient.
  void run_hooks(const HookList<TensorHook>& hooks, Tensor& grad) const {
    hooks.each([&](const TensorHook& hook) {
      // A hook may change its argument: nobody else must see that.
      if (!is_exclusive(grad)) grad = clone_of(grad);
      Tensor replaced = hook(grad);
      if (!replaced.defined()) return;
      constexpr const char* op = "register_hook";
      CT_CHECK(replaced.shape() == grad.shape(), ShapeError, op, "a hook returned ", describe(replaced),
               " in place of the gradient ", describe(grad), "; it must have the same shape");
      CT_CHECK(replaced.dtype() == grad.dtype(), DTypeError, op, "a hook returned ", describe(replaced),
               " in place of the gradient ", describe(grad), "; convert it with .to()");
      CT_CHECK(replaced.device() == grad.device(), DeviceError, op, "a hook returned ", describe(replaced),
               " in place of the gradient ", describe(grad), "; copy it with .to()");
      grad = without_history(replaced);
    });
  }
  void run_output_hooks(Node& node, std::span<Tensor> grads) const {
    for (std::size_t i = 0; i < node.output_hooks.size(); ++i) {  // a hook may register one on another output
      Tensor& grad = grads[node.output_hooks[i].output];
      if (!grad.defined()) continue;
      run_hooks(node.output_hooks[i].hooks, grad);
      // It is added to like a leaf's gradient, and shared with nobody.
      if (const auto& sum = node.output_hooks[i].retained) {
        if (sum->defined())
          detail::add_gradient(*sum, grad, !record_ && is_exclusive(*sum));
        else
          *sum = clone_of(grad);
      }
    }
  }

  // All cotangents of a leaf are in: add them to its gradient.
  // For a captured step, before the gradient is locked.
  static void note_gradient(TensorImpl* leaf) {
    if (Recording* const step = detail::recording()) [[unlikely]]
      step->gradient(Tensor(Ref<TensorImpl>::share(leaf)));
  }

  void arrive(const Slot& slot) {
    detail::LeafMeta& meta = detail::leaf_meta(*slot.leaf);
    Tensor grad = std::move(grads_[slot.first]);
    if (grad.defined()) {
      run_hooks(meta.hooks, grad);
      if (request_) return request_->take(slot.leaf, std::span(&grad, 1));
      note_gradient(slot.leaf);
      const std::lock_guard lock(meta.lock);
      if (meta.grad.defined()) {
        // In place, but for a gradient that is on the tape, or was set to an expanded tensor.
        const bool in_place = !record_ && !meta.grad.requires_grad() &&
                              expanded_axis(meta.grad.shape(), meta.grad.strides()) < 0;
        detail::add_gradient(meta.grad, grad, in_place);
        if (!in_place) detail::bump_state_epoch();
      } else {
        meta.grad = record_ || is_exclusive(grad) ? std::move(grad) : clone_of(grad);
        detail::bump_state_epoch();
      }
    }
    if (meta.post_hooks.empty()) return;
    const Tensor leaf{Ref<TensorImpl>::share(slot.leaf)};
    meta.post_hooks.each([&](const PostAccumulateHook& hook) { hook(leaf); });
  }

  bool retain_graph_ = false;
  bool record_ = false;
  GradRequest* request_ = nullptr;
  std::uint64_t start_ = 0;     // nodes with higher numbers were recorded during this pass
  std::vector<Edge> expanded_;  // keep those alive
  std::vector<Slot> slots_;
  std::vector<Tensor> grads_;
  std::vector<Pending> heap_;
  AddressTable table_;  // of slots
};

// One Pass is kept per thread, so that a training step allocates nothing here; a backward inside a hook gets
// another one.
class PassLease {
 public:
  PassLease() {
    std::unique_ptr<Pass>& spare = per_thread<std::unique_ptr<Pass>>();
    pass_ = spare ? std::move(spare) : std::make_unique<Pass>();
  }
  ~PassLease() {
    pass_->clear();
    per_thread<std::unique_ptr<Pass>>() = std::move(pass_);
  }
  Pass* operator->() { return pass_.get(); }

 private:
  std::unique_ptr<Pass> pass_;
};

// Runs a pass as it should run: recorded or not, and never under the caller's Autocast, since gradients have
// the dtypes that forward had.
void run_pass(std::span<const Tensor> roots, std::span<const Tensor> gradients, bool retain_graph,
              bool record, GradRequest* request) {
  const GradModeGuard mode(record);
  const DeviceGuard device(!roots.empty() && roots[0].defined() ? roots[0].device() : cpu);
  std::optional<detail::AutocastModeGuard> plain;
  if (record) plain.emplace(detail::AutocastMode{}, true);
  PassLease()->run(roots, gradients, retain_graph, record, request);
}

constinit thread_local bool anomaly = false;

void check_gradient_count(std::size_t roots, std::size_t gradients) {
  CT_CHECK(gradients == 0 || gradients == roots, AutogradError, "backward", "got ", roots, " roots and ",
           gradients, " gradients; pass one gradient per root, or none");
}

}  // namespace

void backward(TensorList roots, TensorList gradients, BackwardOptions options) {
  check_gradient_count(roots.size(), gradients.size());
  run_pass(roots, gradients, options.retain_graph, options.create_graph, nullptr);
}

std::vector<Tensor> grad(TensorList outputs, TensorList inputs, TensorList gradients, GradOptions options) {
  check_gradient_count(outputs.size(), gradients.size());
  GradRequest request(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CT_CHECK(inputs[i].requires_grad(), AutogradError, "grad", "input ", i, ", ", describe(inputs[i]),
             ", does not require a gradient; call set_requires_grad() on it before the forward pass");
    request.ask(detail::gradient_edge(inputs[i]));
  }
  run_pass(outputs, gradients, options.retain_graph, options.create_graph, &request);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    CT_CHECK(options.allow_unused || request.results[i].defined(), AutogradError, "grad",
             "the outputs do not depend on input ", i, ", ", describe(inputs[i]),
             "; pass allow_unused = true to get an undefined gradient for it");
  return std::move(request.results);
}

bool anomaly_enabled() { return anomaly; }
void set_anomaly(Flag enabled) { anomaly = enabled; }

namespace detail {

Tensor filled(const TensorMeta& meta, double value) {
  Tensor t = Tensor::allocate(meta.shape, meta.dtype, meta.device);
  walk::calls::fill(t, value);
  return t;
}

void check_finite(std::string_view op, const char* phase, const Tensor& t, const std::string& call_site) {
  if (!t.defined() || !is_floating(t.dtype()) || all_finite(t)) return;
  fail<AutogradError>("anomaly", "the ", phase, " of '", op, "' produced a NaN or an infinity in ",
                      describe(t), "; check its inputs, the learning rate and the loss scale",
                      call_site.empty() ? "" : "\nthe forward op was called from:\n", call_site);
}

std::string current_call_site() {
  constexpr int kFrames = 24;
  void* frames[kFrames];
  const int count = ::backtrace(frames, kFrames);
  std::unique_ptr<char*, decltype(&std::free)> symbols(::backtrace_symbols(frames, count), &std::free);
  std::string text;
  for (int i = 2; symbols && i < count; ++i) text.append("  ").append(symbols.get()[i]).append("\n");
  return text;
}

}  // namespace detail
}  // namespace ct
