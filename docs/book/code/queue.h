#pragma once

#include <algorithm>

// Model of a host that queues work for a device, in microseconds: two clocks, and the moments at which one waits for the other.

namespace book {

struct Queue {
  double host = 0;    ///< the host's clock
  double device = 0;  ///< when the device will have done all that is queued

  static constexpr double kMark = 0.5;  ///< an event: for the host to queue
  static constexpr double kBack = 3.2;  ///< from the end of the work until the host knows of it

  /// Queues a call: it takes the host so long, and then the device, which begins when it is queued and the one before is done.
  void call(double on_host, double on_device) {
    host += on_host;
    device = std::max(device, host) + on_device;
  }
  /// Queues an event; returns when the device reaches it.
  double mark() {
    call(kMark, 0);
    return device;
  }
  /// The host waits until all is done.
  void wait() { host = std::max(host, device + kBack); }
};

}  // namespace book
