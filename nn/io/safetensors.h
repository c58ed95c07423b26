#pragma once

#include <map>
#include <string>

#include <cotangent/core/export.h>
#include <cotangent/nn/state_dict.h>

// The safetensors format (https://huggingface.co/docs/safetensors): 8 bytes with the length of a JSON header,
// the header, the bytes of all tensors. Files of this library are read by others and the other way round.
//
// Reading trusts nothing: lengths, offsets, shapes and nesting are checked before memory is asked for, and a
// file that is not exactly as the format wants it throws IoError.

namespace ct::io {

/// Free text by name, in the file's header.
using Metadata = std::map<std::string, std::string>;

struct SafetensorsFile {
  StateDict tensors;
  Metadata metadata;
};

/// Writes the tensors of `dict` (from any device, any strides) to `path`. The file appears as a whole or not
/// at all, see AtomicFile. The values of `dict`, if it has any, go into the metadata under
/// "cotangent.values", a key that `metadata` must not have. The order of the tensors is kept by load().
/// Throws IoError.
CT_API void save(const std::string& path, const StateDict& dict, const Metadata& metadata = {});

/// Reads what save() or another program wrote. Tensors come as CPU tensors in the file's dtypes and order.
/// Throws IoError for a file that is missing, truncated, malformed or has dtypes that this library has not
/// (F8_*, I8, I16, U16, U32, U64), naming the path and the tensor.
CT_API StateDict load(const std::string& path);
/// The same with the metadata.
CT_API SafetensorsFile load_file(const std::string& path);

}  // namespace ct::io
