#pragma once

#include <cotangent/nn/profile/profile.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

#include "examples/common/command_line.h"

/// --profile and --trace of a training program.
struct ProfileFlags {
  bool on = false;
  std::string trace;

  void add(flags::Flags flags) {
    flags.on("--profile", on,
             "print where the time and the memory of five steps go, and their share of the limit");
    flags.path("--trace", trace, "with --profile: file for these steps that ui.perfetto.dev opens");
  }
};

/// Profiles a few steps of a training, after some that warm up.
class StepProfile {
 public:
  explicit StepProfile(const ProfileFlags& flags) : flags_(flags) {}
  /// Begins a step.
  void step() {
    if (!flags_.on || finished_) return;
    if (++steps_ == kBefore + 1) profiler_.emplace(ct::ProfileOptions{.memory = true});
    if (steps_ == kBefore + kSteps + 1) finish();
  }
  /// Prints what there is, if that was not done yet: the training ends.
  void finish() {
    if (!flags_.on || finished_) return;
    finished_ = true;
    if (!profiler_) return void(std::printf("profile: there are no steps after the first %d\n", kBefore));
    const ct::Profile profile = profiler_->stop();
    profiler_.reset();
    std::cout << profile << std::flush;
    if (flags_.trace.empty()) return;
    profile.trace(flags_.trace);
    std::printf("%s: the calls, for ui.perfetto.dev\n", flags_.trace.c_str());
  }

 private:
  static constexpr int kBefore = 5, kSteps = 5;
  const ProfileFlags& flags_;
  int steps_ = 0;
  bool finished_ = false;
  std::optional<ct::Profiler> profiler_;
};

/// Share of the device's limit that a training reaches: the work of one step, counted by its ops, at the limits measured here.
class StepLimit {
 public:
  /// Begins a step. The third is counted.
  void step() {
    if (++steps_ == 3) profiler_.emplace();
    if (steps_ == 4) profile_ = profiler_->stop(), profiler_.reset();
  }
  /// "62% of limit" for a step that takes so many seconds; empty in the first seconds of a training, which are not worth
  /// measuring limits for.
  std::string text(double seconds) {
    if (!profile_ || std::chrono::steady_clock::now() - began_ < std::chrono::seconds(15)) return {};
    if (!least_) least_ = profile_->least_seconds();
    char words[32];
    std::snprintf(words, sizeof words, "  %.0f%% of limit", 100 * *least_ / seconds);
    return words;
  }

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::int64_t steps_ = 0;
  std::optional<ct::Profiler> profiler_;
  std::optional<ct::Profile> profile_;
  std::optional<double> least_;
};
