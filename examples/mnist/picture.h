#pragma once

#include <cotangent/cotangent.h>

#include <string>

/// Reads a picture in shades of grey from a PGM file (P2 or P5, up to 255 shades): u8 [height, width]. Throws ct::IoError.
ct::Tensor read_pgm(const std::string& path);

/// The same picture, u8 [28, 28]: each pixel is the mean of what it covers; `invert` exchanges light and dark.
ct::Tensor as_of_the_data(const ct::Tensor& picture, bool invert);

/// Lines of letters, for a terminal; of pixels u8 [28, 28].
std::string drawn_as_text(const ct::Tensor& pixels);
