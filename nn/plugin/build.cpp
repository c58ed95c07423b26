#include <cotangent/nn/plugin/build_internal.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cotangent/core/error.h>

namespace fs = std::filesystem;

namespace ct::plugin {
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

std::string default_cache() {
  const std::string home = variable("HOME");
  const std::string base = variable("XDG_CACHE_HOME", home.empty() ? "/tmp" : home + "/.cache");
  return variable("COTANGENT_CACHE", base + "/cotangent");
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

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> found;
  for (std::string word; in >> word;) found.push_back(word);
  return found;
}

std::string read_text(const char* op, const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  CT_CHECK(in.is_open() && !in.bad(), IoError, op, path, " can't be read; a file that can is wanted");
  return text;
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
  char buffer[4096];
  for (ssize_t n; (n = ::read(from.fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);)
    if (n > 0) result.output.append(buffer, static_cast<std::size_t>(n));
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
  const fs::path cache = folder.empty() ? default_cache() : folder, file = cache / "ops" / name;
  if (made) *made = false;
  if (fs::exists(file)) return file;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  // The lock goes with the process that holds it, whatever becomes of it.
  const Descriptor lock(
      error ? -1 : ::open((file.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  CT_CHECK(lock.fd >= 0, IoError, op, "the cache ", cache.string(),
           " can't be written: ", error ? error.message() : std::strerror(errno),
           "; name a folder that can in COTANGENT_CACHE");
  while (::flock(lock.fd, LOCK_EX) != 0 && errno == EINTR) {}
  if (fs::exists(file)) return file;  // another process has made it
  const std::string unfinished = file.string() + ".unfinished";
  try {
    make(unfinished);
    const Descriptor written(::open(unfinished.c_str(), O_RDONLY | O_CLOEXEC));
    if (written.fd < 0 || ::fsync(written.fd) != 0) error.assign(errno, std::generic_category());
    if (!error) fs::rename(unfinished, file, error);
    CT_CHECK(!error, IoError, op, file.string(), " can't be written: ", error.message(),
             "; name a folder that can in COTANGENT_CACHE");
  } catch (...) {
    fs::remove(unfinished, error);
    throw;
  }
  if (made) *made = true;
  return file;
}

}  // namespace ct::plugin
