#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

// Tensors as text. `out << tensor` (core/tensor/tensor.h) writes what to_string() gives.

namespace ct {

/// Format of printed tensors; the names and the defaults are PyTorch's.
struct PrintOptions {
  int precision = 4;              ///< digits after the point
  std::int64_t threshold = 1000;  ///< more elements than that are summarised
  std::int64_t edge_items = 3;    ///< what is left of a long axis on either side
  int line_width = 80;            ///< in characters
  /// Whether numbers have exponents; unset, the values decide.
  std::optional<bool> scientific = std::nullopt;
};

/// Sets the process's options, which all threads print with from then on. Throws ValueError for a precision outside of
/// [0, 17], fewer than 0 elements or items, a line narrower than 16 or wider than 65536 characters.
CT_API void set_print_options(const PrintOptions& options);
CT_API PrintOptions print_options();

/// Values, shape where it can't be seen, dtype, device and grad_fn, in PyTorch's layout. Waits for the device.
CT_API std::string to_string(const Tensor& t);
CT_API std::string to_string(const Tensor& t, const PrintOptions& options);

}  // namespace ct
