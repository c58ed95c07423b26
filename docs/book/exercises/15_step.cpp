#include <book.h>

#include <15_step.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

// Judges finish() with training loops of four steps whose times are known, and with calls that catch one mistake each.
// wrong: if (call.blocks) host = done.back(); ==>
// wrong: std::max(host, stream[call.stream]) ==> host

namespace {

using answer::Call;

/// Four steps: a copy of the batch, four kernels, and the loss, which is read or not.
struct Loop {
  const char* name;
  bool pinned;  // the copy does not block, and has a stream of its own, whose end the kernels wait for
  bool reads_loss;
  double wanted;
};

std::vector<Call> calls_of(const Loop& loop) {
  std::vector<Call> calls;
  for (int step = 0; step < 4; ++step) {
    const int copy = static_cast<int>(calls.size());
    calls.push_back({2, 30, loop.pinned ? 1 : 0, -1, !loop.pinned});
    for (int kernel = 0; kernel < 4; ++kernel) calls.push_back({3, 10, 0, kernel == 0 ? copy : -1, false});
    if (loop.reads_loss) calls.push_back({2, 1, 0, -1, true});
  }
  return calls;
}

void check(const char* name, const std::vector<Call>& calls, double wanted) {
  const double found = answer::finish(calls);
  std::printf("%-50s yours %6.1f us, right %6.1f\n", name, found, wanted);
  book::claim(std::abs(found - wanted) < 1e-9, std::string("the time of \"") + name + "\"");
}

void judge() {
  check("nothing", {}, 0);
  check("one call", {{3, 10, 0, -1, false}}, 13);
  check("the device is slower", {{3, 10, 0, -1, false}, {3, 10, 0, -1, false}}, 23);
  check("first the host is slower, then the device",
        {{20, 1, 0, -1, false}, {1, 50, 0, -1, false}, {1, 50, 0, -1, false}}, 121);
  check("two streams", {{3, 100, 0, -1, false}, {3, 100, 1, -1, false}}, 106);
  check("two streams and an event", {{3, 100, 0, -1, false}, {3, 100, 1, 0, false}}, 203);
  check("the longest is not the last", {{3, 100, 0, -1, false}, {3, 5, 1, -1, false}}, 103);
  check("a call that blocks", {{3, 10, 0, -1, true}, {20, 10, 0, -1, false}}, 43);
  for (const Loop& loop : {Loop{"pageable copies, the loss is read", false, true, 304},
                           Loop{"pinned copies beside the kernels, the loss is read", true, true, 292},
                           Loop{"pageable copies", false, false, 294},
                           Loop{"pinned copies beside the kernels", true, false, 192}})
    check(loop.name, calls_of(loop), loop.wanted);
  std::printf("right: neither alone helps much\n");
}

}  // namespace

int main() { return book::run(judge); }
