#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/base/printable.h>

// Source of bytes for this folder's readers: a file, or memory (tests, fuzzers).

namespace ct::io {

/// Bytes of a known number, read from any place.
class CT_API ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills `to` with the bytes from `offset` on. Throws IoError if there are fewer.
  void read(std::uint64_t offset, void* to, std::size_t bytes) const;
  std::uint64_t size() const { return size_; }
  /// The path, for messages.
  const std::string& name() const { return name_; }

  /// Throws IoError "[op] 'name': found; wanted".
  template <class... Args>
  void check(bool ok, const char* op, const Args&... args) const {
    if (!ok) [[unlikely]]
      fail(op, args...);
  }
  template <class... Args>
  [[noreturn]] void fail(const char* op, const Args&... args) const {
    ct::detail::fail<IoError>(op, printable_path(name_), ": ", args...);
  }

 protected:
  ByteSource(std::string name, std::uint64_t size) : name_(std::move(name)), size_(size) {}
  virtual void read_at(std::uint64_t offset, void* to, std::size_t bytes) const = 0;

 private:
  std::string name_;
  std::uint64_t size_;
};

/// Opens a regular file. Throws IoError, naming `op`, with the path, the reason and what to do.
CT_API std::unique_ptr<ByteSource> open_file(const char* op, const std::string& path);
/// A whole file of at most `limit` bytes. Throws IoError, naming `op`.
CT_API std::string read_text_file(const char* op, const std::string& path,
                                  std::uint64_t limit = std::uint64_t{1} << 30);
/// Bytes in memory, which must outlive the source.
CT_API std::unique_ptr<ByteSource> open_memory(std::span<const std::byte> bytes, std::string name);

/// Unpacks a deflated range of a source step by step.
class CT_API Inflater {
 public:
  /// `gzip` reads gzip files (several members too); otherwise a raw deflate stream, as in zip files.
  Inflater(const char* op, const ByteSource& source, std::uint64_t begin, std::uint64_t end, bool gzip);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Writes up to `bytes` unpacked bytes to `to` and returns their number; fewer only at the end. Throws
  /// IoError on damaged or truncated data.
  std::size_t read(void* to, std::size_t bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// CRC-32 as of zip and gzip: of what `crc` (0 at first) is the checksum of, followed by these bytes.
CT_API std::uint32_t crc32_continue(std::uint32_t crc, const void* data, std::size_t bytes);
/// The same, computed by all threads.
CT_API std::uint32_t crc32_parallel(std::uint32_t crc, const void* data, std::size_t bytes);

}  // namespace ct::io
