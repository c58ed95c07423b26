#pragma once

#include <atomic>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/function_ref.h>
#include <cotangent/core/device/in_call.h>

namespace ct {

struct OpDef;
struct Forward;
struct Backward;
namespace detail {
struct CallChain;
}

/// One run of a kernel: its op, and the call with its tensors and attributes, of which one pointer is set. The kernel's
/// work is queued on the current stream of the current device (core/device/stream.h).
struct KernelCall {
  const OpDef& op;
  const Forward* forward = nullptr;
  const Backward* backward = nullptr;
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
CT_API void run_traced(const KernelCall& call, FunctionRef<void()> kernel);

/// Runs a kernel between the calls of observer and tracers, if there are any.
template <class Kernel>
void observed(const KernelCall& call, Kernel&& kernel) {
  const InCall inside;
  if (!traced()) [[likely]]
    return kernel();
  run_traced(call, kernel);
}
}  // namespace detail

}  // namespace ct
