#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

// A step as a list of calls, in the plainest way: run once and written down, then run again without the code that made it.

namespace book {

/// Numbers of a model, its gradient and its optimizer, in memory that stays where it is.
struct Memory {
  double w = 0, g = 0, mask = 0;
  // The mailbox of a recording: numbers that change from step to step.
  double lr = 0;
  std::uint64_t offset = 0;
};

class Recorder {
 public:
  /// Runs a call, and writes it down.
  void call(std::function<void(Memory&)> kernel) {
    kernel(memory);
    calls_.push_back(std::move(kernel));
  }
  /// Runs again what was written down.
  void replay() {
    for (const auto& kernel : calls_) kernel(memory);
  }

  Memory memory;

 private:
  std::vector<std::function<void(Memory&)>> calls_;
};

}  // namespace book
