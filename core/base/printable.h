#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include <cotangent/core/base/export.h>

// Text of unknown origin (names and values out of files, paths) in messages.

namespace ct {

/// A text that is made printable when it is written to a stream, and costs nothing before. Refers to the text.
struct Printable {
  std::string_view text;
  std::size_t limit;
  const char* quote;

  CT_API std::string str() const;
};
CT_API std::ostream& operator<<(std::ostream& out, const Printable& text);

/// `text` between single quotes as any terminal can show it: control characters, invisible and
/// direction-changing ones and whatever is not UTF-8 become \xNN for each byte, a quote and a backslash get a
/// backslash before them. Of more than `limit` bytes the middle is left out, and their number follows.
inline Printable printable(std::string_view text, std::size_t limit = 160) { return {text, limit, "'"}; }

/// The same without the quotes.
inline Printable escaped(std::string_view text, std::size_t limit = 160) { return {text, limit, ""}; }

/// A path as printable() shows it, in full: as long as a path can be.
inline Printable printable_path(std::string_view path) { return {path, 4096, "'"}; }

/// The first names of a list as printable() shows them, with commas between them, and how many more there are.
CT_API std::string printable_list(const std::vector<std::string>& names, std::size_t limit = 20);

namespace detail {

/// Reads the character at text[at], at < text.size(): its code point and its length of 1 to 4 bytes, or 0
/// where no well-formed UTF-8 begins.
CT_API std::size_t utf8_at(std::string_view text, std::size_t at, char32_t& code);

/// Whether all of `text` is well-formed UTF-8.
CT_API bool is_utf8(std::string_view text);

}  // namespace detail
}  // namespace ct
