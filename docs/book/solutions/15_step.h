#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

// A call begins when three things have happened: the host has queued it, its stream has done what was queued before, and the
// call that it waits for is done. The largest of three times, so
//   done_i = max(queued_i, done of the stream, done of the event) + device_i
// and the host's clock is the sum of what it queued, but for a call that blocks, which sets it to done_i.

namespace answer {

struct Call {
  double host;
  double device;
  int stream;
  int after;
  bool blocks;
};

inline double finish(const std::vector<Call>& calls) {
  double host = 0, last = 0;
  std::map<int, double> stream;
  std::vector<double> done;
  for (const Call& call : calls) {
    host += call.host;
    double begin = std::max(host, stream[call.stream]);
    if (call.after >= 0) begin = std::max(begin, done[static_cast<std::size_t>(call.after)]);
    done.push_back(stream[call.stream] = begin + call.device);
    if (call.blocks) host = done.back();
    last = std::max(last, done.back());
  }
  return last;
}

}  // namespace answer
