#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <cotangent/core/base/export.h>

// Compilers as child processes, and the cache: the folder that keeps what they made.

namespace ct::jit {

/// A name for all that something is made of (FNV-1a).
class CT_API Fingerprint {
 public:
  void add(std::string_view part) {
    for (const char c : part) byte(static_cast<unsigned char>(c));
    byte(256);  // "ab", "c" is not "a", "bc"
  }
  /// A program or library, by its path, size and time.
  void add_file(const std::string& path);
  /// 16 hexadecimal digits.
  std::string text() const;

 private:
  void byte(unsigned value) { hash_ = (hash_ ^ value) * 0x100000001b3u; }
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

/// The value of an environment variable; `otherwise` where it is not set or empty.
CT_API std::string variable(const char* name, const std::string& otherwise = "");

/// The whole file. Throws IoError.
CT_API std::string read_text(const char* op, const std::string& path);

/// Reads a file of the cache without its last line, a digest of the others. False where it is damaged or is not there.
CT_API bool read_whole(const std::string& path, std::string& contents);

/// The path of a program: of `name` itself where it has a slash, else on the PATH. Empty where there is none.
CT_API std::string find_program(const std::string& name);

struct Ran {
  bool ok = false;
  std::string output;  // of both streams
};
/// Runs a program to its end, without a shell.
CT_API Ran run(const std::vector<std::string>& command);

/// Throws Error "[op] WHAT; ..." with what a compiler said: its first lines.
[[noreturn]] CT_API void fail_compiling(const char* op, const std::string& what, const Ran& ran);

/// The file `name` of the cache `folder` ("": the default one), which `make(path)` writes where it is not there yet. One of
/// several processes makes it, and a damaged file is made again. Sets `*made`. Throws IoError where the cache can't be
/// written, or others can write to it, and what `make` throws.
CT_API std::string cached(const char* op, const std::string& folder, const std::string& name,
                          const std::function<void(const std::string& path)>& make, bool* made = nullptr);

}  // namespace ct::jit
