#include <cotangent/autograd/grad_mode.h>

namespace ct::detail {

GradModeState& grad_mode_state() {
  static constinit thread_local GradModeState state;
  return state;
}

}  // namespace ct::detail
