#pragma once

#include <concepts>
#include <cstddef>
#include <iosfwd>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cotangent/core/base/export.h>
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

// ---- Streams and memory -----------------------------------------------------------------------------------
// The same bytes elsewhere.

/// Writes to a stream, which need not be one that can go back. Throws IoError, also if the stream fails.
CT_API void save(std::ostream& out, const StateDict& dict, const Metadata& metadata = {});
CT_API std::vector<std::byte> save_to_memory(const StateDict& dict, const Metadata& metadata = {});
/// Reads a stream to its end. Throws IoError as for a file, and if the stream fails.
CT_API StateDict load(std::istream& in);
CT_API StateDict load(std::span<const std::byte> bytes);

// ---- Single tensors, and what has a state -----------------------------------------------------------------

/// An object with a state: a module, an optimizer, a schedule.
template <class T>
concept HasState = requires(const T& object) {
  { object.state_dict() } -> std::convertible_to<StateDict>;
};
/// A Tensor, or a handle to one: nn::Parameter.
template <class T>
concept IsTensor = std::same_as<T, Tensor> || std::derived_from<T, TensorHandle>;
/// {"tensor": tensor}, and back: the only tensor, whatever its name. Throws IoError if there is another number of them.
CT_API StateDict dict_of_tensor(const Tensor& tensor);
CT_API Tensor only_tensor(const StateDict& dict);

/// save(where, model) and save(where, tensor): `where` is a path or a std::ostream. A module, an optimizer, whatever
/// has a state_dict(), is saved as that; a tensor under the name "tensor". Throws as save() of a StateDict.
template <class Where, HasState T>
void save(Where&& where, const T& object) {
  save(std::forward<Where>(where), StateDict(object.state_dict()));
}
template <class Where, IsTensor T>
void save(Where&& where, const T& tensor) {
  save(std::forward<Where>(where), dict_of_tensor(tensor));
}
/// The same into memory.
template <class T>
requires(HasState<T> || IsTensor<T>) std::vector<std::byte> save_to_memory(const T& object) {
  if constexpr (HasState<T>) {
    return save_to_memory(StateDict(object.state_dict()));
  } else {
    return save_to_memory(dict_of_tensor(object));
  }
}

/// Loads into a module, or whatever has a load_state_dict(), from a path, a std::istream or memory. Throws as load(),
/// and what load_state_dict() throws, having changed nothing.
template <class Where, HasState T>
void load(Where&& where, T& object) {
  object.load_state_dict(load(std::forward<Where>(where)));
}
/// The tensor of a file, stream or memory that has one, whatever its name. Throws as load(), IoError if there is another
/// number of tensors.
template <class Where>
Tensor load_tensor(Where&& where) {
  return only_tensor(load(std::forward<Where>(where)));
}

}  // namespace ct::io
