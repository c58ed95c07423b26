#pragma once

#include <sys/types.h>

// Calls of the system that fail when a test wants it. The functions of this name in tests/system_calls.cpp
// stand before those of the C library, for the whole program; without a FailingCalls they pass everything on.

namespace ct::testing {

/// While it lives, calls number `nth` to `nth + times - 1` of one function, counted from 1, fail in this thread
/// with `error`: of open, opendir, flock, fstat, fchmod, write, pwrite, fsync, rename, close (which closes all
/// the same) and stat. No more than 1000 fail, lest the program that is tested tries for ever. Meanwhile fsync
/// does nothing else, for speed.
class FailingCalls {
 public:
  FailingCalls(const char* name, int nth, int error, int times = 1);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;
  /// Number of calls, and of those that failed.
  int calls() const;
  int failed() const;
};

/// The calls of umask() by this program.
int umask_calls();
/// Mode that this thread's last open() that could make a file asked for.
mode_t created_mode();

}  // namespace ct::testing
