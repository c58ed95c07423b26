#pragma once

#include <csignal>
#include <cstdlib>

// Ctrl-C in a program that has something to save.

namespace detail {
inline volatile std::sig_atomic_t g_interrupts = 0;

inline void on_interrupt(int) {
  g_interrupts = g_interrupts + 1;
  if (g_interrupts > 1) std::_Exit(130);
}
}  // namespace detail

/// From now on the first SIGINT, SIGTERM or SIGHUP (a terminal that is closed) is only remembered; the second
/// ends the program at once, with 130. Under nohup SIGHUP stays ignored.
inline void watch_interrupts() {
  std::signal(SIGINT, detail::on_interrupt);
  std::signal(SIGTERM, detail::on_interrupt);
  if (std::signal(SIGHUP, detail::on_interrupt) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

/// Whether the user has asked to stop.
inline bool interrupted() { return detail::g_interrupts > 0; }
