#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
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

// Reads the header as a stream of events, so that no depth of nesting and no repeated key can hurt: the
// format allows three levels and nothing else.
class HeaderReader {
 public:
  explicit HeaderReader(const ByteSource& source) : source_(source) {}
  SafetensorsHeader header;

  // ---- what nlohmann's SAX interface asks for ----
  using Json = nlohmann::json;
  bool null() { return reject("null"); }
  bool boolean(bool) { return reject("a boolean"); }
  bool number_integer(Json::number_integer_t) { return reject("a negative number"); }
  bool number_float(Json::number_float_t, const std::string&) { return reject("a fraction"); }
  bool binary(Json::binary_t&) { return reject("binary data"); }

  bool number_unsigned(Json::number_unsigned_t value) {
    if (where_ == Where::shape) {
      expect(record().shape.size() < kMaxRank,
             "has a tensor of more than 8 dimensions; this library has up to 8");
      expect(value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
             "has a size that does not fit into 63 bits");
      record().shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (where_ == Where::offsets && offsets_ < 2) {
      (offsets_++ == 0 ? record().begin : record().end) = value;
      return true;
    }
    return reject("a number");
  }

  bool string(std::string& value) {
    if (where_ == Where::metadata) {
      expect(header.metadata.emplace(key_, std::move(value)).second, "has a metadata key twice");
      return true;
    }
    if (where_ != Where::tensor || key_ != "dtype") return reject("a text");
    for (const DTypeName& d : kDTypes) {
      if (value == d.text) {
        record().dtype = d.dtype;
        return true;
      }
    }
    source_.fail(kOp, "tensor '", record().name, "' has dtype '", value,
                 "'; this library reads F64, F32, F16, BF16, I64, I32, U8 and BOOL: convert it first");
  }

  bool start_object(std::size_t) {
    if (where_ == Where::outside && !seen_) {
      seen_ = true;
      where_ = Where::top;
      return true;
    }
    if (where_ != Where::top) return reject("an object");
    if (key_ == "__metadata__") {
      expect(!metadata_seen_, "has '__metadata__' twice");
      metadata_seen_ = true;
      where_ = Where::metadata;
    } else {
      header.records.emplace_back().name = key_;
      fields_ = 0;
      where_ = Where::tensor;
    }
    return true;
  }

  bool end_object() {
    if (where_ == Where::tensor)
      expect(fields_ == 7, "is incomplete; a tensor needs dtype, shape and data_offsets");
    where_ = where_ == Where::top ? Where::outside : Where::top;
    return true;
  }

  bool start_array(std::size_t) {
    if (where_ == Where::tensor && key_ == "shape") {
      where_ = Where::shape;
    } else if (where_ == Where::tensor && key_ == "data_offsets") {
      where_ = Where::offsets;
      offsets_ = 0;
    } else {
      return reject("a list");
    }
    return true;
  }

  bool end_array() {
    expect(where_ == Where::shape || offsets_ == 2, "does not have two data_offsets");
    where_ = Where::tensor;
    return true;
  }

  bool key(std::string& value) {
    key_ = std::move(value);
    if (where_ == Where::top) expect(!key_.empty(), "has a tensor without a name");
    if (where_ == Where::tensor) {
      const int field = key_ == "dtype" ? 1 : key_ == "shape" ? 2 : key_ == "data_offsets" ? 4 : 0;
      expect(field != 0, "has a field that the format does not know");
      expect((fields_ & field) == 0, "has a field twice");
      fields_ |= field;
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) {
    source_.fail(kOp, "the header is not valid JSON near byte ", position,
                 "; this is not a safetensors file, "
                 "or it is damaged");
  }

 private:
  enum class Where { outside, top, metadata, tensor, shape, offsets };

  TensorRecord& record() { return header.records.back(); }

  void expect(bool ok, const char* problem) {
    if (!ok) source_.fail(kOp, "the header's entry '", entry(), "' ", problem, "; the file is malformed");
  }
  bool reject(const char* what) {
    source_.fail(kOp, "the header's entry '", entry(), "' has ", what,
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
    std::uint64_t bytes = size_of(r.dtype);
    bool fits = true;
    for (std::int64_t size : r.shape)
      fits = fits && !__builtin_mul_overflow(
                         bytes, static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1)), &bytes);
    source.check(fits && bytes <= std::uint64_t{INT64_MAX}, kOp, "tensor '", r.name, "' has shape ", r.shape,
                 ", more than 2^63 bytes; the file is malformed");
    if (std::ranges::count(r.shape, 0) > 0) bytes = 0;
    source.check(r.begin <= r.end && r.end <= data_bytes, kOp, "tensor '", r.name, "' lies at bytes [",
                 r.begin, ", ", r.end, ") of ", data_bytes, "; the file is truncated or malformed");
    source.check(r.end - r.begin == bytes, kOp, "tensor '", r.name, "' of ", r.dtype, r.shape, " has ",
                 r.end - r.begin, " bytes; its shape needs ", bytes);
    order.push_back(&r);
  }
  std::ranges::stable_sort(order, [](const TensorRecord* a, const TensorRecord* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t at = 0;
  for (const TensorRecord* r : order) {
    source.check(r->begin == at, kOp, "tensor '", r->name, "' begins at byte ", r->begin,
                 " and the one before ends at ", at, "; tensors may neither overlap nor leave gaps");
    at = r->end;
  }
  source.check(at == data_bytes, kOp, "has ", data_bytes - at,
               " bytes after the last tensor; nothing may follow it");
}

}  // namespace

SafetensorsHeader parse_safetensors_header(const ByteSource& source, std::string_view json,
                                           std::uint64_t data_bytes) {
  source.check(!json.empty() && json.front() == '{', kOp,
               "the header does not begin with '{'; this is not a safetensors file, or it is damaged");
  HeaderReader reader(source);
  nlohmann::json::sax_parse(json, &reader);
  SafetensorsHeader header = std::move(reader.header);
  std::vector<std::string_view> names;
  for (const TensorRecord& r : header.records) names.push_back(r.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) source.fail(kOp, "has tensor '", *twice, "' twice; the file is malformed");
  check_layout(source, header.records, data_bytes);
  return header;
}

// ---- values -------------------------------------------------------------------------------------------

std::string values_to_json(const StateDict& dict) {
  std::string out = "{";
  for (const auto& [name, value] : dict.values()) {
    out.append(out.size() > 1 ? "," : "").append(json_text(name, true)).append(":");
    if (const double* number = std::get_if<double>(&value); number && !std::isfinite(*number)) {
      // JSON has no infinities: the bits, in an object.
      out.append(R"({"bits":)").append(std::to_string(std::bit_cast<std::uint64_t>(*number))).append("}");
    } else {
      out += std::visit([](const auto& v) { return json_text(v, true); }, value);
    }
  }
  return out + '}';
}

void values_from_json(const ByteSource& source, std::string_view json, StateDict& dict) {
  const JsonTree tree(json, 2);
  source.check(!tree.too_deep(), kOp, "its values are nested; the file is damaged");
  source.check(!tree.is_discarded(), kOp, "its values are not valid JSON; the file is damaged");
  const nlohmann::json& values = *tree;
  source.check(values.is_object(), kOp, "its values are not a JSON object; the file is damaged");
  for (const auto& [name, value] : values.items()) {
    using Kind = nlohmann::json::value_t;
    switch (value.type()) {
      case Kind::boolean: dict.set_value(name, value.get<bool>()); break;
      case Kind::number_integer: dict.set_value(name, value.get<std::int64_t>()); break;
      case Kind::number_unsigned:
        source.check(value.get<std::uint64_t>() <= std::uint64_t{INT64_MAX}, kOp, "value '", name,
                     "' does not fit into 63 bits; the file is damaged");
        dict.set_value(name, value.get<std::int64_t>());
        break;
      case Kind::number_float: dict.set_value(name, value.get<double>()); break;
      case Kind::string: dict.set_value(name, value.get<std::string>()); break;
      default:
        source.check(value.is_object() && value.size() == 1 && value.contains("bits") &&
                         value["bits"].is_number_unsigned(),
                     kOp, "value '", name, "' is neither number, switch nor text; the file is damaged");
        dict.set_value(name, std::bit_cast<double>(value["bits"].get<std::uint64_t>()));
    }
  }
}

}  // namespace ct::io
