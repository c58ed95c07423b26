#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include <cotangent/nn/io/json_internal.h>
#include <cotangent/nn/io/safetensors_internal.h>

namespace ct::io {
namespace {

constexpr char kOp[] = "load";

struct DTypeName {
  const char* text;
  DType dtype;
};
constexpr std::array<DTypeName, kDTypeCount> kDTypes = {{{"F32", DType::f32},
                                                         {"F64", DType::f64},
                                                         {"F16", DType::f16},
                                                         {"BF16", DType::bf16},
                                                         {"I64", DType::i64},
                                                         {"I32", DType::i32},
                                                         {"U8", DType::u8},
                                                         {"BOOL", DType::boolean}}};

// Integers of so many bytes, the lowest first.
template <std::size_t bytes, bool has_sign, class To>
void widen_integers(const std::byte* from, std::int64_t count, void* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t x = 0;
    for (std::size_t b = 0; b < bytes; ++b) x |= std::to_integer<std::int64_t>(*from++) << 8 * b;
    const bool negative = has_sign && (x >> (8 * bytes - 1)) != 0;
    static_cast<To*>(to)[i] = static_cast<To>(negative ? x - (std::int64_t{1} << 8 * bytes) : x);
  }
}
// 1 bit of sign, 4 of exponent, 3 of mantissa, and no infinity: f16 holds every such number.
std::uint16_t f16_of_e4m3(unsigned bits) {
  const unsigned sign = (bits & 0x80u) << 8, exponent = bits >> 3 & 15u, mantissa = bits & 7u;
  if (exponent == 15 && mantissa == 7) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (exponent > 0) return static_cast<std::uint16_t>(sign | (exponent + 8) << 10 | mantissa << 7);
  if (mantissa == 0) return static_cast<std::uint16_t>(sign);
  const unsigned shift = mantissa >= 4   ? 0
                         : mantissa >= 2 ? 1
                                         : 2;  // mantissa 2^-9, which f16 has with a leading 1
  return static_cast<std::uint16_t>(sign | (8 - shift) << 10 | (mantissa << (8 + shift) & 0x3ffu));
}
// The upper half of an f16.
std::uint16_t f16_of_e5m2(unsigned bits) { return static_cast<std::uint16_t>(bits << 8); }

template <std::uint16_t (*convert)(unsigned)>
void widen_bytes(const std::byte* from, std::int64_t count, void* to) {
  for (std::int64_t i = 0; i < count; ++i)
    static_cast<std::uint16_t*>(to)[i] = convert(std::to_integer<unsigned>(from[i]));
}
constexpr ForeignFormat kForeign[] = {{"I8", DType::i32, 1, widen_integers<1, true, std::int32_t>},
                                      {"I16", DType::i32, 2, widen_integers<2, true, std::int32_t>},
                                      {"U16", DType::i32, 2, widen_integers<2, false, std::int32_t>},
                                      {"U32", DType::i64, 4, widen_integers<4, false, std::int64_t>},
                                      {"F8_E4M3", DType::f16, 1, widen_bytes<f16_of_e4m3>},
                                      {"F8_E5M2", DType::f16, 1, widen_bytes<f16_of_e5m2>}};

// Reads the header as a stream of events, so that no depth of nesting and no repeated key can hurt: the
// format allows three levels and nothing else.
class HeaderReader final : public JsonEvents {
 public:
  explicit HeaderReader(const ByteSource& source) : source_(source) {}
  SafetensorsHeader header;

  void null() override { reject("null"); }
  void boolean(bool) override { reject("a boolean"); }
  void negative(std::int64_t) override { reject("a negative number"); }
  void number(double) override { reject("a fraction"); }

  void unsigned_integer(std::uint64_t value) override {
    if (where_ == Where::shape) {
      expect(record().shape.size() < kMaxRank,
             "has a tensor of more than 8 dimensions; this library has up to 8");
      expect(value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
             "has a size that does not fit into 63 bits");
      record().shape.push_back(static_cast<std::int64_t>(value));
    } else if (where_ == Where::offsets && offsets_ < 2) {
      (offsets_++ == 0 ? record().begin : record().end) = value;
    } else {
      reject("a number");
    }
  }

  void text(std::string value) override {
    if (where_ == Where::metadata)
      return expect(header.metadata.emplace(key_, std::move(value)).second, "has a metadata key twice");
    if (where_ != Where::tensor || key_ != "dtype") reject("a text");
    for (const DTypeName& d : kDTypes) {
      if (value == d.text) {
        record().dtype = d.dtype;
        return;
      }
    }
    for (const ForeignFormat& f : kForeign) {
      if (value == f.text) {
        record().dtype = f.dtype;
        record().foreign = &f;
        return;
      }
    }
    source_.fail(kOp, "tensor ", printable(record().name), " has dtype ", printable(value),
                 "; this library reads F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, I16, I8, U32, U16, "
                 "U8 and BOOL: convert "
                 "it first");
  }

