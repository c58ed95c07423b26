#include <cotangent/core/op/nvtx.h>

#include <cstdio>
#include <mutex>

#include <cotangent/core/device/runtime_internal.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/op/op_observer.h>

namespace ct {
namespace {

class NvtxRanges final : public OpObserver {
 public:
  void begin(const KernelCall& call) override {
    if (!call.backward) return detail::runtime::range_push(call.op.name);
    char text[96];
    std::snprintf(text, sizeof text, "%s backward", call.op.name);
    detail::runtime::range_push(text);
  }
  void end(const KernelCall&) override { detail::runtime::range_pop(); }
};

NvtxRanges& ranges() {
  static NvtxRanges& all = *new NvtxRanges;  // never destroyed: ops may run while the process ends
  return all;
}
OpObserver* g_replaced = nullptr;

}  // namespace

bool set_nvtx_ranges(bool on) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (on) {
    OpObserver* const before = set_op_observer(&ranges());
    if (before == &ranges()) return true;
    g_replaced = before;
    return false;
  }
  OpObserver* const before = set_op_observer(g_replaced);
  if (before == &ranges()) {
    g_replaced = nullptr;
    return true;
  }
  set_op_observer(before);  // somebody else's: it stays
  return false;
}

}  // namespace ct
