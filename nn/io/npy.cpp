#include <cotangent/nn/io/npy.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include <cotangent/nn/io/atomic_file.h>
#include <cotangent/nn/io/npy_internal.h>

namespace ct::io {
namespace {

constexpr char kNpy[] = "load_npy";
constexpr char kMagic[] = "\x93NUMPY";
constexpr std::size_t kMaxText = 65536;  // NumPy itself refuses to evaluate more than 10000 characters

struct ElementName {
  const char* text;  // without the byte order
  DType dtype;
};
constexpr ElementName kElements[] = {{"f4", DType::f32},    {"f8", DType::f64}, {"f2", DType::f16},
                                     {"i8", DType::i64},    {"i4", DType::i32}, {"u1", DType::u8},
                                     {"b1", DType::boolean}};

// The header is a Python dictionary with three known keys; this reads that and nothing else of Python.
class HeaderParser {
 public:
  HeaderParser(const ByteSource& source, std::string_view text) : source_(source), text_(text) {}

  NpyHeader parse() {
    take('{');
    int seen = 0;
    while (!try_take('}')) {
      const std::string_view key = quoted();
      take(':');
      const int field = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
      require(field != 0 && (seen & field) == 0);
      seen |= field;
      if (field == 1) element(quoted());
      if (field == 2) header_.fortran_order = boolean();
      if (field == 4) shape();
      if (!try_take(',')) {
        take('}');
        break;
      }
    }
    require(seen == 7);
    skip_blanks();
    require(at_ == text_.size());
    return header_;
  }

 private:
  void require(bool ok) {
    source_.check(ok, kNpy, "the header is not what NumPy writes near character ", at_,
                  "; the file is damaged or of a kind that is not supported");
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool try_take(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void take(char c) { require(try_take(c)); }
  std::string_view quoted() {
    skip_blanks();
    require(at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"'));
    const char quote = text_[at_++];
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != quote) ++at_;
    require(at_ < text_.size());
    return text_.substr(begin, at_++ - begin);
  }
  bool boolean() {
    skip_blanks();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return word == "True";
    }
    require(false);
    return false;
  }
  void element(std::string_view descr) {
    const char order = descr.empty() ? ' ' : descr.front();
    for (const ElementName& e : kElements) {
      if ((order == '<' || order == '>' || order == '|' || order == '=') && descr.substr(1) == e.text) {
        header_.dtype = e.dtype;
        header_.big_endian = order == '>';
        return;
      }
    }
    source_.fail(kNpy, "has elements of type ", printable(descr),
                 "; f2 f4 f8 i4 i8 u1 b1 can be read: convert it with astype()");
  }
  void shape() {
    take('(');
    while (!try_take(')')) {
      skip_blanks();
      std::int64_t size = 0;
      const std::size_t begin = at_;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
        require(!__builtin_mul_overflow(size, std::int64_t{10}, &size) &&
                !__builtin_add_overflow(size, std::int64_t{text_[at_] - '0'}, &size));
      require(at_ > begin);
      source_.check(header_.shape.size() < kMaxRank, kNpy,
                    "has more than 8 dimensions; up to 8 are supported");
      header_.shape.push_back(size);
      if (!try_take(',')) {
        require(header_.shape.size() > 1);  // (3) is a number, and (3,) a shape
        take(')');
        break;
      }
    }
  }

  const ByteSource& source_;
  std::string_view text_;
  std::size_t at_ = 0;
  NpyHeader header_;
};

void take_all(const ByteSource& source, const ByteStream& next, void* to, std::size_t bytes) {
  source.check(next(to, bytes) == bytes, kNpy, "is truncated; fetch or save the file again");
}

void swap_bytes(void* data, std::int64_t count, std::size_t size) {
  auto* bytes = static_cast<std::uint8_t*>(data);
  for (std::int64_t i = 0; i < count; ++i, bytes += size) std::reverse(bytes, bytes + size);
}

}  // namespace

NpyHeader parse_npy_header(const ByteSource& source, std::string_view text) {
  return HeaderParser(source, text).parse();
}

NpyHeader read_npy_header(const ByteSource& source, const ByteStream& next) {
  const auto take = [&](void* to, std::size_t bytes) { take_all(source, next, to, bytes); };
  unsigned char start[8];
  take(start, sizeof(start));
  source.check(std::memcmp(start, kMagic, 6) == 0, kNpy,
               "does not begin as an .npy array does; check the path");
  source.check(start[6] >= 1 && start[6] <= 3, kNpy, "has format version ", int{start[6]},
               "; 1 to 3 are known");
  unsigned char length_bytes[4] = {0, 0, 0, 0};
  take(length_bytes, start[6] == 1 ? 2 : 4);
  const std::size_t length = length_bytes[0] | std::size_t{length_bytes[1]} << 8 |
                             std::size_t{length_bytes[2]} << 16 | std::size_t{length_bytes[3]} << 24;
  source.check(length <= kMaxText, kNpy, "announces a header of ", length, " bytes; the file is damaged");
  std::string text(length, '\0');
  take(text.data(), length);
  return parse_npy_header(source, text);
}

std::uint64_t npy_data_bytes(const ByteSource& source, const NpyHeader& header, std::uint64_t limit) {
  std::uint64_t bytes = size_of(header.dtype);
  bool fits = true, is_empty = false;
  for (std::int64_t size : header.shape) {
    is_empty = is_empty || size == 0;
    fits = fits && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1)),
                                           &bytes);
  }
  source.check(fits && bytes <= std::uint64_t{INT64_MAX} && (is_empty || bytes <= limit), kNpy, "has shape ",
               header.shape, " of ", header.dtype, ", more than the ", limit,
               " bytes that can be there; it is truncated or damaged");
  return is_empty ? 0 : bytes;
}

