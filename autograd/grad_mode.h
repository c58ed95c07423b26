#pragma once

#include <cotangent/core/base/export.h>

namespace ct {

namespace detail {
// One instance per thread. constinit lets the compiler read it without a guard.
struct GradModeState {
  bool enabled = true;
};
CT_API GradModeState& grad_mode_state();
}  // namespace detail

/// Whether ops of this thread are recorded on the tape (they are unless a guard says otherwise).
inline bool grad_enabled() { return detail::grad_mode_state().enabled; }

/// Turns recording on or off for this thread while it lives.
class GradModeGuard {
 public:
  [[nodiscard]] explicit GradModeGuard(bool enabled) : previous_(grad_enabled()) {
    detail::grad_mode_state().enabled = enabled;
  }
  ~GradModeGuard() { detail::grad_mode_state().enabled = previous_; }
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  bool previous_;
};

/// `ct::NoGrad guard;`: nothing is recorded while it lives.
class NoGrad : public GradModeGuard {
 public:
  [[nodiscard]] NoGrad() : GradModeGuard(false) {}
};

/// `ct::EnableGrad guard;`: recording is on while it lives, also inside a NoGrad.
class EnableGrad : public GradModeGuard {
 public:
  [[nodiscard]] EnableGrad() : GradModeGuard(true) {}
};

}  // namespace ct
