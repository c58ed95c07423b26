#pragma once

#include <initializer_list>
#include <string>

#include <cotangent/core/base/export.h>
#include <cotangent/nn/plugin/own_op.h>
#include <cotangent/ops/dispatch.h>

// Ops that a program builds and loads while it runs. Link Cotangent::loader.

namespace ct {

namespace detail {
/// The include folder that a header of this folder was found in, by its path: the one that holds cotangent/.
CT_API std::string include_folder_of(const char* header);
}  // namespace detail

/// Settings to compile an op's folder. An empty field is taken from the environment, or else has the default stated.
struct LoadOptions {
  std::string compiler{};  ///< COTANGENT_CXX; the compiler of the library where it is there, else c++
  std::string flags{};     ///< COTANGENT_CXX_FLAGS, words; those of the library (build_info().flags)
  /// COTANGENT_CACHE; $XDG_CACHE_HOME/cotangent, or ~/.cache/cotangent, or else a new private folder. Others must not be able
  /// to write to it.
  std::string cache{};
  /// COTANGENT_INCLUDE goes before it: the headers that this program was compiled with.
  std::string include = detail::include_folder_of(__FILE__);
};

/// A loaded op. It stays loaded until the program ends.
struct LoadedOp : OwnOp {
  std::string library;  ///< the shared object that it is in
  bool built = false;   ///< it was compiled by this call; otherwise it was in the cache

  /// Calls it: the first output. Throws what dispatch() throws.
  Tensor operator()(std::initializer_list<detail::InputRef> inputs, AttrsView attrs = {}) const {
    return dispatch(*op, inputs, attrs);
  }
};

/// Compiles FOLDER/op.cpp to a shared object in the cache and returns its path. One that was compiled from the same sources
/// in the folder (not in folders below it, nor elsewhere), by the same compiler, with the same flags and headers is taken as
/// it is. If several processes load it at once, one compiles and the others wait. Sets `*built` where given.
/// Throws IoError where the folder has no op.cpp, the cache can't be written or belongs to others, or there are no compiler or headers, and Error
/// with the compiler's messages where it does not compile.
CT_API std::string build_op(const std::string& folder, const LoadOptions& options = {},
                            bool* built = nullptr);

/// Loads the op of a folder, built by build_op(), or of a shared object that build_op() has made, and registers it: find_op()
/// knows it. A folder that was loaded before and has changed is built and loaded anew; nodes that hold the old op still work.
/// The program must export the library's functions: link Cotangent::loader.
/// Throws as build_op(); Error where the file is no op, is one of another version of the library, or needs what this
/// program does not export; ValueError where another op, not loaded, has its name. Ops loaded before stay as they are.
CT_API LoadedOp load_op(const std::string& path, const LoadOptions& options = {});

}  // namespace ct
