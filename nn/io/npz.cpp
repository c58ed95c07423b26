#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include <cotangent/nn/io/npy_internal.h>

// The part of the zip format (PKWARE's APPNOTE) that NumPy uses: the central directory at the end lists the
// members with their sizes; a member is stored or deflated; sizes and offsets may be 64-bit.

namespace ct::io {
namespace {

constexpr char kOp[] = "load_npz";
constexpr std::uint64_t kMaxMembers = 65536;
// Deflate makes data at most 1032 times smaller: a greater promise is a lie or a bomb.
constexpr std::uint64_t kMaxRatio = 1040;

struct Member {
  std::string name;
  int method = 0;  // 0 stored, 8 deflated
  std::uint32_t crc = 0;
  std::uint64_t packed = 0, unpacked = 0, header_at = 0;
};

// Little-endian fields of a record.
class Record {
 public:
  Record(const ByteSource& source, std::uint64_t at, std::size_t bytes) : bytes_(bytes) {
    source.read(at, bytes_.data(), bytes);
  }
  std::uint64_t number(std::size_t at, int bytes) const {
    std::uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; --i) value = value << 8 | bytes_[at + static_cast<std::size_t>(i)];
    return value;
  }
  std::uint64_t u16(std::size_t at) const { return number(at, 2); }
  std::uint64_t u32(std::size_t at) const { return number(at, 4); }
  std::uint64_t u64(std::size_t at) const { return number(at, 8); }
  std::string text(std::size_t at, std::size_t length) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, length};
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<unsigned char> bytes_;
};

struct Directory {
  std::uint64_t at = 0, bytes = 0, members = 0;
};

Directory find_directory(const ByteSource& source) {
  source.check(source.size() >= 22, kOp, "has ", source.size(),
               " bytes, too few for a zip archive; it is truncated");
  // The end record is 22 bytes and a comment of at most 65535.
  const std::size_t tail = static_cast<std::size_t>(std::min<std::uint64_t>(source.size(), 22 + 65535));
  const Record end(source, source.size() - tail, tail);
  std::size_t at = tail - 22;
  while (end.u32(at) != 0x06054b50) {
    source.check(at > 0, kOp, "is not a zip archive, or its end is missing; fetch or save the file again");
    --at;
  }
  Directory found{end.u32(at + 16), end.u32(at + 12), end.u16(at + 10)};
  const std::uint64_t end_at = source.size() - tail + at;
  if (found.at == 0xffffffff || found.bytes == 0xffffffff || found.members == 0xffff) {
    source.check(end_at >= 20, kOp, "has no 64-bit end record; it is damaged");
    const Record locator(source, end_at - 20, 20);
    source.check(locator.u32(0) == 0x07064b50, kOp, "has no 64-bit end record; it is damaged");
    const Record wide(source, locator.u64(8), 56);
    source.check(wide.u32(0) == 0x06064b50, kOp, "has a broken 64-bit end record; it is damaged");
    found = {wide.u64(48), wide.u64(40), wide.u64(32)};
  }
  source.check(
      found.at <= source.size() && found.bytes <= source.size() - found.at && found.members <= kMaxMembers,
      kOp, "has a directory that lies outside of it; it is truncated or damaged");
  return found;
}

std::vector<Member> read_directory(const ByteSource& source) {
  const Directory directory = find_directory(source);
  const Record d(source, directory.at, static_cast<std::size_t>(directory.bytes));
  std::vector<Member> members;
  std::size_t at = 0;
  const auto need = [&](std::size_t bytes) {
    source.check(bytes <= d.size() - at, kOp, "has a broken directory; it is damaged");
  };
  for (std::uint64_t i = 0; i < directory.members; ++i) {
    need(46);
    source.check(d.u32(at) == 0x02014b50, kOp, "has a broken directory; it is damaged");
    const std::size_t name = d.u16(at + 28), extra = d.u16(at + 30), comment = d.u16(at + 32);
    need(46 + name + extra + comment);
    Member m{d.text(at + 46, name),
             static_cast<int>(d.u16(at + 10)),
             static_cast<std::uint32_t>(d.u32(at + 16)),
             d.u32(at + 20),
             d.u32(at + 24),
             d.u32(at + 42)};
    source.check((d.u16(at + 8) & 1) == 0, kOp, "member '", m.name,
                 "' is encrypted; save it without a password");
    // Fields that are all ones have their 64-bit values in extra field 1, in this order.
    std::size_t e = at + 46 + name;
    const std::size_t e_end = e + extra;
    while (e + 4 <= e_end) {
      const std::uint64_t id = d.u16(e), length = d.u16(e + 2);
      e += 4;
      source.check(length <= e_end - e, kOp, "has a broken directory; it is damaged");
      if (id == 1) {
        std::size_t field = e;
        for (std::uint64_t* value : {&m.unpacked, &m.packed, &m.header_at}) {
          if (*value != 0xffffffff) continue;
          source.check(field + 8 <= e + length, kOp, "has a broken 64-bit field; it is damaged");
          *value = d.u64(field);
          field += 8;
        }
      }
      e += length;
    }
    at += 46 + name + extra + comment;
    members.push_back(std::move(m));
  }
  return members;
}

Tensor read_member(const ByteSource& source, const Member& m) {
  const Record local(source, m.header_at, 30);
  source.check(local.u32(0) == 0x04034b50, kOp, "member '", m.name, "' has no header; the file is damaged");
  const std::uint64_t begin = m.header_at + 30 + local.u16(26) + local.u16(28);
  source.check(begin <= source.size() && m.packed <= source.size() - begin, kOp, "member '", m.name,
               "' reaches past the end; the file is truncated");
  source.check(m.method == 0 || m.method == 8, kOp, "member '", m.name, "' is packed by method ", m.method,
               "; only stored and deflated ones can be read");
  source.check(m.method == 8 ? m.unpacked / kMaxRatio <= m.packed : m.unpacked == m.packed, kOp, "member '",
               m.name, "' has ", m.packed, " bytes and claims to hold ", m.unpacked, "; the file is damaged");

  std::uint64_t left = m.unpacked, at = begin;
  std::uint32_t crc = 0;
  Inflater inflater(kOp, source, begin, begin + m.packed, /*gzip=*/false);
  const auto next = [&](void* to, std::size_t bytes) {
    std::size_t step = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, left));
    if (m.method == 8) {
      step = inflater.read(to, step);
    } else {
      source.read(at, to, step);
      at += step;
    }
    left -= step;
    crc = crc32_continue(crc, to, step);
    return step;
  };
  Tensor tensor = read_npy(source, next, m.unpacked);
  source.check(left == 0, kOp, "member '", m.name, "' has ", left,
               " bytes after the array; the file is damaged");
  source.check(crc == m.crc, kOp, "member '", m.name,
               "' has the wrong checksum; the file is damaged: fetch it again");
  return tensor;
}

}  // namespace

StateDict load_npz(const ByteSource& source) {
  StateDict arrays;
  for (const Member& m : read_directory(source)) {
    std::string name = m.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    source.check(!name.empty() && !arrays.contains(name), kOp, "has array '", name,
                 "' twice or without a name; the file is damaged");
    arrays.set(name, read_member(source, m));
  }
  return arrays;
}

StateDict load_npz(const std::string& path) { return load_npz(*open_file(kOp, path)); }

}  // namespace ct::io