Tensor read_npy(const ByteSource& source, const ByteStream& next, std::uint64_t limit) {
  const NpyHeader header = read_npy_header(source, next);
  npy_data_bytes(source, header, limit);
  Strides strides = contiguous_strides(header.shape);
  if (header.fortran_order) {
    std::int64_t step = 1;
    for (int i = 0; i < header.shape.size(); ++i) {
      strides[i] = step;
      step *= std::max<std::int64_t>(header.shape[i], 1);
    }
  }
  Tensor flat = Tensor::allocate(header.shape, header.dtype, cpu);
  take_all(source, next, flat.raw_data(), static_cast<std::size_t>(flat.nbytes()));
  if (header.big_endian) swap_bytes(flat.raw_data(), flat.numel(), size_of(header.dtype));
  if (header.dtype == DType::boolean) {
    auto* values = static_cast<std::uint8_t*>(flat.raw_data());
    for (std::int64_t i = 0; i < flat.numel(); ++i) values[i] = values[i] != 0;
  }
  return Tensor::from_storage(flat.impl()->storage, header.shape, strides, 0, header.dtype);
}

Tensor load_npy(const ByteSource& source) {
  std::uint64_t at = 0;
  const auto next = [&](void* to, std::size_t bytes) {
    const std::size_t step = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, source.size() - at));
    source.read(at, to, step);
    at += step;
    return step;
  };
  Tensor tensor = read_npy(source, next, source.size());
  source.check(at == source.size(), kNpy, "has ", source.size() - at,
               " bytes after the array; the file is damaged");
  return tensor;
}

Tensor load_npy(const std::string& path) { return load_npy(*open_file(kNpy, path)); }

void save_npy(const std::string& path, const Tensor& tensor) {
  static_assert(std::endian::native == std::endian::little);
  const char* descr = nullptr;
  for (const ElementName& e : kElements)
    if (e.dtype == tensor.dtype()) descr = e.text;
  CT_CHECK(descr, DTypeError, "save_npy", "the tensor is ", describe(tensor),
           "; NumPy has no bf16: convert it with .to(ct::f32)");
  const Tensor dense = tensor.detach().to(cpu).contiguous();
  std::string header = detail::cat("{'descr': '", size_of(dense.dtype()) == 1 ? '|' : '<', descr,
                                   "', 'fortran_order': False, 'shape': (");
  for (std::int64_t size : dense.shape()) header += std::to_string(size) + ", ";
  header += "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';  // the data begins at a multiple of 64
  header += '\n';
  const std::uint16_t length = static_cast<std::uint16_t>(header.size());
  AtomicFile file(path);
  file.write(kMagic, 6);
  file.write("\x01\x00", 2);
  file.write(&length, 2);
  file.write(header);
  file.write(dense.raw_data(), static_cast<std::size_t>(dense.nbytes()));
  file.commit();
}

}  // namespace ct::io
