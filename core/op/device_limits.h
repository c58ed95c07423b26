#pragma once

#include <algorithm>
#include <vector>

#include <cotangent/core/op/op_def.h>

namespace ct {

/// The fastest that a device can do, as device_limits() measures it (nn/profile/profile.h).
struct DeviceLimits {
  /// Bytes per second of calls that move `moved` bytes or more.
  struct Rate {
    double moved = 0, bytes = 0;
  };

  double flops = 0;  ///< floating-point operations per second
  double bytes =
      0;  ///< of memory, read or written, per second; of the fastest cache, where `rates` tells caches apart
  /// From few bytes to many: what fits in a cache moves faster than memory does.
  std::vector<Rate> rates = {};

  /// Bytes per second of a call that moves `moved` bytes.
  double bytes_at(double moved) const {
    double rate = bytes;
    for (const Rate& r : rates)
      if (r.moved <= moved) rate = r.bytes;
    return rate;
  }
  /// Seconds that a call takes at least; 0 where a rate is not known.
  double least_seconds(const Cost& cost) const {
    const double rate = bytes_at(cost.bytes);
    return flops > 0 && rate > 0 ? std::max(cost.flops / flops, cost.bytes / rate) : 0;
  }
};

}  // namespace ct
