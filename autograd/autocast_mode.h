#pragma once

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

// The calling thread's autocast mode, and the converted weights that go with it. ct::Autocast
// (ops/autocast.h) is the public face; it lies here because recompute() brings the mode back.

namespace ct::detail {

struct AutocastMode {
  bool enabled = false;
  DType dtype = DType::bf16;
  bool cache_weights = true;
};

// constinit lets the compiler read it without a guard.
CT_API AutocastMode& autocast_mode();
inline bool autocast_enabled() { return autocast_mode().enabled; }

/// `t` in `dtype`, recorded on the tape. A weight (an f32 leaf that requires a gradient) that becomes f16 or
/// bf16 is converted once for as long as the outermost guard lives: until it is changed in place, moved, or
/// used on another stream.
CT_API Tensor autocast_convert(const Tensor& t, DType dtype);

/// Sets the mode of this thread while it lives. The end of the outermost one forgets the converted weights.
class CT_API AutocastModeGuard {
 public:
  /// `apart`: converted weights from outside are not seen within, nor the other way round.
  [[nodiscard]] explicit AutocastModeGuard(const AutocastMode& mode, bool apart = false);
  ~AutocastModeGuard();
  AutocastModeGuard(const AutocastModeGuard&) = delete;
  AutocastModeGuard& operator=(const AutocastModeGuard&) = delete;

 private:
  AutocastMode previous_;
  void* outer_cache_ = nullptr;
  bool apart_ = false;
};

}  // namespace ct::detail
