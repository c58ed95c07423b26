#include <cotangent/ops/nvtx.h>

#include <cstdio>
#include <mutex>

#include <cotangent/ops/dispatch.h>

#ifdef COTANGENT_CUDA
#include <nvtx3/nvToolsExt.h>
#endif

namespace ct {
namespace {

class NvtxRanges final : public OpObserver {
 public:
#ifdef COTANGENT_CUDA
  void begin(const OpDef& op, bool backward) override {
    if (!backward) {
      nvtxRangePushA(op.name);
      return;
    }
    char text[96];
    std::snprintf(text, sizeof text, "%s backward", op.name);
    nvtxRangePushA(text);
  }
  void end(const OpDef&, bool) override { nvtxRangePop(); }
#else
  void begin(const OpDef&, bool) override {}
  void end(const OpDef&, bool) override {}
#endif
};

NvtxRanges g_ranges;
OpObserver* g_replaced = nullptr;

}  // namespace

bool set_nvtx_ranges(bool on) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (on) {
    OpObserver* const before = set_op_observer(&g_ranges);
    if (before == &g_ranges) return true;
    g_replaced = before;
    return false;
  }
  OpObserver* const before = set_op_observer(g_replaced);
  if (before == &g_ranges) {
    g_replaced = nullptr;
    return true;
  }
  set_op_observer(before);  // somebody else's: it stays
  return false;
}

}  // namespace ct
