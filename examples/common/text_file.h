#pragma once

#include <cotangent/core/base/error.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

/// A whole file. Throws ct::IoError in the name of `program`.
inline std::string read_text(const char* program, const std::string& path) {
  std::error_code ignored;
  // Opening a folder succeeds; reading it throws what does not name it.
  CT_CHECK(!std::filesystem::is_directory(path, ignored), ct::IoError, program, path,
           " is a folder; give a text file that you may read");
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  CT_CHECK(in.good(), ct::IoError, program, "can't read ", path, "; give a file that you may read");
  return text;
}