  void begin_object() override {
    if (where_ == Where::outside && !seen_) {
      seen_ = true;
      where_ = Where::top;
      return;
    }
    if (where_ != Where::top) reject("an object");
    if (key_ == "__metadata__") {
      expect(!metadata_seen_, "has '__metadata__' twice");
      metadata_seen_ = true;
      where_ = Where::metadata;
    } else {
      header.records.emplace_back().name = key_;
      fields_ = 0;
      where_ = Where::tensor;
    }
  }

  void end_object() override {
    if (where_ == Where::tensor)
      expect(fields_ == 7, "is incomplete; a tensor needs dtype, shape and data_offsets");
    where_ = where_ == Where::top ? Where::outside : Where::top;
  }

  void begin_list() override {
    if (where_ == Where::tensor && key_ == "shape") {
      where_ = Where::shape;
    } else if (where_ == Where::tensor && key_ == "data_offsets") {
      where_ = Where::offsets;
      offsets_ = 0;
    } else {
      reject("a list");
    }
  }

  void end_list() override {
    expect(where_ == Where::shape || offsets_ == 2, "does not have two data_offsets");
    where_ = Where::tensor;
  }

  void key(std::string value) override {
    key_ = std::move(value);
    if (where_ == Where::top) expect(!key_.empty(), "has a tensor without a name");
    if (where_ == Where::tensor) {
      const int field = key_ == "dtype" ? 1 : key_ == "shape" ? 2 : key_ == "data_offsets" ? 4 : 0;
      expect(field != 0, "has a field that the format does not know");
      expect((fields_ & field) == 0, "has a field twice");
      fields_ |= field;
    }
  }

 private:
  enum class Where { outside, top, metadata, tensor, shape, offsets };

  TensorRecord& record() { return header.records.back(); }

  void expect(bool ok, const char* problem) {
    if (!ok)
      source_.fail(kOp, "the header's entry ", printable(entry()), " ", problem, "; the file is malformed");
  }
  [[noreturn]] void reject(const char* what) {
    source_.fail(kOp, "the header's entry ", printable(entry()), " has ", what,
                 " where the format has none; the file is malformed");
  }
  std::string entry() const {
    const bool in_tensor = where_ == Where::tensor || where_ == Where::shape || where_ == Where::offsets;
    return in_tensor ? header.records.back().name : key_;
  }

  const ByteSource& source_;
  Where where_ = Where::outside;
  std::string key_;
  int fields_ = 0, offsets_ = 0;
  bool seen_ = false, metadata_seen_ = false;
};

// Every byte of the data belongs to exactly one tensor, and each tensor has the bytes of its shape.
void check_layout(const ByteSource& source, const std::vector<TensorRecord>& records,
                  std::uint64_t data_bytes) {
  std::vector<const TensorRecord*> order;
  for (const TensorRecord& r : records) {
    // Sizes of 0 are left out at first: they would hide that the others overflow strides.
    std::uint64_t bytes = r.foreign ? r.foreign->bytes : size_of(r.dtype);
    bool fits = true;
    for (std::int64_t size : r.shape)
      fits = fits && !__builtin_mul_overflow(
                         bytes, static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1)), &bytes);
    source.check(fits && bytes <= std::uint64_t{INT64_MAX}, kOp, "tensor ", printable(r.name), " has shape ",
                 r.shape, ", more than 2^63 bytes; the file is malformed");
    if (std::ranges::count(r.shape, 0) > 0) bytes = 0;
    source.check(r.begin <= r.end && r.end <= data_bytes, kOp, "tensor ", printable(r.name),
                 " lies at bytes [", r.begin, ", ", r.end, ") of ", data_bytes,
                 "; the file is truncated or malformed");
    source.check(r.end - r.begin == bytes, kOp, "tensor ", printable(r.name), " of ", r.dtype, r.shape,
                 " has ", r.end - r.begin, " bytes; its shape needs ", bytes);
    order.push_back(&r);
  }
  std::ranges::stable_sort(order, [](const TensorRecord* a, const TensorRecord* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t at = 0;
  for (const TensorRecord* r : order) {
    source.check(r->begin == at, kOp, "tensor ", printable(r->name), " begins at byte ", r->begin,
                 " and the one before ends at ", at, "; tensors may neither overlap nor leave gaps");
    at = r->end;
  }
  source.check(at == data_bytes, kOp, "has ", data_bytes - at,
               " bytes after the last tensor; nothing may follow it");
}

// Moves the checksums from the metadata to where they belong. Neither entry is there without the other, so
// that no single damage makes a file one without checksums.
void take_checksums(const ByteSource& source, std::string_view json, SafetensorsHeader& header) {
  const auto own = header.metadata.extract(kHeaderSum), sums = header.metadata.extract(kTensorSums);
  if (own.empty() && sums.empty()) return;
  source.check(
      !own.empty() && !sums.empty() && json.starts_with(kSumStart) &&
          own.mapped() == checksum_text(header_checksum(json)) &&
          sums.mapped().size() + 1 == std::max<std::size_t>(header.records.size() * (kSumDigits + 1), 1),
      kOp,
      "the header does not fit its checksum; the file is damaged, or another program has changed "
      "it and kept the entries 'cotangent.*.crc32' of its metadata: take them out");
  const char* at = sums.mapped().data();
  for (TensorRecord& r : header.records) {
    std::uint32_t sum = 0;
    const char* end = std::from_chars(at, at + kSumDigits, sum, 16).ptr;
    source.check(end == at + kSumDigits, kOp, "the checksum of tensor ", printable(r.name),
                 " is no number; the file is damaged");
    r.crc = sum;
    at += kSumDigits + 1;
  }
}

}  // namespace

