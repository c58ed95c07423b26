#include <algorithm>
#include <string>

#include "bench/ladders/ladder.h"

namespace ct::ladder {

std::vector<Ladder>& all() {
  static std::vector<Ladder> ladders;
  return ladders;
}

bool add(Ladder ladder) {
  const auto before = [](const Ladder& a, const Ladder& b) {
    return a.device != b.device ? a.device == DeviceType::cpu : std::string(a.name) < b.name;
  };
  all().insert(std::upper_bound(all().begin(), all().end(), ladder, before), std::move(ladder));
  return true;
}

bool runs_here(const Ladder& ladder, const Rung& rung) {
  if (ladder.device == DeviceType::cpu) return true;
  return cuda_is_available() && (!rung.hopper || cuda_properties(0).compute_major == 9);
}

}  // namespace ct::ladder
