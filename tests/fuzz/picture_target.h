#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

// data::decode_image() of PNG and JPEG files.

namespace ct::fuzz {

/// Memory that a byte of a picture's file may ask for: 8 x 1032 points, of four bytes while they are decoded and three after.
constexpr std::size_t kPictureRatio = 8 * 1032 * 7;

/// Decodes a picture; throws Error.
void read_picture(std::span<const std::byte> input);
/// Seeds of the formats that this build reads.
std::vector<std::string> picture_seeds();

}  // namespace ct::fuzz
