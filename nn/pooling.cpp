#include <cotangent/nn/pooling.h>

#include <cotangent/core/error.h>

namespace ct::nn::detail {

std::string window_text(Size2d size) { return ct::detail::cat('[', size.height, ", ", size.width, ']'); }
std::string window_text(std::int64_t size) { return std::to_string(size); }

}  // namespace ct::nn::detail
