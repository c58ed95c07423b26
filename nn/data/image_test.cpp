#include <cotangent/nn/data/image.h>

#include <filesystem>

#include <cotangent/nn/data/loader.h>
#include <cotangent/nn/data/transform.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"
#include "tests/picture_testing.h"

using namespace ct;
using namespace ct::testing::pictures;
using ct::testing::TempFolder;
using Bytes = std::vector<std::uint8_t>;

namespace {

Tensor decode(const std::string& bytes, data::Color color = data::Color::rgb) {
  return data::decode_image(std::as_bytes(std::span(bytes)), color);
}
Bytes values_of(const std::string& bytes, data::Color color = data::Color::rgb) {
  return decode(bytes, color).to_vector<std::uint8_t>();
}
void refused(const std::string& bytes, const std::string& words = "'memory': ") {
  try {
    decode(bytes);
    FAIL_CHECK("was accepted");
  } catch (const IoError& e) {
    INFO(e.what());
    CHECK(std::string(e.what()).find(words) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("images: what is no picture, or none that this build reads", "[data][image]") {
  refused("", "neither as a PNG nor as a JPEG");
  refused("BM......", "neither as a PNG nor as a JPEG");
  if (!data::has_png()) refused(png(1, 1, 8, kGray, std::string("\0\7", 2)), "install libpng");
  if (!data::has_jpeg()) refused(red, "install libjpeg");
  CHECK_THROWS_AS(data::read_image("/nowhere/at/all.png"), IoError);
}

TEST_CASE("images: PNG", "[data][image]") {
  if (!data::has_png()) {
    WARN("built without libpng");
    return;
  }
  const std::string rgb = png(2, 1, 8, kRgb, std::string("\0\x01\x02\x03\xff\xfe\xfd", 7));
  CHECK(decode(rgb).shape() == Shape{3, 1, 2});
  CHECK(values_of(rgb) == Bytes{1, 255, 2, 254, 3, 253});
  // 0.299 + 2 * 0.587 + 3 * 0.114 = 1.8; and 254.3
  CHECK(values_of(rgb, data::Color::gray) == Bytes{2, 254});
  // Transparent pixels keep their colour.
  CHECK(values_of(png(1, 1, 8, kRgba, std::string("\0\x0a\x14\x1e\x00", 5))) == Bytes{10, 20, 30});
  const std::string bits = png(8, 2, 1, kGray, std::string("\0\xa5\0\xff", 4));
  CHECK(values_of(bits, data::Color::gray) ==
        Bytes{255, 0, 255, 0, 0, 255, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255});
  CHECK(values_of(png(1, 1, 16, kGray, std::string("\0\x80\x80", 3)), data::Color::gray) == Bytes{128});

  // Colour profiles do not change the values.
  for (const std::string& profile :
       {"gAMA" + word(100000), "gAMA" + word(45455), "sRGB" + std::string(1, '\1'),
        "cHRM" + word(31270) + word(32900) + word(64000) + word(33000) + word(30000) + word(60000) +
            word(15000) + word(6000)}) {
    std::string told = rgb;
    told.insert(8 + 25, chunk(profile));
    CHECK(values_of(told) == values_of(rgb));
    std::string wide = png(1, 1, 16, kGray, std::string("\0\x40\x40", 3));
    wide.insert(8 + 25, chunk(profile));
    CHECK(values_of(wide, data::Color::gray) == Bytes{64});
  }

  // Sizes that the file can't hold ask for no memory.
  refused(png(100000, 100000, 8, kRgb, "x"), "up to 134217728");
  refused(png(10000, 10000, 8, kRgb, "x"), "can hold");
  refused(png(0, 1, 8, kRgb, "x"));
  refused(png(2, 2, 8, kRgb, std::string("\0\x01\x02\x03\xff\xfe\xfd", 7)));  // one row of two
  for (std::size_t n = 8; n < rgb.size() - 12; ++n) refused(rgb.substr(0, n));
  for (std::size_t n = 8; n < rgb.size(); ++n) {  // whatever is changed, it is read or refused
    std::string changed = rgb;
    changed[n] = static_cast<char>(changed[n] ^ 0x21);
    try {
      const Tensor read = decode(changed);
      CHECK(read.numel() % 3 == 0);
    } catch (const IoError&) {}
  }
}

TEST_CASE("images: JPEG", "[data][image]") {
  if (!data::has_jpeg()) {
    WARN("built without libjpeg");
    return;
  }
  const Tensor image = decode(red);
  CHECK(image.shape() == Shape{3, 8, 8});
  for (std::int64_t c = 0; c < 3; ++c) {
    const int want[] = {200, 40, 90};
    for (const std::uint8_t value : image.select(0, c).to_vector<std::uint8_t>())
      CHECK(std::abs(value - want[c]) <= 3);
  }
  for (const std::uint8_t value : values_of(gray, data::Color::gray)) CHECK(std::abs(value - 100) <= 1);
  CHECK(decode(gray).shape() == Shape{3, 8, 8});
  CHECK(decode(many_colors).shape() == Shape{3, 16, 16});

  CHECK(values_of(progressive(10), data::Color::gray) == Bytes(64, 128));
  refused(progressive(1500), "more than 100 scans");

  std::string large = red;
  large.replace(large.find("\xff\xc0") + 5, 4, "\xff\x00\xff\x00", 4);
  refused(large, "up to 134217728");
  large.replace(large.find("\xff\xc0") + 5, 4, "\x0f\x00\x0f\x00", 4);
  refused(large, "can hold");
  large.replace(large.find("\xff\xc0") + 5, 4, "\x01\x00\x01\x00", 4);
  refused(large, "can't be decoded");  // could be, but is not there
  for (std::size_t n = 3; n + 2 < red.size(); ++n) refused(red.substr(0, n));
  for (std::size_t n = 3; n < red.size(); ++n) {
    std::string changed = red;
    changed[n] = static_cast<char>(changed[n] ^ 0x21);
    try {
      const Tensor read = decode(changed);
      CHECK(read.numel() % 3 == 0);
    } catch (const IoError&) {}
  }
}

TEST_CASE("ImageFolder: classes are folders", "[data][image]") {
  namespace fs = std::filesystem;
  const TempFolder folder;
  CHECK_THROWS_AS(data::ImageFolder(folder / "nowhere"), IoError);
  CHECK_THROWS_AS(data::ImageFolder(folder.path()), IoError);
  for (const char* name : {"dog/more", "cat"}) fs::create_directories(folder / name);
  const auto point = [](char value) { return png(1, 1, 8, kGray, std::string("\0", 1) + value); };
  folder.write("dog/more/2.PNG", point('\x66'));
  folder.write("dog/b.png", point('\x33'));
  folder.write("dog/readme.txt", "no picture");
  folder.write("stray.png", point('\0'));
  CHECK_THROWS_AS(data::ImageFolder(folder.path()), IoError);  // no cat
  folder.write("cat/1.png", point('\xff'));
  const data::ImageFolder images(folder.path(), data::Color::gray);
  CHECK(images.classes() == std::vector<std::string>{"cat", "dog"});
  REQUIRE(images.size() == 3);
  CHECK(images.files()[1].first == folder / "dog/b.png");
  CHECK(images.files()[2].second == 1);
  CHECK_THROWS_AS(images.get(3), IndexError);
  CHECK_THROWS_AS(images.get(-1), IndexError);
  if (!data::has_png()) {
    CHECK_THROWS_AS(images.get(0), IoError);
    return;
  }
  data::DataLoader loader(images, {.batch_size = 3, .workers = 2});
  for (const auto& [x, y] : loader) {
    CHECK(x.shape() == Shape{3, 1, 1, 1});
    CHECK(x.to_vector<float>() == std::vector<float>{1, 0.2f, 0.4f});
    CHECK(y.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 1});
  }
  folder.write("cat/1.png", "broken");
  CHECK_THROWS_AS(images.get(0), IoError);
}
