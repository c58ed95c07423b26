#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cotangent/core/base/export.h>

// UTF-8 and the classes of characters, as far as tokenizers ask.

namespace ct::text::detail {

/// General categories in the order of unicode_table.py.
// clang-format off
enum class Category : std::uint8_t {
  Lu, Ll, Lt, Lm, Lo, Mn, Mc, Me, Nd, Nl, No, Pc, Pd, Ps, Pe, Pi, Pf, Po, Sm, Sc, Sk, So, Zs, Zl, Zp, Cc, Cf, Cs, Co, Cn
};
// clang-format on

/// Runs of code points of one category, from 0 on: length << 5 | category.
extern const std::uint32_t k_category_runs[];
extern const std::size_t k_category_run_count;

inline constexpr char32_t kLastCodePoint = 0x10FFFF;
/// Stand-in for a byte that is not part of well-formed UTF-8: a number beyond Unicode, of no category but Cn.
inline constexpr char32_t kBadByte = 0x110000;

CT_API Category category_of(char32_t code);
/// The White_Space property: what \s means.
CT_API bool is_space(char32_t code);

/// Reads the character at text[at] (at < text.size()); `length` becomes its bytes. A byte that does not begin
/// a well-formed character gives kBadByte + its value, and length 1.
CT_API char32_t decode_utf8(std::string_view text, std::size_t at, std::size_t& length);
/// All of them.
CT_API std::vector<char32_t> decode_utf8(std::string_view text);
/// Appends the character (or the bad byte).
CT_API void append_utf8(std::string& to, char32_t code);
/// Text for messages: 'x' (U+0078); a name for a character that can't be shown.
CT_API std::string show(char32_t code);

}  // namespace ct::text::detail
