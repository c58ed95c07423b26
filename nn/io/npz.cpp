#include <algorithm>
#include <initializer_list>
#include <vector>

#include <cotangent/nn/io/npy_internal.h>

// The part of the zip format (PKWARE's APPNOTE) that NumPy uses: the central directory at the end lists the
// members with their sizes; a member is stored or deflated; sizes and offsets may be 64-bit.

namespace ct::io {
namespace {

constexpr char kNpz[] = "load_npz";
constexpr std::uint64_t kMaxMembers = 65536, kMaxDirectory = std::uint64_t{64} << 20;
// Deflate makes data at most 1032 times smaller: a greater promise is a lie or a bomb.
constexpr std::uint64_t kMaxRatio = 1040;

struct Member {
  std::string name;
  int flags = 0;
  int method = 0;  // 0 stored, 8 deflated
  std::uint32_t crc = 0;
  std::uint64_t packed = 0, unpacked = 0, header_at = 0;
  std::uint64_t begin = 0;  // of the data
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
  source.check(source.size() >= 22, kNpz, "has ", source.size(),
               " bytes, too few for a zip archive; it is truncated");
  // The end record is 22 bytes and a comment of at most 65535.
  const std::size_t tail = static_cast<std::size_t>(std::min<std::uint64_t>(source.size(), 22 + 65535));
  const Record end(source, source.size() - tail, tail);
  std::size_t at = tail - 22;
  while (end.u32(at) != 0x06054b50) {
    source.check(at > 0, kNpz, "is not a zip archive, or its end is missing; fetch or save the file again");
    --at;
  }
  Directory found{end.u32(at + 16), end.u32(at + 12), end.u16(at + 10)};
  const std::uint64_t end_at = source.size() - tail + at;
  if (found.at == 0xffffffff || found.bytes == 0xffffffff || found.members == 0xffff) {
    source.check(end_at >= 20, kNpz, "has no 64-bit end record; it is damaged");
    const Record locator(source, end_at - 20, 20);
    source.check(locator.u32(0) == 0x07064b50, kNpz, "has no 64-bit end record; it is damaged");
    const Record wide(source, locator.u64(8), 56);
    source.check(wide.u32(0) == 0x06064b50, kNpz, "has a broken 64-bit end record; it is damaged");
    found = {wide.u64(48), wide.u64(40), wide.u64(32)};
  }
  source.check(found.at <= source.size() && found.bytes <= source.size() - found.at, kNpz,
               "has a directory that lies outside of it; it is truncated or damaged");
  source.check(found.members <= kMaxMembers && found.bytes <= kMaxDirectory, kNpz, "has a directory of ",
               found.members, " members in ", found.bytes, " bytes; up to ", kMaxMembers, " in ",
               kMaxDirectory, " are read");
  return found;
}

// Fields of all ones have their 64-bit values in the extra field of id 1, in this order.
void widen(const ByteSource& source, const Record& r, std::size_t at, std::size_t bytes,
           std::initializer_list<std::uint64_t*> fields) {
  const std::size_t end = at + bytes;
  while (at + 4 <= end) {
    const std::uint64_t id = r.u16(at), length = r.u16(at + 2);
    at += 4;
    source.check(length <= end - at, kNpz, "has a broken record; it is damaged");
    if (id == 1) {
      std::size_t field = at;
      for (std::uint64_t* value : fields) {
        if (*value != 0xffffffff) continue;
        source.check(field + 8 <= at + length, kNpz, "has a broken 64-bit field; it is damaged");
        *value = r.u64(field);
        field += 8;
      }
    }
    at += length;
  }
}

std::vector<Member> read_directory(const ByteSource& source, const Directory& directory) {
  const Record d(source, directory.at, static_cast<std::size_t>(directory.bytes));
  std::vector<Member> members;
  std::size_t at = 0;
  const auto need = [&](std::size_t bytes) {
    source.check(bytes <= d.size() - at, kNpz, "has a broken directory; it is damaged");
  };
  for (std::uint64_t i = 0; i < directory.members; ++i) {
    need(46);
    source.check(d.u32(at) == 0x02014b50, kNpz, "has a broken directory; it is damaged");
    const std::size_t name = d.u16(at + 28), extra = d.u16(at + 30), comment = d.u16(at + 32);
    need(46 + name + extra + comment);
    Member m{d.text(at + 46, name),
             static_cast<int>(d.u16(at + 8)),
             static_cast<int>(d.u16(at + 10)),
             static_cast<std::uint32_t>(d.u32(at + 16)),
             d.u32(at + 20),
             d.u32(at + 24),
             d.u32(at + 42)};
    source.check((m.flags & 1) == 0, kNpz, "member ", printable(m.name),
                 " is encrypted; save it without a password");
    widen(source, d, at + 46 + name, extra, {&m.unpacked, &m.packed, &m.header_at});
    at += 46 + name + extra + comment;
    members.push_back(std::move(m));
  }
  return members;
}

// Finds the member's bytes. Its own header says the same as the directory, or it is another's.
void read_local_header(const ByteSource& source, Member& m) {
  const Record start(source, m.header_at, 30);
  source.check(start.u32(0) == 0x04034b50, kNpz, "member ", printable(m.name),
               " has no header; the file is damaged");
  const std::size_t name = start.u16(26), extra = start.u16(28);
  const Record local(source, m.header_at, 30 + name + extra);
  m.begin = m.header_at + local.size();
  std::uint64_t packed = local.u32(18), unpacked = local.u32(22);
  widen(source, local, 30 + name, extra, {&unpacked, &packed});
  // Values not known when the header was written (flag 3) are zeros there.
  const auto same = [late = (m.flags & 8) != 0](std::uint64_t here, std::uint64_t there) {
    return here == there || (late && here == 0);
  };
  source.check(local.text(30, name) == m.name && static_cast<int>(local.u16(6)) == m.flags &&
                   static_cast<int>(local.u16(8)) == m.method && same(local.u32(14), m.crc) &&
                   same(packed, m.packed) && same(unpacked, m.unpacked),
               kNpz, "member ", printable(m.name),
               " is described otherwise by its header than by the directory; the file is damaged");
  source.check(m.begin <= source.size() && m.packed <= source.size() - m.begin, kNpz, "member ",
               printable(m.name), " reaches past the end; the file is truncated");
}

// No byte is a part of two members: together they take no more memory than a file of this size can hold.
void check_overlaps(const ByteSource& source, const Directory& directory,
                    const std::vector<Member>& members) {
  std::vector<const Member*> order;
  for (const Member& m : members) order.push_back(&m);
  std::ranges::sort(order, {}, &Member::header_at);
  std::uint64_t end = 0;
  for (const Member* m : order) {
    source.check(m->header_at >= end && m->begin + m->packed <= directory.at, kNpz, "member ",
                 printable(m->name), " overlaps another or the directory; the file is damaged");
    end = m->begin + m->packed;
  }
}

Tensor read_member(const ByteSource& source, const Member& m) {
  source.check(m.method == 0 || m.method == 8, kNpz, "member ", printable(m.name), " is packed by method ",
               m.method, "; only stored and deflated ones can be read");
  source.check(m.method == 8 ? m.unpacked / kMaxRatio <= m.packed : m.unpacked == m.packed, kNpz, "member ",
               printable(m.name), " has ", m.packed, " bytes and claims to hold ", m.unpacked,
               "; the file is damaged");
  const std::uint64_t begin = m.begin;

  std::uint64_t left = m.unpacked, at = begin;
  std::uint32_t crc = 0;
  Inflater inflater(kNpz, source, begin, begin + m.packed, /*gzip=*/false);
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
  source.check(left == 0, kNpz, "member ", printable(m.name), " has ", left,
               " bytes after the array; the file is damaged");
  source.check(crc == m.crc, kNpz, "member ", printable(m.name),
               " has the wrong checksum; the file is damaged: fetch it again");
  return tensor;
}

}  // namespace

StateDict load_npz(const ByteSource& source) {
  const Directory directory = find_directory(source);
  std::vector<Member> members = read_directory(source, directory);
  for (Member& m : members) read_local_header(source, m);
  check_overlaps(source, directory, members);
  StateDict arrays;
  for (const Member& m : members) {
    std::string name = m.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    source.check(!name.empty() && !arrays.contains(name), kNpz, "has array ", printable(name),
                 " twice or without a name; the file is damaged");
    arrays.set(name, read_member(source, m));
  }
  return arrays;
}

StateDict load_npz(const std::string& path) { return load_npz(*open_file(kNpz, path)); }

}  // namespace ct::io
