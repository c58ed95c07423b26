#pragma once

#include <atomic>

#include <cotangent/core/base/export.h>
#include <cotangent/core/device/in_call.h>
#include <cotangent/core/op/op_call.h>

namespace ct {

namespace detail {
struct CallChain;
}

/// One run of a kernel: its op, the call with its tensors and attributes, and the kernel that was chosen for it, of one
/// direction; the pointers of the other are null. The kernel's work is queued on the current stream of the current device
/// (core/device/stream.h).
struct KernelCall {
  /// A tensor's part in a call. Inputs are those that the backward kernel reads, where it is one.
  enum class Part : std::uint8_t { input, saved_output, grad, result };

  KernelCall(const Forward& call, ForwardFn kernel) : op(call.op), forward(&call), forward_kernel(kernel) {}
  KernelCall(const Backward& call, BackwardFn kernel)
      : op(call.op), backward(&call), backward_kernel(kernel) {}

  void run() const { forward ? forward_kernel(*forward) : backward_kernel(*backward); }
  AttrsView attrs() const { return forward ? forward->attrs_view : backward->attrs_view; }
  /// Outputs or gradients. The latter are undefined until the kernel has run, unless it adds to them.
  std::span<Tensor> results() const { return forward ? forward->outputs : backward->grad_inputs; }
  /// Calls f(tensor, part) for every tensor there is a place for, results last.
  template <class F>
  void for_each_tensor(F&& f) const {
    if (forward) {
      for (const Tensor* t : forward->inputs) f(*t, Part::input);
    } else {
      for (const Tensor& t : backward->saved_inputs) f(t, Part::input);
      for (const Tensor& t : backward->saved_outputs) f(t, Part::saved_output);
      for (const Tensor& t : backward->grads) f(t, Part::grad);
    }
    for (const Tensor& t : results()) f(t, Part::result);
  }

  const OpDef& op;
  const Forward* forward = nullptr;
  const Backward* backward = nullptr;
  ForwardFn forward_kernel = nullptr;
  BackwardFn backward_kernel = nullptr;
};

/// Called around every kernel, forward and backward, on the thread that calls it, for profilers. Null (the
/// default) costs one load. Calls nest where a kernel is made of other ops. What recompute() and custom
/// functions do is seen as the ops that it consists of.
///
/// An exception of begin() leaves the op; end() is not called then. After a kernel that throws end() is called,
/// and what it throws is dropped. Neither may call backward() or Tensor::grad(): a gradient may be locked.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void begin(const KernelCall& call) = 0;
  virtual void end(const KernelCall& call) = 0;
};
/// Installs an observer for the whole process and returns the previous one. It must outlive its use.
CT_API OpObserver* set_op_observer(OpObserver* observer);

/// Sees the calls of one thread, for recorders and for code that runs several calls as one. Begin and end as OpObserver's.
class Tracer {
 public:
  virtual ~Tracer() = default;
  /// True says "I have it": the tracer has written the results, and the op's kernel does not run.
  virtual bool begin(const KernelCall& call) = 0;
  virtual void end(const KernelCall& call) = 0;
};
/// Adds a tracer to the calling thread's chain until the scope ends; scopes end in the reverse order. A call begins with the
/// process's observer, then with each tracer from the outermost scope inwards, and ends the other way round. All of them
/// see a call that one of them has.
class CT_API TracerScope {
 public:
  explicit TracerScope(Tracer& tracer) noexcept;
  ~TracerScope();
  TracerScope(const TracerScope&) = delete;
  TracerScope& operator=(const TracerScope&) = delete;

 private:
  friend struct detail::CallChain;
  Tracer& tracer_;
  TracerScope* outer_;
};

namespace detail {
// The number of observers and scopes of all threads.
CT_API extern std::atomic<int> g_tracers;
inline bool traced() noexcept { return g_tracers.load(std::memory_order_acquire) != 0; }
CT_API void run_traced(const KernelCall& call);

/// Runs a kernel between the calls of observer and tracers, if there are any.
template <class Call>
void observed(const Call& call, void (*kernel)(const Call&)) {
  const InCall inside;
  if (!traced()) [[likely]]
    return kernel(call);
  run_traced({call, kernel});
}
}  // namespace detail

}  // namespace ct
