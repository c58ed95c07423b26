#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
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
    if (!due()) return;
    last_ = Clock::now();
    const double fraction = total > 0 ? std::clamp(done / total, 0.0, 1.0) : 0;
    char percent[16];
    std::snprintf(percent, sizeof percent, " %3.0f%%  ", 100 * fraction);
    std::string line = label + percent + text;
    if (terminal_) {
      const auto filled = static_cast<std::size_t>(fraction * kWidth);
      const std::string bar = " [" + std::string(filled, '#') + std::string(kWidth - filled, '.') + "]";
      // Only one row can be written again: without room for all, the bar goes first, then the end.
      const std::size_t room = columns();
      if (line.size() + bar.size() <= room) line.insert(label.size(), bar);
      line.resize(std::min(line.size(), room));
    }
    std::printf(terminal_ ? "\r%s\033[K" : "%s\n", line.c_str());
    std::fflush(stdout);
  }
  /// A line that stays.
  void line(const std::string& text) {
    std::printf("%s%s%s\n", terminal_ ? "\r" : "", text.c_str(), terminal_ ? "\033[K" : "");
    std::fflush(stdout);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kWidth = 24;  // of the bar
  static constexpr double kQuietSeconds = 5;
  // Columns that fit in a row of the terminal. The last one is left free: some terminals wrap there.
  static std::size_t columns() {
    winsize size{};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known ? size.ws_col - 1u : std::string::npos;
  }
  bool terminal_;
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
