#include <cotangent/core/op/op_observer.h>

#include <algorithm>

#include <cotangent/core/base/inline_vector.h>

namespace ct {

constinit std::atomic<int> detail::g_tracers{0};

namespace {
constinit std::atomic<OpObserver*> g_observer{nullptr};
constinit thread_local TracerScope* t_innermost = nullptr;
}  // namespace

OpObserver* set_op_observer(OpObserver* observer) {
  if (observer) detail::g_tracers.fetch_add(1, std::memory_order_acq_rel);
  OpObserver* const before = g_observer.exchange(observer, std::memory_order_acq_rel);
  if (before) detail::g_tracers.fetch_sub(1, std::memory_order_acq_rel);
  return before;
}

TracerScope::TracerScope(Tracer& tracer) noexcept : tracer_(tracer), outer_(t_innermost) {
  t_innermost = this;
  detail::g_tracers.fetch_add(1, std::memory_order_acq_rel);
}
TracerScope::~TracerScope() {
  detail::g_tracers.fetch_sub(1, std::memory_order_acq_rel);
  t_innermost = outer_;
}

// One call on its way through observer and tracers to the kernel.
struct detail::CallChain {
  const KernelCall& call;
  OpObserver* observer = g_observer.load(std::memory_order_acquire);
  InlineVector<Tracer*, 4> tracers{};  // from the outermost scope
  bool taken = false;

  explicit CallChain(const KernelCall& the_call) : call(the_call) {
    for (TracerScope* scope = t_innermost; scope; scope = scope->outer_)
      tracers.emplace_back(&scope->tracer_);
    std::reverse(tracers.begin(), tracers.end());
  }

  void run() {
    if (!observer) return run(0);
    observer->begin(call);
    between([&] { run(0); }, [&] { observer->end(call); });
  }
  void run(std::size_t i) {
    if (i == tracers.size()) {
      if (!taken) call.run();
      return;
    }
    if (tracers[i]->begin(call)) taken = true;
    between([&] { run(i + 1); }, [&] { tracers[i]->end(call); });
  }
  template <class Inner, class End>
  void between(Inner&& inner, End&& end) {
    try {
      inner();
    } catch (...) {
      try {
        end();
      } catch (...) {  // NOLINT: the kernel's exception is the one that matters
      }
      throw;
    }
    end();
  }
};

void detail::run_traced(const KernelCall& call) { CallChain(call).run(); }

}  // namespace ct
