#pragma once

#include <string>

#include <cotangent/core/base/export.h>
#include <cotangent/nn/state_dict.h>

// NumPy's .npy and .npz files (numpy.lib.format): for exchange with Python and for reference values in tests.

namespace ct::io {

/// Reads an array: f2 f4 f8 i4 i8 u1 b1 of either byte order, C or Fortran order (which becomes strides).
/// Throws IoError for a file that is missing, truncated, malformed or of another element type.
CT_API Tensor load_npy(const std::string& path);

/// Reads all arrays of an archive, stored or compressed (np.savez, np.savez_compressed), by their names
/// without ".npy". Checksums are verified. Throws IoError as load_npy().
CT_API StateDict load_npz(const std::string& path);

/// Writes an array as a whole or not at all. bf16, which NumPy has not, throws DTypeError: convert to f32.
CT_API void save_npy(const std::string& path, const Tensor& tensor);

}  // namespace ct::io
