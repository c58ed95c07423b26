#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/autograd/node.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/nn/explain/explain_internal.h>
#include <cotangent/ops/reduce/reduce.h>

namespace ct {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

void wait_for(Device device) {
  if (device.is_cuda()) synchronize(device);
}

double norm_of(const Tensor& g) {
  const NoGrad guard;
  return norm(is_low_precision(g.dtype()) ? g.to(f32) : g).item();
}

// Takes the hooks of a tape away while it lives, and with them what retain_grad() asked for.
class HooksAside {
 public:
  explicit HooksAside(const explain_impl::Tape& tape) : tape_(tape) {
    for (Node* node : tape.nodes) nodes_.push_back(std::exchange(node->output_hooks, {}));
    for (TensorImpl* leaf : tape.leaves) leaves_.push_back(std::exchange(detail::leaf_meta(*leaf).hooks, {}));
  }
  ~HooksAside() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) tape_.nodes[i]->output_hooks = std::move(nodes_[i]);
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      detail::leaf_meta(*tape_.leaves[i]).hooks = std::move(leaves_[i]);
  }
  HooksAside(const HooksAside&) = delete;
  HooksAside& operator=(const HooksAside&) = delete;

 private:
  const explain_impl::Tape& tape_;
  std::vector<std::vector<OutputHooks>> nodes_;
  std::vector<HookList<TensorHook>> leaves_;
};

}  // namespace

void explain_impl::go_back(const Tensor& loss, const Tape& tape, const ExplainOptions& options,
                           Explanation& result) {
  const HooksAside aside(tape);
  const Device device = loss.device();
  Explanation::Node* running = nullptr;  // the node whose part of the way it is, since `started`
  Clock::time_point started;
  const auto stop = [&] {
    if (!options.times) return;
    wait_for(device);
    if (running)
      running->backward_us = running->backward_us.value_or(0) + microseconds(Clock::now() - started);
  };
  for (std::size_t i = 0; i < tape.nodes.size(); ++i) {
    Explanation::Node& shown = result.nodes[i];
    for (std::uint32_t k = 0; k < tape.nodes[i]->output_count(); ++k)
      tape.nodes[i]->output_hooks.push_back({k, {}, nullptr});
    for (OutputHooks& output : tape.nodes[i]->output_hooks)
      output.hooks.add(0, [&](const Tensor& g) {
        stop();
        if (options.grads) shown.grad_norm = std::hypot(shown.grad_norm.value_or(0), norm_of(g));
        running = &shown;
        started = Clock::now();
        return Tensor();
      });
  }
  std::vector<Tensor> wanted;  // tensors that recompute() captured are known by name only
  std::unordered_set<const TensorImpl*> seen;
  for (TensorImpl* leaf : tape.leaves) wanted.emplace_back(Ref<TensorImpl>::share(leaf)), seen.insert(leaf);
  for (const nn::Named<Tensor>& named : options.names)
    if (named.value.defined() && named.value.requires_grad() && seen.insert(named.value.impl()).second)
      wanted.push_back(named.value);
  const std::vector<Tensor> grads = grad({loss}, wanted, {}, {.retain_graph = true, .allow_unused = true});
  stop();
  for (std::size_t i = 0; options.grads && i < tape.leaves.size(); ++i)
    if (grads[i].defined()) result.leaves[i].grad_norm = norm_of(grads[i]);
}

// ---- ForwardWatch -----------------------------------------------------------------------------------------

struct ForwardWatch::Impl final : OpObserver {
  struct Run {
    std::uint64_t mark;  // the tape's number when it began; its node has the next, or in place the one before
    const OpDef* op;
    Clock::time_point started;
    double us = -1, least = 0;
  };

  explicit Impl(const DeviceLimits& l) : limits(l), before(set_op_observer(this)) { here() = {}; }
  ~Impl() override { set_op_observer(before); }

  void begin(const KernelCall& call) override {
    if (!call.forward || here().depth++ > 0) return;
    Run run{0, &call.op, {}};
    if (limits.flops > 0 && limits.bytes > 0) {
      std::vector<TensorMeta> in, out;
      for (const auto& t : call.forward->inputs)
        in.push_back(t->defined() ? t->meta() : TensorMeta{{0}, {}, {}});
      for (const Tensor& t : call.forward->outputs)
        out.push_back(t.defined() ? t.meta() : TensorMeta{{0}, {}, {}});
      run.least = 1e6 * limits.least_seconds(cost_of(call.op, in, out, call.forward->attrs_view));
    }
    wait_for(call.forward->in(0).device());
    const std::lock_guard lock(mutex);
    here().place = runs.size();
    run.mark = detail::next_sequence();
    run.started = Clock::now();
    runs.push_back(run);
  }
  void end(const KernelCall& call) override {
    if (!call.forward || --here().depth > 0) return;
    wait_for(call.forward->in(0).device());
    const auto now = Clock::now();
    const std::lock_guard lock(mutex);
    runs[here().place].us = microseconds(now - runs[here().place].started);
  }

  // Kernels nest: how deep this thread is in them, and which run the outermost is.
  struct Here {
    int depth = 0;
    std::size_t place = 0;
  };
  static Here& here() {
    static thread_local Here state;
    return state;
  }

  DeviceLimits limits;
  OpObserver* before;
  std::mutex mutex;
  std::vector<Run> runs;
};

ForwardWatch::ForwardWatch(const DeviceLimits& limits) : impl_(std::make_shared<Impl>(limits)) {}
ForwardWatch::~ForwardWatch() = default;

void ForwardWatch::add_to(Explanation& result, const explain_impl::Tape& tape) const {
  const std::lock_guard lock(impl_->mutex);
  const auto& runs = impl_->runs;
  std::vector<bool> taken(runs.size());
  for (std::size_t i = 0; i < tape.nodes.size(); ++i) {
    const auto* node = dynamic_cast<const OpNode*>(tape.nodes[i]);
    if (!node) continue;
    const auto fits = [&](std::size_t r) {
      return r < runs.size() && !taken[r] && runs[r].op == &node->op();
    };
    // The last one before the node was recorded; of an op in place, which is recorded first, the one after.
    auto r = static_cast<std::size_t>(
        std::partition_point(runs.begin(), runs.end(),
                             [&](const auto& run) { return run.mark < node->sequence(); }) -
        runs.begin());
    if (r > 0 && fits(r - 1)) --r;
    if (!fits(r) || runs[r].us < 0) continue;
    taken[r] = true;
    result.nodes[i].forward_us = runs[r].us;
    if (runs[r].least > 0) result.nodes[i].share = runs[r].least / runs[r].us;
  }
}

}  // namespace ct
