#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cotangent/nn/io/safetensors.h>
#include <cotangent/nn/io/source_internal.h>

namespace ct::io {

/// One tensor of a safetensors header.
struct TensorRecord {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::uint64_t begin = 0, end = 0;  // in bytes, from the end of the header
};

struct SafetensorsHeader {
  std::vector<TensorRecord> records;  // in the header's order
  Metadata metadata;
};

/// Reads and checks a header; `data_bytes` is what follows it. `source` is for messages.
CT_API SafetensorsHeader parse_safetensors_header(const ByteSource& source, std::string_view json,
                                                  std::uint64_t data_bytes);
/// Where the tensors' bytes begin in a file, and its header.
struct SafetensorsStart {
  std::uint64_t data = 0;
  SafetensorsHeader header;
};
CT_API SafetensorsStart read_safetensors_header(const ByteSource& source);
CT_API SafetensorsFile load_safetensors(const ByteSource& source);

/// The values of a StateDict as JSON and back; doubles keep every bit. Throws IoError.
CT_API std::string values_to_json(const StateDict& dict);
CT_API void values_from_json(const ByteSource& source, std::string_view json, StateDict& dict);

}  // namespace ct::io
