#include <cotangent/nn/pooling.h>

#include <cotangent/core/base/error.h>

namespace ct::nn::detail {

std::string window_text(Size2d size) { return ct::detail::cat('[', size.height, ", ", size.width, ']'); }
std::string window_text(std::int64_t size) { return std::to_string(size); }

}  // namespace ct::nn::detail

namespace ct::nn {

Upsample::Upsample(const InterpolateOptions& options) : options_(options) {
  const char* const modes[] = {"nearest", "linear", "bilinear"};
  const OptionalScale2d& scale = options.scale_factor;
  describe_as("Upsample",
              (options.size ? "size=" + detail::window_text(*options.size)
                            : ct::detail::cat("scale_factor=[", scale.height, ", ", scale.width, ']')) +
                  ", mode=" + modes[static_cast<int>(options.mode)]);
}

}  // namespace ct::nn
