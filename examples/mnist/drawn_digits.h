#pragma once

#include <cstdint>

#include "examples/mnist/images.h"

/// Digits drawn by the program itself, for a machine without any data set: pen strokes of the ten digits
/// under random rotation, shear, scale, shift and pen width, as 28 x 28 images. They show that training
/// works; they are far easier than handwriting. The same seed draws the same digits.
Images draw_digits(std::int64_t count, std::uint64_t seed);
