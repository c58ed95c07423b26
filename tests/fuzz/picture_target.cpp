#include "tests/fuzz/picture_target.h"

#include <algorithm>
#include <cstdint>

#include <cotangent/nn/data/image.h>

#include "tests/picture_testing.h"

namespace ct::fuzz {
namespace {

using namespace testing::pictures;

// A PNG whose chunks have the checksums that belong to them: libpng reads no further than to the first that is wrong.
std::string with_checksums(std::string file) {
  constexpr std::size_t kSignature = 8, kAround = 12;
  if (!file.starts_with("\x89PNG")) return file;
  for (std::size_t at = kSignature; at + kAround <= file.size();) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(file[at + i]);
    length = std::min(length, file.size() - at - kAround);
    const std::string whole = chunk(file.substr(at + 4, 4 + length));
    file.replace(at + 8 + length, 4, whole, 8 + length, 4);
    at += length + kAround;
  }
  return file;
}

// The rows of an interlaced picture of 8 x 8 bytes: those of a point in 64, in 32 and so on.
std::string interlaced_rows() {
  std::string rows;
  constexpr struct { int width, height; } passes[] = {{1, 1}, {1, 1}, {2, 1}, {2, 2}, {4, 2}, {4, 4}, {8, 4}};
  for (const auto& [width, height] : passes)
    for (int y = 0; y < height; ++y) {
      rows += static_cast<char>(y % 5);  // each filter
      for (int x = 0; x < width; ++x) rows += static_cast<char>(31 * x + 7 * y);
    }
  return rows;
}

}  // namespace

void read_picture(std::span<const std::byte> input) {
  const std::string file = with_checksums({reinterpret_cast<const char*>(input.data()), input.size()});
  const data::Color color = file.size() % 2 ? data::Color::gray : data::Color::rgb;
  const Tensor picture = data::decode_image(std::as_bytes(std::span(file)), color);
  std::uint64_t sum = 0;  // every byte is looked at
  for (std::int64_t i = 0; i < picture.numel(); ++i) sum += picture.data<std::uint8_t>()[i];
  asm volatile("" : : "m"(sum));
}

std::vector<std::string> picture_seeds() {
  std::vector<std::string> all;
  if (data::has_png()) {
    all.push_back(png(2, 1, 8, kRgb, std::string("\0\x01\x02\x03\xff\xfe\xfd", 7)));
    all.push_back(png(1, 1, 8, kRgba, std::string("\0\x0a\x14\x1e\x00", 5)));
    all.push_back(png(8, 2, 1, kGray, std::string("\0\xa5\0\xff", 4)));
    all.push_back(
        png(1, 1, 16, kGray, std::string("\0\x80\x80", 3), chunk(std::string("gAMA\0\0\xb1\x8f", 8))));
    all.push_back(png(4, 1, 4, kPalette, std::string("\0\x01\x10", 3),
                      chunk("PLTE" + std::string(6, '\x55')) + chunk("tRNS\x7f")));
    all.push_back(png(8, 8, 8, kGray, interlaced_rows(), "", 1));
  }
  if (data::has_jpeg())
    for (const std::string& file : {red, gray, many_colors, progressive(3)}) all.push_back(file);
  return all;
}

}  // namespace ct::fuzz
