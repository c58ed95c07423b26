#pragma once

#include <cotangent/core/base/error.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>

/// Message to the user for an exception: a line "PROGRAM: what was found; what to do".
inline std::string explained(const std::string& program, const std::exception& error) {
  std::string text = error.what();
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    text = file->path1().string() + ": " + file->code().message() +
           "; name a file or folder that can be reached";
  } else if (dynamic_cast<const std::bad_alloc*>(&error) || dynamic_cast<const std::length_error*>(&error)) {
    text = "out of memory (" + text + "); free some, or ask for less";
  } else if (!dynamic_cast<const ct::Error*>(&error)) {
    text = "something that this program does not expect: " + text + "; check what it was given";
  }
  // Its own name once.
  const std::string own = "[" + program + "] ";
  return program + ": " + (text.starts_with(own) ? text.substr(own.size()) : text) + "\n";
}

/// Return value of `main`: the exit code of run(argc, argv); 1 if it throws, or if it returns 0 and its output
/// could not be written (a full disk, a closed stdout). `advice`, which may be empty, is called after run()
/// has failed for lack of memory, and says what to do. A reader that has gone (`| head -1`) ends the program
/// silently, by its signal.
template <class Run, class Advice>
int with_standard_streams(const char* program, Run&& run, Advice&& advice) {
  // A file of ours must not get the number of a stream that the caller has closed, or prints would go into
  // it. Opened for reading: to print there fails.
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    if (fcntl(stream, F_GETFD) < 0) (void)open("/dev/null", O_RDONLY);
  // A file that grows over the limit is a failed write, which has a message, instead of a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  int code = 1;
  try {
    code = run();
  } catch (const std::exception& e) {
    std::fputs(explained(program, e).c_str(), stderr);
    const bool memory = dynamic_cast<const ct::OutOfMemoryError*>(&e) ||
                        dynamic_cast<const std::bad_alloc*>(&e) || dynamic_cast<const std::length_error*>(&e);
    const std::string text = memory ? advice() : std::string();
    if (!text.empty()) std::fprintf(stderr, "%s: %s\n", program, text.c_str());
  } catch (...) {
    std::fprintf(stderr, "%s: something that this program does not expect; check what it was given\n",
                 program);
  }
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr,
               "%s: [stdout] what was printed could not all be written%s%s; free space or redirect it\n",
               program, errno ? ": " : "", errno ? std::strerror(errno) : "");
  return code == 0 ? 1 : code;
}
