#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cotangent/nn/io/safetensors.h>
#include <cotangent/nn/io/source_internal.h>

namespace ct::io {

/// One tensor of a safetensors header.
/// A format of elements without a dtype here, and the dtype that holds all its numbers.
struct ForeignFormat {
  const char* text;
  DType dtype;
  std::size_t bytes;  // of an element in the file
  void (*widen)(const std::byte* from, std::int64_t count, void* to);
};

struct TensorRecord {
  std::string name;
  DType dtype = DType::f32;
  const ForeignFormat* foreign =
      nullptr;  // how it is stored, if this library has no such dtype: it becomes `dtype`
  Shape shape;
  std::uint64_t begin = 0, end = 0;  // in bytes, from the end of the header
  std::optional<std::uint32_t> crc;  // of these bytes, if the file tells it
};

struct SafetensorsHeader {
  std::vector<TensorRecord> records;  // in the header's order
  Metadata metadata;
};

/// The entries of the metadata with the checksums, which this library writes first of all. They hold 8
/// hexadecimal digits: of the header, with zeros in their place, and of each tensor in the header's order,
/// with a space between them.
inline constexpr char kHeaderSum[] = "cotangent.header.crc32";
inline constexpr char kTensorSums[] = "cotangent.tensors.crc32";
inline constexpr std::string_view kSumStart = R"({"__metadata__":{"cotangent.header.crc32":")";
inline constexpr std::size_t kSumDigits = 8;
std::string checksum_text(std::uint32_t sum);
/// The checksum of a header that begins with kSumStart.
std::uint32_t header_checksum(std::string_view json);

/// Reads and checks a header; `data_bytes` is what follows it. `source` is for messages.
CT_API SafetensorsHeader parse_safetensors_header(const ByteSource& source, std::string_view json,
                                                  std::uint64_t data_bytes);
/// Header of a file, and the place where the tensors' bytes begin.
struct SafetensorsStart {
  std::uint64_t data = 0;
  SafetensorsHeader header;
};
CT_API SafetensorsStart read_safetensors_header(const ByteSource& source);
/// Reads the bytes of one tensor and compares them with their checksum, if there is one.
void read_tensor(const ByteSource& source, std::uint64_t data, const TensorRecord& record, void* to);
CT_API SafetensorsFile load_safetensors(const ByteSource& source);

/// The values of a StateDict as JSON and back; doubles keep every bit. Throws IoError.
CT_API std::string values_to_json(const StateDict& dict);
CT_API void values_from_json(const ByteSource& source, std::string_view json, StateDict& dict);

}  // namespace ct::io
