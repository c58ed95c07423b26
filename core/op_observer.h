#pragma once

#include <atomic>

#include <cotangent/core/export.h>

namespace ct {

struct OpDef;
struct Forward;
struct Backward;

/// One run of a kernel: its op, and the call with its tensors and attributes, of which one pointer is set. The kernel's
/// work is queued on the current stream of the current device (core/stream.h).
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

namespace detail {
CT_API extern std::atomic<OpObserver*> g_op_observer;

/// Runs a kernel between the observer's calls, if there is one.
template <class Kernel>
void observed(const KernelCall& call, Kernel&& kernel) {
  OpObserver* const observer = g_op_observer.load(std::memory_order_acquire);
  if (!observer) [[likely]]
    return kernel();
  observer->begin(call);
  try {
    kernel();
  } catch (...) {
    try {
      observer->end(call);
    } catch (...) {  // NOLINT: the kernel's exception is the one that matters
    }
    throw;
  }
  observer->end(call);
}
}  // namespace detail

}  // namespace ct
