#pragma once

#include <cstdint>
#include <string>

#include <zlib.h>

// Small pictures as the bytes of their files.

namespace ct::testing::pictures {

inline std::string word(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}
inline std::string chunk(std::string name_and_data) {
  const auto size = static_cast<std::uint32_t>(name_and_data.size() - 4);
  const auto sum = ::crc32(0, reinterpret_cast<const Bytef*>(name_and_data.data()), size + 4);
  return word(size) + name_and_data + word(static_cast<std::uint32_t>(sum));
}
// A PNG of these rows, each with its byte for the filter in front, and of chunks before them.
inline std::string png(std::uint32_t width, std::uint32_t height, char depth, char kind,
                       const std::string& rows, const std::string& before = {}, char interlaced = 0) {
  std::string packed(compressBound(rows.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
           rows.size());
  packed.resize(size);
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR" + word(width) + word(height) + depth + kind + std::string(2, '\0') + interlaced) +
         before + chunk("IDAT" + packed) + chunk("IEND");
}
inline constexpr char kGray = 0, kRgb = 2, kPalette = 3, kRgba = 6;

inline std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}
// 8 x 8 points of one colour, (200, 40, 90) and 100, by libjpeg at quality 95.
inline const std::string red = from_hex(
    "ffd8ffe000104a46494600010100000100010000ffdb00430002010101010102010101020202020204030202020205040403"
    "04060506060605060606070908060709070606080b08090a0a0a0a0a06080b0c0b0a0c090a0a0affdb004301020202020202"
    "050303050a0706070a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
    "0a0a0a0a0a0a0a0affc00011080008000803011100021101031101ffc40014000100000000000000000000000000000008ff"
    "c40014100100000000000000000000000000000000ffc4001501010100000000000000000000000000000409ffc400141101"
    "00000000000000000000000000000000ffda000c03010002110311003f003b8ea60fffd9");
inline const std::string gray = from_hex(
    "ffd8ffe000104a46494600010100000100010000ffdb00430002010101010102010101020202020204030202020205040403"
    "04060506060605060606070908060709070606080b08090a0a0a0a0a06080b0c0b0a0c090a0a0affc0000b08000800080101"
    "1100ffc40014000100000000000000000000000000000007ffc40014100100000000000000000000000000000000ffda0008"
    "010100003f000f7fffd9");
// 16 x 16 points of many colours, progressive, with restarts.
inline const std::string many_colors = from_hex(
    "ffd8ffe000104a46494600010100000100010000ffdb0043001b12141714111b1716171e1c1b2028422b28252528513a3d30"
    "42605565645f555d5b6a7899816a7190735b5d85b586909ea3abadab6780bcc9baa6c799a8aba4ffdb0043011c1e1e282328"
    "4e2b2b4ea46e5d6ea4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4a4"
    "a4a4a4a4a4a4a4a4ffc20011080010001003012200021101031101ffc4001500010100000000000000000000000000000304"
    "ffc40014010100000000000000000000000000000000ffdd00040001ffda000c03010002100310000001928543ffc4001610"
    "00030000000000000000000000000000000102ffda0008010100010502527fffd0527fffd1527fffd2527fffc40015110101"
    "00000000000000000000000000000300ffda0008010301013f0124bfffc40017110003010000000000000000000000000000"
    "010212ffda0008010201013f017783ffc40014100100000000000000000000000000000000ffda0008010100063f027fffd0"
    "7fffd17fffd27fffc40014100100000000000000000000000000000000ffda0008010100013f211fffd01fffd11fffd21fff"
    "da000c03010002000300000010a3ffc4001511010100000000000000000000000000000011ffda0008010301013f10a3ffc4"
    "001611000300000000000000000000000000000041f0ffda0008010201013f10aa3fffc40016100003000000000000000000"
    "0000000000001141ffda0008010100013f105c3fffd05c3fffd15c3fffd25c3fffd9");
// A progressive picture of one block, with as many scans of nothing.
inline std::string progressive(int scans) {
  std::string bytes =
      from_hex("ffd8ffdb004300") + std::string(64, '\1') + from_hex("ffc2000b080008000801011100");
  for (const char* table : {"00", "10"})
    bytes += from_hex("ffc40014" + std::string(table) + "01") + std::string(16, '\0');
  bytes += from_hex("ffda00080101000000007f");
  for (int i = 1; i < scans; ++i) bytes += from_hex("ffda0008010100013f007f");
  return bytes + from_hex("ffd9");
}

}  // namespace ct::testing::pictures
