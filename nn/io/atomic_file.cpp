#include <cotangent/nn/io/atomic_file.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cotangent/core/error.h>

namespace ct::io {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

std::string follow_links(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return path;
  char* real = realpath(path.c_str(), nullptr);
  if (!real) return path;  // a dangling link: rename() replaces it
  std::string result = real;
  std::free(real);
  return result;
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
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
    close(fd);
  }
  closedir(directory);
}

}  // namespace

void AtomicFile::fail(const char* what, int error) const {
  detail::fail<IoError>("save", what, " '", path_, "': ", std::strerror(error), "; ", hint(error));
}

AtomicFile::AtomicFile(const std::string& path) : path_(path), target_(follow_links(path)) {
  CT_CHECK(!path.empty(), IoError, "save", "the path is empty; give the name of a file");
  struct stat info;
  const bool exists = stat(target_.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) fail("can't write", EISDIR);
  CT_CHECK(!exists || S_ISREG(info.st_mode), IoError, "save", "'", path,
           "' is not a regular file; a device or a pipe can't be replaced as a whole");

  const std::size_t slash = target_.rfind('/');
  folder_ = slash == std::string::npos ? "." : slash == 0 ? "/" : target_.substr(0, slash);
  const std::string name = slash == std::string::npos ? target_ : target_.substr(slash + 1);
  if (name.empty()) fail("can't write", EISDIR);
  remove_leftovers(folder_, name);
  while (true) {
    std::string pattern = folder_ + "/." + name + ".XXXXXX.tmp";
    fd_ = mkostemps(pattern.data(), 4, O_CLOEXEC);
    if (fd_ < 0) fail("can't create a file beside", errno);
    temporary_ = pattern;
    // Another process may have taken it for a leftover before it was locked: then make another one.
    if (flock(fd_, LOCK_EX | LOCK_NB) == 0) {
      struct stat own;
      if (fstat(fd_, &own) == 0 && own.st_nlink > 0) break;
    }
    close(fd_);
  }
  mode_t mode = exists ? info.st_mode & 07777 : 0666;
  if (!exists) {
    const mode_t mask = umask(0);
    umask(mask);
    mode &= ~mask;
  }
  (void)fchmod(fd_, mode);  // a file system without permissions is no reason to stop
  buffer_.reserve(kBufferBytes);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
  if (fd_ >= 0) close(fd_);
}

void AtomicFile::write_all(const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::write(fd_, data, std::min<std::size_t>(bytes, std::size_t{1} << 30));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("can't write", errno);
    }
    data += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  if (buffer_.size() + bytes > kBufferBytes) {
    write_all(buffer_.data(), buffer_.size());
    buffer_.clear();
  }
  if (bytes >= kBufferBytes) return write_all(from, bytes);
  if (bytes > 0) buffer_.insert(buffer_.end(), from, from + bytes);
}

void AtomicFile::commit() {
  write_all(buffer_.data(), buffer_.size());
  buffer_.clear();
  if (fsync(fd_) != 0) fail("can't write to the disk", errno);
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail("can't replace", errno);
  temporary_.clear();
  close(fd_);
  fd_ = -1;
  // The new name is in the folder, and the folder has to reach the disk too. Some file systems can't do
  // that for folders (EINVAL); the file itself is safe by now.
  const int folder = open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  const int status = fsync(folder);
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
