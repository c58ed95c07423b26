#include "examples/mnist/picture.h"

#include <cstdint>
#include <fstream>
#include <vector>

using ct::Tensor;

Tensor read_pgm(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  CT_CHECK(file, ct::IoError, "mnist", "can't read ", path, "; a picture in a PGM file is wanted");
  // The header has the kind and three numbers, with comments between them.
  const auto word = [&] {
    std::string text;
    while (file >> text && text[0] == '#') std::getline(file, text);
    return text;
  };
  const auto number = [&](std::int64_t most) {
    const std::string text = word();
    std::int64_t value = 0;
    for (const char c : text)
      value = c >= '0' && c <= '9' && value <= most ? 10 * value + (c - '0') : most + 1;
    CT_CHECK(file && value <= most, ct::IoError, "mnist", path,
             " is damaged, or no PGM file: a number up to ", most, " is wanted where it has \"",
             ct::printable(text), "\"; ImageMagick's convert makes one");
    return value;
  };
  const std::string kind = word();
  CT_CHECK(kind == "P2" || kind == "P5", ct::IoError, "mnist", path,
           " is no PGM file, which begins with P2 or P5; ImageMagick's convert makes one of other pictures");
  const std::int64_t width = number(1 << 14), height = number(1 << 14), most = number(255);
  CT_CHECK(width > 0 && height > 0 && most > 0, ct::IoError, "mnist", path, " is a picture of ", width, " x ",
           height, " pixels and ", most, " shades; it must have some");
  file.get();  // one space before the pixels
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(width * height));
  for (std::uint8_t& p : pixels) {
    const std::int64_t value = kind == "P2" ? number(most) : file.get();
    CT_CHECK(file && value <= most, ct::IoError, "mnist", path,
             " ends before its last pixel, or has one brighter than ", most, "; it is damaged");
    p = static_cast<std::uint8_t>(255 * value / most);
  }
  return ct::from_vector(pixels, {height, width});
}

Tensor as_of_the_data(const Tensor& picture, bool invert) {
  const Tensor shades = picture.to(ct::f32);
  const Tensor fitted = ct::adaptive_avg_pool2d((invert ? 255 - shades : shades).unsqueeze(0), 28);
  return ct::round(fitted).to(ct::u8).squeeze(0);
}

std::string drawn_as_text(const Tensor& pixels) {
  const std::string ink = " .:-=+*#%@";
  std::string text;
  const auto shades = pixels.contiguous().to_vector<std::int64_t>();
  // Every second row: letters are higher than wide.
  for (std::size_t row = 0; row < 28; row += 2) {
    for (std::size_t column = 0; column < 28; ++column) {
      const std::int64_t shade = (shades[row * 28 + column] + shades[(row + 1) * 28 + column]) / 2;
      text += ink[static_cast<std::size_t>(shade) * (ink.size() - 1) / 255];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}
