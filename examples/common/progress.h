#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

/// Progress of a training run: one line that is rewritten on a terminal, plain lines now and then elsewhere.
class Progress {
 public:
  Progress() : terminal_(isatty(STDOUT_FILENO) != 0), last_(Clock::now()) {}

  /// Whether update() would draw now, for figures that cost something.
  bool due() const {
    return std::chrono::duration<double>(Clock::now() - last_).count() >= (terminal_ ? 0.1 : kQuietSeconds);
  }
  /// `done` of `total` units; `text` holds the figures. Draws at most ten times a second on a terminal, and
  /// every few seconds elsewhere.
  void update(const std::string& label, double done, double total, const std::string& text) {
    const Clock::time_point now = Clock::now();
    const double since = std::chrono::duration<double>(now - last_).count();
    if (since < (terminal_ ? 0.1 : kQuietSeconds) && shown_) return;
    last_ = now;
    if (!terminal_ && !shown_) {
      shown_ = true;
      return;  // elsewhere the first line comes after the first interval
    }
    shown_ = true;
    const double fraction = total > 0 ? done / total : 0;
    if (terminal_) {
      std::string bar(static_cast<std::size_t>(kWidth), '.');
      for (int i = 0; i < static_cast<int>(fraction * kWidth); ++i) bar[static_cast<std::size_t>(i)] = '#';
      std::printf("\r%s [%s] %3.0f%%  %s\033[K", label.c_str(), bar.c_str(), 100 * fraction, text.c_str());
    } else {
      std::printf("%s %3.0f%%  %s\n", label.c_str(), 100 * fraction, text.c_str());
    }
    std::fflush(stdout);
  }
  /// A line that stays.
  void line(const std::string& text) {
    std::printf("%s%s%s\n", terminal_ ? "\r" : "", text.c_str(), terminal_ ? "\033[K" : "");
    std::fflush(stdout);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kWidth = 24;
  static constexpr double kQuietSeconds = 5;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point last_;
};

/// "1:05:02", "2:07".
inline std::string clock_text(double seconds) {
  const long s = seconds > 0 ? static_cast<long>(seconds + 0.5) : 0;
  char text[32];
  if (s >= 3600) {
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld:%02ld", s / 60, s % 60);
  }
  return text;
}
