#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cotangent/core/device/parallel.h>
#include <cotangent/nn/io/source_internal.h>

namespace ct::io {
namespace {

class FileSource final : public ByteSource {
 public:
  FileSource(const std::string& path, int fd, std::uint64_t size) : ByteSource(path, size), fd_(fd) {}
  ~FileSource() override { close(fd_); }

 private:
  void read_at(std::uint64_t offset, void* to, std::size_t bytes) const override {
    char* out = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t got =
          pread(fd_, out, std::min<std::size_t>(bytes, std::size_t{1} << 30), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      check(got >= 0, "read", "can't be read: ", std::strerror(errno));
      check(got > 0, "read", "ended while it was being read; do not write to a file that is in use");
      out += got;
      offset += static_cast<std::uint64_t>(got);
      bytes -= static_cast<std::size_t>(got);
    }
  }
  int fd_;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::span<const std::byte> bytes, std::string name)
      : ByteSource(std::move(name), bytes.size()), bytes_(bytes) {}

 private:
  void read_at(std::uint64_t offset, void* to, std::size_t bytes) const override {
    if (bytes > 0) std::memcpy(to, bytes_.data() + offset, bytes);
  }
  std::span<const std::byte> bytes_;
};

}  // namespace

void ByteSource::read(std::uint64_t offset, void* to, std::size_t bytes) const {
  check(offset <= size_ && bytes <= size_ - offset, "read", "is truncated: it has ", size_, " bytes, ", bytes,
        " were expected from byte ", offset, " on; fetch or save the file again");
  read_at(offset, to, bytes);
}

std::unique_ptr<ByteSource> open_file(const char* op, const std::string& path) {
  CT_CHECK(path.find('\0') == std::string::npos, IoError, op, "the path ", printable_path(path),
           " has a NUL byte; check the path");
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not block here
  if (fd < 0) {
    const int error = errno;
    ct::detail::fail<IoError>(op, "can't open ", printable_path(path), ": ", std::strerror(error), "; ",
                              error == EACCES ? "ask for the right to read it" : "check the path");
  }
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    ct::detail::fail<IoError>(op, printable_path(path), " is not a regular file; give the path of a file");
  }
  return std::make_unique<FileSource>(path, fd, static_cast<std::uint64_t>(info.st_size));
}

std::unique_ptr<ByteSource> open_memory(std::span<const std::byte> bytes, std::string name) {
  return std::make_unique<MemorySource>(bytes, std::move(name));
}

std::string read_text_file(const char* op, const std::string& path, std::uint64_t limit) {
  const auto source = open_file(op, path);
  source->check(source->size() <= limit, op, "has ", source->size(), " bytes; a text of up to ", limit,
                " is wanted here: it is another kind of file");
  std::string text(static_cast<std::size_t>(source->size()), '\0');
  source->read(0, text.data(), text.size());
  return text;
}

struct Inflater::State {
  static constexpr std::size_t kInputBytes = std::size_t{1} << 18;

  State(const char* op, const ByteSource& source, std::uint64_t begin, std::uint64_t end, bool gzip)
      : op(op), source(source), next(begin), end(end), gzip(gzip), input(kInputBytes) {
    source.check(inflateInit2(&stream, gzip ? 16 + MAX_WBITS : -MAX_WBITS) == Z_OK, op,
                 "can't be unpacked: zlib has no memory");
  }
  ~State() { inflateEnd(&stream); }

  // More packed bytes, unless some are left. False at the end.
  bool refill() {
    if (stream.avail_in > 0) return true;
    const std::size_t bytes = static_cast<std::size_t>(std::min<std::uint64_t>(kInputBytes, end - next));
    if (bytes == 0) return false;
    source.read(next, input.data(), bytes);
    next += bytes;
    stream.next_in = input.data();
    stream.avail_in = static_cast<uInt>(bytes);
    return true;
  }

  const char* op;
  const ByteSource& source;
  std::uint64_t next, end;
  bool gzip;
  bool done = false;
  std::vector<Bytef> input;
  z_stream stream{};
};

Inflater::Inflater(const char* op, const ByteSource& source, std::uint64_t begin, std::uint64_t end,
                   bool gzip)
    : state_(std::make_unique<State>(op, source, begin, end, gzip)) {}
Inflater::~Inflater() = default;

std::size_t Inflater::read(void* to, std::size_t bytes) {
  State& s = *state_;
  std::size_t produced = 0;
  while (produced < bytes && !s.done) {
    s.source.check(s.refill(), s.op, "is truncated: the packed data ends too early; fetch the file again");
    const uInt room = static_cast<uInt>(std::min<std::size_t>(bytes - produced, std::size_t{1} << 30));
    s.stream.next_out = static_cast<Bytef*>(to) + produced;
    s.stream.avail_out = room;
    const int status = inflate(&s.stream, Z_NO_FLUSH);
    produced += room - s.stream.avail_out;
    if (status == Z_STREAM_END) {
      // A gzip file may hold several members one after the other.
      s.done = !(s.gzip && s.refill() && inflateReset(&s.stream) == Z_OK);
    } else {
      s.source.check(status == Z_OK || status == Z_BUF_ERROR, s.op,
                     "is damaged: ", s.stream.msg ? s.stream.msg : "zlib can't unpack it",
                     "; fetch the file again");
    }
  }
  return produced;
}

std::uint32_t crc32_continue(std::uint32_t start, const void* data, std::size_t bytes) {
  uLong crc = start;
  const Bytef* from = static_cast<const Bytef*>(data);
  while (bytes > 0) {
    const uInt step = static_cast<uInt>(std::min<std::size_t>(bytes, std::size_t{1} << 30));
    crc = ::crc32(crc, from, step);
    from += step;
    bytes -= step;
  }
  return static_cast<std::uint32_t>(crc);
}

std::uint32_t crc32_parallel(std::uint32_t start, const void* data, std::size_t bytes) {
  constexpr std::int64_t kPiece = std::int64_t{1} << 19;
  const auto n = static_cast<std::int64_t>(bytes);
  if (n <= kPiece) return crc32_continue(start, data, bytes);
  std::vector<std::uint32_t> parts(static_cast<std::size_t>(chunk_count(n, kPiece)));
  const detail::InCall inside;  // a file's bytes are no tensor
  parallel_chunks(n, kPiece, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    parts[static_cast<std::size_t>(chunk)] =
        crc32_continue(0, static_cast<const char*>(data) + begin, static_cast<std::size_t>(end - begin));
  });
  uLong crc = start;
  for (std::size_t i = 0; i < parts.size(); ++i)
    crc = crc32_combine(crc, parts[i],
                        static_cast<z_off_t>(std::min(kPiece, n - static_cast<std::int64_t>(i) * kPiece)));
  return static_cast<std::uint32_t>(crc);
}

}  // namespace ct::io
