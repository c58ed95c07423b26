#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <cotangent/core/export.h>

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
/// AtomicFile of the same target. An existing target keeps its permissions; a link is followed.
///
/// All functions throw IoError with the path, the system's reason and what to do.
class CT_API AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(const std::string& text) { write(text.data(), text.size()); }
  void commit();
  const std::string& path() const { return path_; }

 private:
  void write_all(const char* data, std::size_t bytes);
  [[noreturn]] void fail(const char* what, int error) const;

  std::string path_;    // as the user gave it
  std::string target_;  // links followed
  std::string folder_;
  std::string temporary_;  // empty once it is gone
  int fd_ = -1;
  std::vector<char> buffer_;
};

/// Writes `text` to `path` through an AtomicFile.
CT_API void write_file(const std::string& path, const std::string& text);

}  // namespace ct::io
