#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <cotangent/nn/io/npy.h>
#include <cotangent/nn/io/source_internal.h>

namespace ct::io {

struct NpyHeader {
  DType dtype = DType::f32;
  bool big_endian = false;
  bool fortran_order = false;
  Shape shape;
};

/// Reads the Python dictionary of an .npy header.
CT_API NpyHeader parse_npy_header(const ByteSource& source, std::string_view text);

/// Hands out the next bytes of an array; returns how many there were.
using ByteStream = std::function<std::size_t(void* to, std::size_t bytes)>;
/// Reads the start of an array, up to its data.
CT_API NpyHeader read_npy_header(const ByteSource& source, const ByteStream& next);
/// The bytes of its data. Throws IoError if they are more than `limit`.
CT_API std::uint64_t npy_data_bytes(const ByteSource& source, const NpyHeader& header, std::uint64_t limit);
/// Reads one array of at most `limit` bytes of data.
CT_API Tensor read_npy(const ByteSource& source, const ByteStream& next, std::uint64_t limit);

CT_API Tensor load_npy(const ByteSource& source);
CT_API StateDict load_npz(const ByteSource& source);

}  // namespace ct::io