std::string checksum_text(std::uint32_t sum) {
  char text[kSumDigits + 1];
  std::snprintf(text, sizeof text, "%08x", sum);
  return text;
}

std::uint32_t header_checksum(std::string_view json) {
  const std::string zeros(kSumDigits, '0');
  const std::string_view rest = json.substr(std::min(json.size(), kSumStart.size() + kSumDigits));
  std::uint32_t sum = crc32_continue(0, kSumStart.data(), kSumStart.size());
  sum = crc32_continue(sum, zeros.data(), zeros.size());
  return crc32_continue(sum, rest.data(), rest.size());
}

SafetensorsHeader parse_safetensors_header(const ByteSource& source, std::string_view json,
                                           std::uint64_t data_bytes) {
  source.check(!json.empty() && json.front() == '{', kOp,
               "the header does not begin with '{'; this is not a safetensors file, or it is damaged");
  HeaderReader reader(source);
  read_json({kOp, source.name(), "the header is", "this is not a safetensors file, or it is damaged"}, json,
            reader);
  SafetensorsHeader header = std::move(reader.header);
  std::vector<std::string_view> names;
  for (const TensorRecord& r : header.records) names.push_back(r.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end())
    source.fail(kOp, "has tensor ", printable(*twice), " twice; the file is malformed");
  check_layout(source, header.records, data_bytes);
  take_checksums(source, json, header);
  return header;
}

// ---- values -------------------------------------------------------------------------------------------

std::string values_to_json(const StateDict& dict) {
  std::vector<Json::Member> members;
  for (const auto& [name, value] : dict.values()) {
    if (const double* number = std::get_if<double>(&value); number && !std::isfinite(*number)) {
      // JSON has no infinities: the bits, in an object.
      members.emplace_back(name, Json::object({{"bits", std::bit_cast<std::uint64_t>(*number)}}));
    } else {
      std::visit([&members, &key = name](const auto& v) { members.emplace_back(key, v); }, value);
    }
  }
  return Json::object(std::move(members)).dump("save");
}

void values_from_json(const ByteSource& source, std::string_view json, StateDict& dict) {
  const Json values = parse_json({kOp, source.name(), "its values are", "the file is damaged"}, json, 2);
  source.check(values.is_object(), kOp, "its values are not a JSON object; the file is damaged");
  for (const auto& [name, value] : *values.members()) {
    if (const bool* flag = value.boolean()) {
      dict.set_value(name, *flag);
    } else if (const auto integer = value.integer()) {
      dict.set_value(name, *integer);
    } else if (const std::string* text = value.text()) {
      dict.set_value(name, *text);
    } else if (const Json* bits = value.find("bits")) {
      source.check(value.members()->size() == 1 && bits->unsigned_integer(), kOp, "value ", printable(name),
                   " is neither number, switch nor text; the file is damaged");
      dict.set_value(name, std::bit_cast<double>(*bits->unsigned_integer()));
    } else {
      source.check(!value.unsigned_integer(), kOp, "value ", printable(name),
                   " does not fit into 63 bits; the file is damaged");
      source.check(value.number().has_value(), kOp, "value ", printable(name),
                   " is neither number, switch nor text; the file is damaged");
      dict.set_value(name, *value.number());
    }
  }
}

}  // namespace ct::io
