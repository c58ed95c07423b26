#pragma once

#include <cotangent/core/export.h>

namespace ct {

/// What this library was built from, and how.
struct Version {
  const char* number;    ///< "0.1.0"
  const char* commit;    ///< "d6a395e1c0b4", with "-dirty" if files had changed; "unknown" outside of a clone
  const char* compiler;  ///< "GNU 12.2.0, Release, -march=native, CUDA 12.4.131"
};

/// Of the library in use. The commit is that of the last time the build was configured, as ./ct does before
/// every build.
CT_API const Version& version();

}  // namespace ct
