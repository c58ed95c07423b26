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
//
// Files of this library hold checksums (CRC-32, that of zip and gzip): one of each tensor and one of the header,
// in the metadata under "cotangent.tensors.crc32" and "cotangent.header.crc32", where other readers pass over
// them. load() compares them, so that damage on a disk or on the way is found; files without them load as well.
// A program that changes such a file must not copy these two entries.

namespace ct::io {

/// Free text by name, in the file's header.
using Metadata = std::map<std::string, std::string>;

struct SafetensorsFile {
  StateDict tensors;
  Metadata metadata;
};

/// Writes the tensors of `dict` (from any device, any strides) to `path`. The file appears as a whole or not
/// at all, see AtomicFile. The values of `dict`, if it has any, go into the metadata under "cotangent.values";
/// keys of `metadata` must not begin with "cotangent.". The order of the tensors is kept by load(). Throws
/// IoError, also for a name or text that is not UTF-8.
CT_API void save(const std::string& path, const StateDict& dict, const Metadata& metadata = {});

/// Reads what save() or another program wrote. Tensors come as CPU tensors in the file's dtypes and order.
/// Throws IoError for a file that is missing, truncated, malformed or damaged, or has dtypes that this library
/// has not (F8_*, I8, I16, U16, U32, U64), naming the path and the tensor.
CT_API StateDict load(const std::string& path);
/// The same with the metadata.
CT_API SafetensorsFile load_file(const std::string& path);

}  // namespace ct::io
