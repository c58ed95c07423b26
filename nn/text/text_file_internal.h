#pragma once

#include <string>

#include <cotangent/nn/io/source_internal.h>

namespace ct::text::detail {

/// A whole file. Throws IoError, naming `op`.
inline std::string read_text_file(const char* op, const std::string& path) {
  const auto source = io::open_file(op, path);
  std::string text(static_cast<std::size_t>(source->size()), '\0');
  source->read(0, text.data(), text.size());
  return text;
}

}  // namespace ct::text::detail
