#include <cotangent/ops/autocast.h>

namespace ct {
namespace {

detail::AutocastMode mode_of(DType dtype, const AutocastOptions& options) {
  CT_CHECK(is_low_precision(dtype), DTypeError, "autocast", "got dtype ", name(dtype),
           "; bf16 and f16 are what it converts to");
  return {true, dtype, options.cache_weights};
}

}  // namespace

Autocast::Autocast(DType dtype, AutocastOptions options) : guard_(mode_of(dtype, options)) {}

}  // namespace ct
