#include <cotangent/nn/io/atomic_file.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/printable.h>

namespace ct::io {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr int kAttempts = 100;

// Six letters that no other call gets, in this process or another of the moment.
std::string random_letters() {
  static std::atomic<std::uint64_t> calls = 0;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  std::uint64_t bits = (++calls << 48) + (static_cast<std::uint64_t>(getpid()) << 30) +
                       static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                       static_cast<std::uint64_t>(now.tv_nsec);
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9ull;  // SplitMix64's mixer
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EBull;
  bits ^= bits >> 31;
  std::string letters;
  for (int i = 0; i < 6; ++i, bits /= 36) letters += "abcdefghijklmnopqrstuvwxyz0123456789"[bits % 36];
  return letters;
}

const char* hint(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT: return "free some space or choose another folder";
    case EACCES:
    case EPERM:
    case EROFS: return "choose a folder that you may write to";
    case ENOENT: return "create the folder first";
    case ENOTDIR: return "a part of the path is a file, not a folder";
    case EISDIR: return "the path is a folder; give the name of a file";
    case ELOOP: return "the links go round in a circle: remove one of them";
    case EFBIG: return "the file system or the process's limits allow no file of this size";
    case ENAMETOOLONG: return "choose a shorter name";
    default: return "the previous file, if there was one, is untouched";
  }
}

// A living writer holds a lock on its temporary file; the kernel drops the lock when the process dies.
void remove_leftovers(const std::string& folder, const std::string& name) {
  DIR* directory = opendir(folder.c_str());
  if (!directory) return;
  const std::string prefix = "." + name + ".";
  while (const dirent* entry = readdir(directory)) {
    const std::string found = entry->d_name;
    if (found.size() != prefix.size() + 10 || !found.starts_with(prefix) || !found.ends_with(".tmp"))
      continue;
    std::string path = folder;
    path.append(1, '/').append(found);
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
    close(fd);
  }
  closedir(directory);
}

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string target)
    : path_(std::move(path)), target_(std::move(target)) {}

AtomicFile::AtomicFile(const std::string& path) : AtomicFile(path, path) {
  // From here on the destructor cleans up.
  CT_CHECK(!path.empty(), IoError, "save", "the path is empty; give the name of a file");
  CT_CHECK(path.find('\0') == std::string::npos, IoError, "save", "the path ", printable_path(path),
           " has a NUL byte; choose another name");
  struct stat info;
  if (lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    if (char* real = realpath(path.c_str(), nullptr)) {
      target_ = real;
      std::free(real);
    } else if (errno != ENOENT) {  // a dangling link: rename() replaces it
      fail("can't follow the link", errno);
    }
  }
  const bool exists = stat(target_.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) fail("can't look at", errno);
  if (exists && S_ISDIR(info.st_mode)) fail("can't write", EISDIR);
  CT_CHECK(!exists || S_ISREG(info.st_mode), IoError, "save", printable_path(path),
           " is not a regular file; a device or a pipe can't be replaced as a whole");
  const std::size_t slash = target_.rfind('/');
  folder_ = slash == std::string::npos ? "." : slash == 0 ? "/" : target_.substr(0, slash);
  name_ = slash == std::string::npos ? target_ : target_.substr(slash + 1);
  if (name_.empty()) fail("can't write", EISDIR);
  buffer_.reserve(kBufferBytes);
  remove_leftovers(folder_, name_);
  // The kernel applies the umask, or what the folder says instead: both are not this thread's alone to read.
  for (int left = kAttempts; !create(exists ? 0600 : 0666);)
    if (--left == 0) fail("can't keep a file of its own beside", EWOULDBLOCK);
  if (exists)
    (void)fchmod(fd_, info.st_mode & 07777);  // a file system without permissions is no reason to stop
}

bool AtomicFile::create(unsigned mode) {
  for (int left = kAttempts; fd_ < 0;) {
    temporary_ = folder_ + "/." + name_ + "." + random_letters() + ".tmp";
    fd_ = open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd_ >= 0) break;
    const int error = errno;
    temporary_.clear();  // it is another's, if it is there
    if ((error != EEXIST && error != EINTR) || --left == 0) fail("can't create a file beside", error);
  }
  // Another process may have taken it for a leftover before it was locked. On a file system without locks
  // nobody does.
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return true;
  } else {
    struct stat own;
    if (fstat(fd_, &own) != 0) fail("can't create a file beside", errno);
    if (own.st_nlink > 0) return true;
  }
  discard();
  return false;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (!temporary_.empty()) unlink(temporary_.c_str());
  temporary_.clear();
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void AtomicFile::fail(const char* what, int error) {
  discard();
  detail::fail<IoError>("save", what, ' ', printable_path(path_), ": ", std::strerror(error), "; ",
                        hint(error));
}

void AtomicFile::check_open() const {
  CT_CHECK(fd_ >= 0, IoError, "save", printable_path(path_),
           " was committed or given up before; make another AtomicFile");
}

void AtomicFile::write_all(const char* data, std::size_t bytes, std::int64_t offset) {
  while (bytes > 0) {
    const std::size_t step = std::min<std::size_t>(bytes, std::size_t{1} << 30);
    const ssize_t written = offset < 0 ? ::write(fd_, data, step) : pwrite(fd_, data, step, offset);
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("can't write", errno);
    }
    if (written == 0) fail("can't write", ENOSPC);
    data += written;
    bytes -= static_cast<std::size_t>(written);
    if (offset >= 0) offset += written;
  }
}

void AtomicFile::flush() {
  write_all(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  check_open();
  const char* from = static_cast<const char*>(data);
  if (buffer_.size() + bytes > kBufferBytes) flush();
  if (bytes >= kBufferBytes) return write_all(from, bytes);
  if (bytes > 0) buffer_.insert(buffer_.end(), from, from + bytes);
}

void AtomicFile::rewrite(std::uint64_t offset, const void* data, std::size_t bytes) {
  check_open();
  flush();
  write_all(static_cast<const char*>(data), bytes, static_cast<std::int64_t>(offset));
}

void AtomicFile::commit() {
  check_open();
  flush();
  int status = 0;
  while ((status = fsync(fd_)) != 0 && errno == EINTR) {}
  if (status != 0) fail("can't write to the disk", errno);
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail("can't replace", errno);
  temporary_.clear();
  discard();
  // The new name is in the folder, and the folder has to reach the disk too. Some file systems can't do
  // that for folders (EINVAL); the file itself is safe by now.
  const int folder = open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  while ((status = fsync(folder)) != 0 && errno == EINTR) {}
  const int error = errno;
  close(folder);
  if (status != 0 && error != EINVAL && error != EROFS) fail("can't write the folder to the disk of", error);
}

void write_file(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace ct::io
