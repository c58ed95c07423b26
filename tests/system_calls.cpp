#include "tests/system_calls.h"

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

struct Plan {
  const char* name = nullptr;
  int nth = 0, error = 0, times = 0, calls = 0, failed = 0;
};
thread_local Plan g_plan;
thread_local mode_t g_created_mode = 0;
std::atomic<int> g_umask_calls = 0;

bool fails(const char* name) {
  Plan& p = g_plan;
  if (!p.name || std::strcmp(p.name, name) != 0) return false;
  ++p.calls;
  if (p.calls < p.nth || p.calls - p.nth >= p.times || p.failed >= 1000) return false;
  ++p.failed;
  errno = p.error;
  return true;
}

// The C library's function, or that of a sanitizer before it.
template <class F>
F* next(F*, const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}
#define NEXT(function) static auto* const real = next(&::function, #function)

}  // namespace

namespace ct::testing {

FailingCalls::FailingCalls(const char* name, int nth, int error, int times) {
  g_plan = {name, nth, error, times, 0, 0};
}
FailingCalls::~FailingCalls() { g_plan = {}; }
int FailingCalls::calls() const { return g_plan.calls; }
int FailingCalls::failed() const { return g_plan.failed; }
int umask_calls() { return g_umask_calls; }
mode_t created_mode() { return g_created_mode; }

}  // namespace ct::testing

extern "C" {

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
    g_created_mode = mode;
  }
  NEXT(open);
  return fails("open") ? -1 : real(path, flags, mode);
}
DIR* opendir(const char* path) {
  NEXT(opendir);
  return fails("opendir") ? nullptr : real(path);
}
int flock(int fd, int operation) noexcept {
  NEXT(flock);
  return fails("flock") ? -1 : real(fd, operation);
}
int stat(const char* path, struct stat* info) noexcept {
  static auto* const real = next(static_cast<int (*)(const char*, struct stat*)>(nullptr), "stat");
  return fails("stat") ? -1 : real(path, info);
}
int fstat(int fd, struct stat* info) noexcept {
  NEXT(fstat);
  return fails("fstat") ? -1 : real(fd, info);
}
int fchmod(int fd, mode_t mode) noexcept {
  NEXT(fchmod);
  return fails("fchmod") ? -1 : real(fd, mode);
}
ssize_t write(int fd, const void* data, std::size_t bytes) {
  NEXT(write);
  return fails("write") ? -1 : real(fd, data, bytes);
}
ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t offset) {
  NEXT(pwrite);
  return fails("pwrite") ? -1 : real(fd, data, bytes, offset);
}
int fsync(int fd) {
  NEXT(fsync);
  if (fails("fsync")) return -1;
  return g_plan.name ? 0 : real(fd);
}
int rename(const char* from, const char* to) noexcept {
  NEXT(rename);
  return fails("rename") ? -1 : real(from, to);
}
int close(int fd) {
  NEXT(close);
  const bool bad = fails("close");
  const int error = errno, status = real(fd);
  if (bad) errno = error;
  return bad ? -1 : status;
}
mode_t umask(mode_t mask) noexcept {
  NEXT(umask);
  ++g_umask_calls;
  return real(mask);
}

}  // extern "C"
