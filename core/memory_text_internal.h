#pragma once

#include <cstddef>
#include <string>

// Internal.

namespace ct::detail {

/// "512 B", "1.50 KiB", "2.00 GiB".
std::string format_bytes(std::size_t bytes);

}  // namespace ct::detail
