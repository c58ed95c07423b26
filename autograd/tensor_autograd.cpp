#include <atomic>
#include <mutex>
#include <utility>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/node.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/core/tensor/tensor.h>

// The members of Tensor that speak of the tape.

namespace ct {
namespace {

std::uint64_t next_hook_id() {
  static constinit std::atomic<std::uint64_t> next{1};  // two threads may add hooks to one tensor
  return next.fetch_add(1, std::memory_order_relaxed);
}

// The hooks on the output that `t` is of its node, made on first use.
OutputHooks& output_hooks(const Tensor& t) {
  Node& node = static_cast<Node&>(*t.impl()->grad_fn);
  for (OutputHooks& h : node.output_hooks)
    if (h.output == t.impl()->output_index) return h;
  OutputHooks& h = node.output_hooks.emplace_back();
  h.output = t.impl()->output_index;
  return h;
}

void check_hookable(const char* op, const Tensor& t) {
  CT_CHECK(t.requires_grad(), AutogradError, op, "tensor ", describe(t),
           " does not require a gradient, so no gradient ever reaches it; call set_requires_grad() first");
}

}  // namespace

std::shared_ptr<Tensor> detail::take_retained(const Tensor& t) {
  if (t.is_leaf() || !t.impl()->autograd || !leaf_meta(*t.impl()).retained) return nullptr;
  return std::exchange(output_hooks(t).retained, nullptr);
}
void detail::put_retained(const Tensor& t, std::shared_ptr<Tensor> retained) {
  if (retained) output_hooks(t).retained = std::move(retained);
}

Tensor& Tensor::set_requires_grad(Flag value) {
  TensorImpl& impl = get();
  CT_CHECK(is_leaf(), AutogradError, "set_requires_grad", "tensor ", describe(*this), " was made by '",
           grad_fn_name(), "'; only leaves can be changed: use detach() to get a tensor without history");
  CT_CHECK(!value || is_floating(dtype()), DTypeError, "set_requires_grad", "tensor ", describe(*this),
           " can't have a gradient; only floating dtypes (f32, f64, f16, bf16) can");
  // Once: a leaf stays older than the nodes that use it, also if it wants no gradient for a while.
  if (value && detail::leaf_meta(impl).sequence == 0)
    detail::leaf_meta(impl).sequence = detail::next_sequence();
  impl.requires_grad = value;
  detail::bump_state_epoch();
  return *this;
}

Tensor Tensor::grad() const {
  const TensorImpl& impl = get();
  if (!impl.autograd) return {};
  const auto& meta = static_cast<const detail::LeafMeta&>(*impl.autograd);
  if (meta.retained) return *meta.retained;
  const std::lock_guard lock(meta.lock);
  return meta.grad;
}

void Tensor::set_grad(const Tensor& grad) {
  TensorImpl& impl = get();
  if (grad.defined()) {
    CT_CHECK(grad.shape() == shape(), ShapeError, "set_grad", "the gradient is ", describe(grad),
             ", the tensor ", describe(*this), "; they must have the same shape");
    CT_CHECK(grad.dtype() == dtype(), DTypeError, "set_grad", "the gradient is ", describe(grad),
             ", the tensor ", describe(*this), "; they must have the same dtype");
    CT_CHECK(grad.device() == device(), DeviceError, "set_grad", "the gradient is ", describe(grad),
             ", the tensor ", describe(*this), "; they must be on the same device");
  } else if (!impl.autograd) {
    return;
  }
  if (Recording* const step = detail::recording()) [[unlikely]]
    step->gradient(*this);
  detail::LeafMeta& meta = detail::leaf_meta(impl);
  Tensor before = grad;  // removed objects are destroyed without the lock
  const std::lock_guard lock(meta.lock);
  std::swap(meta.retained ? *meta.retained : meta.grad, before);
  detail::bump_state_epoch();
}

void Tensor::backward(const Tensor& gradient, Flag retain_graph) const {
  const Tensor roots[] = {*this};
  const Tensor gradients[] = {gradient};
  ct::backward(roots, gradients, {.retain_graph = retain_graph});
}

void Tensor::retain_grad() const {
  check_hookable("retain_grad", *this);
  if (is_leaf()) return;
  detail::LeafMeta& meta = detail::leaf_meta(get());
  if (meta.retained) return;
  OutputHooks& hooks = output_hooks(*this);
  if (!hooks.retained) hooks.retained = std::make_shared<Tensor>();
  meta.retained = hooks.retained;
}

std::uint64_t Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  check_hookable("register_hook", *this);
  CT_CHECK(hook, ValueError, "register_hook", "the hook is empty; pass a function");
  const std::uint64_t id = next_hook_id();
  auto& hooks = is_leaf() ? detail::leaf_meta(get()).hooks : output_hooks(*this).hooks;
  hooks.add(id, std::move(hook));
  return id;
}

std::uint64_t Tensor::register_watcher(std::function<void(const Tensor&)> hook) const {
  if (!hook) return register_hook(std::function<Tensor(const Tensor&)>());  // throws
  return register_hook([hook = std::move(hook)](const Tensor& g) { return hook(g), Tensor(); });
}

std::uint64_t Tensor::register_post_accumulate_hook(std::function<void(const Tensor&)> hook) const {
  check_hookable("register_post_accumulate_hook", *this);
  CT_CHECK(hook, ValueError, "register_post_accumulate_hook", "the hook is empty; pass a function");
  CT_CHECK(is_leaf(), AutogradError, "register_post_accumulate_hook", "tensor ", describe(*this),
           " was made by '", grad_fn_name(), "'; only leaves accumulate gradients: use register_hook()");
  const std::uint64_t id = next_hook_id();
  detail::leaf_meta(get()).post_hooks.add(id, std::move(hook));
  return id;
}

void Tensor::remove_hook(std::uint64_t id) const {
  if (!is_leaf()) return output_hooks(*this).hooks.remove(id);
  if (!get().autograd) return;
  detail::leaf_meta(get()).hooks.remove(id);
  detail::leaf_meta(get()).post_hooks.remove(id);
}

std::string_view Tensor::grad_fn_name() const {
  return is_leaf() ? std::string_view{} : static_cast<const Node&>(*get().grad_fn).name();
}

}  // namespace ct
