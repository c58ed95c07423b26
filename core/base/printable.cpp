#include <algorithm>
#include <ostream>

#include <cotangent/core/base/printable.h>

namespace ct {
namespace {

// Control characters, and those that are not seen themselves but change how others are.
bool is_hidden(char32_t c) {
  constexpr char32_t ranges[][2] = {{0, 0x1F},        {0x7F, 0x9F},       {0xAD, 0xAD},
                                    {0x200B, 0x200F}, {0x2028, 0x202E},   {0x2060, 0x206F},
                                    {0xFEFF, 0xFEFF}, {0xFFF0, 0xFFFB},   {0xE0000, 0xE0FFF},
                                    {0x61C, 0x61C},   {0xF0000, 0x10FFFF}};
  return std::ranges::any_of(ranges, [c](const char32_t(&r)[2]) { return c >= r[0] && c <= r[1]; });
}

// Appends text[at, end), whole characters only.
void append_escaped(std::string& out, std::string_view text, std::size_t at, std::size_t end) {
  constexpr char digits[] = "0123456789ABCDEF";
  while (at < end) {
    char32_t code = 0;
    const std::size_t length = detail::utf8_at(text, at, code);
    const std::size_t step = std::max<std::size_t>(length, 1);
    if (length > 0 && !is_hidden(code)) {
      if (code == '\'' || code == '\\') out += '\\';
      out += text.substr(at, step);
    } else {
      for (std::size_t i = at; i < at + step; ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        out.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
      }
    }
    at += step;
  }
}

// The nearest place from `at` on where no character is cut.
std::size_t boundary(std::string_view text, std::size_t at) {
  for (int i = 0; i < 3 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; ++i)
    ++at;
  return at;
}

}  // namespace

std::string Printable::str() const {
  std::string out = quote;
  if (text.size() <= limit) {
    append_escaped(out, text, 0, text.size());
    return out += quote;
  }
  append_escaped(out, text, 0, boundary(text, limit / 4 * 3));
  out += "...";
  append_escaped(out, text, boundary(text, text.size() - limit / 4), text.size());
  return out.append(quote).append(" (").append(std::to_string(text.size())).append(" bytes)");
}

std::ostream& operator<<(std::ostream& out, const Printable& text) { return out << text.str(); }

std::string printable_list(const std::vector<std::string>& names, std::size_t limit) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), limit); ++i)
    text += (i ? ", " : "") + printable(names[i]).str();
  if (names.size() > limit) text += ", and " + std::to_string(names.size() - limit) + " more";
  return text;
}

namespace detail {

std::size_t utf8_at(std::string_view text, std::size_t at, char32_t& code) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  code = first;
  if (first < 0x80) return 1;
  const std::size_t wanted = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  static constexpr char32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (first < 0xC2 || first > 0xF4 || text.size() - at < wanted) return 0;
  code = first & (0x7Fu >> wanted);
  for (std::size_t i = 1; i < wanted; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool good = code >= lowest[wanted] && code <= 0x10FFFF && (code < 0xD800 || code >= 0xE000);
  return good ? wanted : 0;
}

bool is_utf8(std::string_view text) {
  char32_t code = 0;
  for (std::size_t at = 0, length = 0; at < text.size(); at += length)
    if ((length = utf8_at(text, at, code)) == 0) return false;
  return true;
}

}  // namespace detail
}  // namespace ct
