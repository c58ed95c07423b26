#include <cotangent/core/op_observer.h>

namespace ct {

constinit std::atomic<OpObserver*> detail::g_op_observer{nullptr};

OpObserver* set_op_observer(OpObserver* observer) {
  return detail::g_op_observer.exchange(observer, std::memory_order_acq_rel);
}

}  // namespace ct
