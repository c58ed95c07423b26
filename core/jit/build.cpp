#include <cotangent/core/jit/build_internal.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cotangent/core/base/error.h>

namespace fs = std::filesystem;

namespace ct::jit {
namespace {

// A file descriptor that closes itself.
struct Descriptor {
  int fd = -1;
  explicit Descriptor(int its_fd) : fd(its_fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }
  void reset() {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

// Appends what is there until its end; false where that can't be read.
bool read_all(const Descriptor& from, std::string& to) {
  char buffer[1 << 14];
  ssize_t n = 0;
  while ((n = ::read(from.fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR))
    if (n > 0) to.append(buffer, static_cast<std::size_t>(n));
  return n == 0;
}

// A whole file at once: a stream's iterators would go through it byte by byte.
bool read_bytes(const std::string& path, std::string& to) {
  to.clear();
  return read_all(Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), to);
}

// A folder of this process alone where there is no home: a folder with a known name may be another user's.
std::string private_cache(const char* op) {
  static const std::string& folder = *new std::string([op] {
    std::string name = variable("TMPDIR", "/tmp") + "/cotangent-XXXXXX";
    CT_CHECK(::mkdtemp(name.data()) != nullptr, IoError, op, "there is neither a home nor room for ", name,
             ": ", std::strerror(errno), "; name a folder in COTANGENT_CACHE");
    return name;
  }());
  return folder;
}

std::string default_cache(const char* op) {
  if (std::string named = variable("COTANGENT_CACHE"); !named.empty()) return named;
  const std::string home = variable("HOME"),
                    base = variable("XDG_CACHE_HOME", home.empty() ? "" : home + "/.cache");
  return base.empty() ? private_cache(op) : base + "/cotangent";
}

// Whether only this user, and root, can have written the file.
bool is_ours(const struct stat& s) {
  return (s.st_uid == ::geteuid() || s.st_uid == 0) && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

void make_folder(const char* op, const fs::path& folder) {
  struct stat s {};
  const bool there =
      (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) && ::stat(folder.c_str(), &s) == 0;
  CT_CHECK(there, IoError, op, "the cache ", folder.string(), " can't be written: ", std::strerror(errno),
           "; name a folder that can in COTANGENT_CACHE");
  CT_CHECK(S_ISDIR(s.st_mode) && is_ours(s), IoError, op, "the cache ", folder.string(),
           " is no folder of this user's that others can't write to, and what lies there would run; remove "
           "it, or name another "
           "in COTANGENT_CACHE");
}

// At the end of each file of the cache.
std::string digest_line(std::string_view contents) {
  Fingerprint digest;
  digest.add(contents);
  return "\ncotangent digest " + digest.text();
}

bool is_whole(const std::string& path) {
  struct stat s {};
  std::string contents;
  return ::stat(path.c_str(), &s) == 0 && S_ISREG(s.st_mode) && is_ours(s) && read_whole(path, contents);
}

}  // namespace

void Fingerprint::add_file(const std::string& path) {
  std::error_code none;
  add(path);
  add(std::to_string(fs::file_size(path, none)));
  add(std::to_string(fs::last_write_time(path, none).time_since_epoch().count()));
}

std::string Fingerprint::text() const {
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[hash_ >> shift & 15];
  return digits;
}

std::string variable(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::string read_text(const char* op, const std::string& path) {
  std::string text;
  CT_CHECK(read_bytes(path, text), IoError, op, path, " can't be read; a file that can is wanted");
  return text;
}

bool read_whole(const std::string& path, std::string& contents) {
  const std::size_t line = digest_line("").size();
  if (!read_bytes(path, contents) || contents.size() < line) return false;
  const std::string last = contents.substr(contents.size() - line);
  contents.resize(contents.size() - line);
  return last == digest_line(contents);
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  std::istringstream path(variable("PATH", "/usr/bin:/bin"));
  for (std::string folder; std::getline(path, folder, ':');)
    if (std::string file = folder.append("/").append(name); ::access(file.c_str(), X_OK) == 0) return file;
  return "";
}

Ran run(const std::vector<std::string>& command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {false, std::string("no pipe: ") + std::strerror(errno)};
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, to.fd, 1);
  posix_spawn_file_actions_adddup2(&actions, to.fd, 2);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  to.reset();
  if (error != 0) return {false, command[0] + ": " + std::strerror(error)};

  Ran result;
  read_all(from, result.output);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  result.ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!result.ok && result.output.empty()) result.output = command[0] + " ended without a word\n";
  return result;
}

void fail_compiling(const char* op, const std::string& what, const Ran& ran) {
  constexpr int kLines = 40;
  std::istringstream in(ran.output);
  std::string text, line;
  int count = 0;
  for (; count < kLines && std::getline(in, line); ++count) text += '\n' + line;
  if (count == kLines) text += "\n...";
  detail::fail<Error>(op, what, " does not compile; correct it and call again. The compiler says:", text);
}

std::string cached(const char* op, const std::string& folder, const std::string& name,
                   const std::function<void(const std::string& path)>& make, bool* made) {
  const fs::path cache = folder.empty() ? default_cache(op) : folder, file = cache / "ops" / name;
  if (made) *made = false;
  std::error_code error;
  fs::create_directories(cache.parent_path(), error);  // the error is that of the next line
  make_folder(op, cache);
  make_folder(op, file.parent_path());
  if (is_whole(file)) return file;
  // Where the file system has locks, one process works and the others wait; the lock goes with the process that holds it.
  const Descriptor lock(::open((file.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  while (lock.fd >= 0 && ::flock(lock.fd, LOCK_EX) != 0 && errno == EINTR) {}
  if (is_whole(file)) return file;  // another process has made it
  std::string unfinished = file.string() + ".XXXXXX";
  const Descriptor place(::mkstemp(unfinished.data()));
  CT_CHECK(place.fd >= 0, IoError, op, "the cache ", cache.string(),
           " can't be written: ", std::strerror(errno), "; name a folder that can in COTANGENT_CACHE");
  try {
    make(unfinished);
    const std::string line = digest_line(read_text(op, unfinished));
    // Not waiting for the disk: a file that a crash cuts off does not have its digest.
    const Descriptor written(::open(unfinished.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (written.fd < 0 ||
        ::write(written.fd, line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
        ::fchmod(written.fd, 0700) != 0)
      error.assign(errno, std::generic_category());
    else
      fs::rename(unfinished, file, error);
    CT_CHECK(!error, IoError, op, file.string(), " can't be written: ", error.message(),
             "; name a folder that can in COTANGENT_CACHE");
  } catch (...) {
    fs::remove(unfinished, error);
    throw;
  }
  if (made) *made = true;
  return file;
}

}  // namespace ct::jit
