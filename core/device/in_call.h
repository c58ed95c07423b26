#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>

// Debug builds of this project (COTANGENT_CHECK_CALLS) refuse work on tensors outside of a call of an op: no observer, recorder
// or profiler would see it.

namespace ct::detail {

#ifdef COTANGENT_CHECK_CALLS
/// Marks the calling thread as inside of a call: execute() does (core/op/execute.h).
class CT_API InCall {
 public:
  InCall() noexcept;
  ~InCall();
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;
};
/// Throws Error outside of a call, but for chunks of parallel work, which lie in their caller's.
CT_API void require_call(const char* what);
/// For tests of what kernels stand on, which call it themselves. On at first.
CT_API void set_call_checks(bool on);
/// The calling thread's pieces of work so far, parallel loops and launches, inside of calls or not.
CT_API std::uint64_t work_count();
#else
struct InCall {
  InCall() noexcept {}
  ~InCall() {}
};
inline void require_call(const char*) {}
#endif

}  // namespace ct::detail
