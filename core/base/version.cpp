#include <cotangent/core/base/version.h>

// The commit and the settings of the build. No other file depends on them: a commit recompiles this one alone.
#include <cotangent_commit.h>
#include <cotangent_settings.h>

namespace ct {

const char* version() noexcept { return COTANGENT_VERSION_STRING; }

const BuildInfo& build_info() noexcept {
  static constexpr BuildInfo info = {
      COTANGENT_VERSION_STRING, COTANGENT_BUILD_COMMIT,
      COTANGENT_BUILD_COMPILER, COTANGENT_BUILD_TYPE,
      COTANGENT_BUILD_FLAGS,    COTANGENT_BUILD_SANITIZERS,
      COTANGENT_BUILD_CUDA,     COTANGENT_BUILD_CUDA_ARCHITECTURES,
  };
  return info;
}

}  // namespace ct
