#pragma once

#include <cstddef>
#include <string>

#include <cotangent/core/base/export.h>

// Internal.

namespace ct::detail {

/// "512 B", "1.50 KiB", "2.00 GiB".
CT_API std::string format_bytes(std::size_t bytes);

}  // namespace ct::detail
