#pragma once

#include <cstddef>
#include <vector>

// A host that queues calls into streams of a device, and when all is done.

namespace answer {

struct Call {
  double host;    ///< microseconds that the host takes to queue it
  double device;  ///< that the device takes for it
  int stream;     ///< of one stream calls run in the order in which they were queued; of two at once
  int after;      ///< the number of an earlier call that must be done before it begins (an event); -1: none
  bool blocks;    ///< the host goes on only when the call is done: item(), a copy of pageable memory
};

/// When the device has done the last of the calls, in microseconds since the host began with the first.
inline double finish(const std::vector<Call>& calls) {
  double done = 0;
  for (const Call& call : calls) done += call.host + call.device;  // yours: host and streams work at once
  return done;
}

}  // namespace answer
