#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace flags {

/// Names with their values as JSON.
using Members = std::vector<std::pair<std::string, std::string>>;

inline std::string json(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}
inline std::string json(bool value) { return value ? "true" : "false"; }
/// The shortest text that is read back as the same number.
inline std::string json(double value) {
  char text[40];
  for (const int digits : {6, 15, 17}) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}
template <class Int>
requires std::is_integral_v<Int> std::string json(Int value) { return std::to_string(value); }
inline std::string json(const std::vector<std::int64_t>& values) {
  std::string out = "[";
  for (const std::int64_t value : values) out += (out.size() > 1 ? ", " : "") + std::to_string(value);
  return out + ']';
}

/// The value of a member; empty if there is none of this name.
inline std::string value_of(const Members& members, const std::string& name) {
  for (const auto& [key, value] : members)
    if (key == name) return value;
  return {};
}

}  // namespace flags
