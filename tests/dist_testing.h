#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include <cotangent/ops/collective/group.h>
#include <cotangent/ops/creation/creation.h>

// Ranks as threads of a test. Catch's macros are for one thread: a rank gives its tensors back, and the test looks at them.

namespace ct::testing {

struct Ranks {
  int count;
  std::vector<Device> devices = {};
  std::chrono::milliseconds timeout = std::chrono::seconds(60);

  /// Results of each rank, on the CPU.
  std::vector<std::vector<Tensor>> run(
      const std::function<std::vector<Tensor>(const dist::Group&)>& f) const {
    std::vector<std::vector<Tensor>> results(static_cast<std::size_t>(count));
    dist::run_threads(
        count,
        [&](const dist::Group& group) {
          std::vector<Tensor> mine = f(group);
          for (Tensor& t : mine) t = t.detach().to(cpu);
          results[static_cast<std::size_t>(group.rank())] = std::move(mine);
        },
        {.timeout = timeout}, devices);
    return results;
  }
};

}  // namespace ct::testing
