#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cotangent/core/base/export.h>

namespace ct::io {

/// A file that appears as a whole or not at all.
///
///     AtomicFile file("model.safetensors");
///     file.write(data, bytes);
///     file.commit();
///
/// The bytes go to a temporary file in the target's folder (".NAME.XXXXXX.tmp"); commit() writes them to the
/// disk, renames the temporary file to the target and writes the folder to the disk. Until then, and
/// whatever happens (a full disk, a killed process, a power cut), the target is what it was before. Without
/// commit() the temporary file is removed; one that a killed process left behind is removed by the next
/// AtomicFile of the same target (on file systems with locks: they tell it from one in use). An existing target
/// keeps its permissions, a new one has those that the umask leaves, and the temporary file never has more; a
/// link is followed.
///
/// All functions throw IoError with the path, the system's reason and what to do. A file that could not be
/// written is given up: the temporary file is gone, and further calls throw too.
class CT_API AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(const std::string& text) { write(text.data(), text.size()); }
  /// Replaces bytes that were written before, from `offset` on: for what is known only at the end.
  void rewrite(std::uint64_t offset, const void* data, std::size_t bytes);
  void commit();
  const std::string& path() const { return path_; }

 private:
  AtomicFile(std::string path, std::string target);
  bool create(unsigned mode);  // false: another process took the file for a leftover
  void flush();
  void write_all(const char* data, std::size_t bytes, std::int64_t offset = -1);  // -1: at the end
  void check_open() const;
  void discard() noexcept;
  [[noreturn]] void fail(const char* what, int error);

  std::string path_;    // as the user gave it
  std::string target_;  // links followed
  std::string folder_, name_;
  std::string temporary_;  // empty once it is gone
  int fd_ = -1;
  std::vector<char> buffer_;
};

/// Writes `text` to `path` through an AtomicFile.
CT_API void write_file(const std::string& path, const std::string& text);

}  // namespace ct::io
