#pragma once

#include <cotangent/core/base/export.h>

// Version of the library. The numbers below are the only place where the version is written: the build, the
// package and pkg-config read them from here.

#define COTANGENT_VERSION_MAJOR 0
#define COTANGENT_VERSION_MINOR 1
#define COTANGENT_VERSION_PATCH 0
#define COTANGENT_VERSION_STRING "0.1.0"

namespace ct {

/// The version of the library that is linked, "0.1.0". COTANGENT_VERSION_STRING is that of the headers.
CT_API const char* version() noexcept;

/// How the linked library was built. Every text is there for the life of the process and never null.
struct BuildInfo {
  const char* version;             ///< as version()
  const char* commit;              ///< 12 digits of the commit, "-dirty" behind them when files were changed;
                                   ///< "unknown" when the sources were no git checkout
  const char* compiler;            ///< "GNU 12.2.0"
  const char* build_type;          ///< "Release"; empty when none was chosen
  const char* flags;               ///< what decides how host code computes: "-O3 -DNDEBUG -march=native"
  const char* sanitizers;          ///< "address,undefined"; empty without
  const char* cuda;                ///< version of the CUDA toolkit, "13.0.88"; empty without CUDA
  const char* cuda_architectures;  ///< "80-real 90a-real"; empty without CUDA
};

/// How the linked library was built: for logs, reports and the folders that runs leave behind.
CT_API const BuildInfo& build_info() noexcept;

}  // namespace ct
