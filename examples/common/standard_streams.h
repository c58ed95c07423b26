#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

/// What `main` returns: the exit code of run(argc, argv), or 1 if that is 0 and what it printed could not be
/// written (a full disk, a closed stdout). A reader that has gone (`| head -1`) ends the program by its
/// signal, silently.
template <class Run>
int with_standard_streams(const char* program, Run&& run, int argc, char** argv) {
  // A file of ours must not get the number of a stream that the caller has closed, or prints would go into
  // it. Opened for reading: to print there fails.
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    if (fcntl(stream, F_GETFD) < 0) (void)open("/dev/null", O_RDONLY);
  // A file that grows over the limit is a failed write, which has a message, instead of a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  const int code = run(argc, argv);
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr,
               "%s: [stdout] what was printed could not all be written%s%s; free space or redirect it\n",
               program, errno ? ": " : "", errno ? std::strerror(errno) : "");
  return code == 0 ? 1 : code;
}
