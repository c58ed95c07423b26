#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "examples/mnist/images.h"

/// A test image that the model got wrong.
struct WrongImage {
  std::int64_t index, label, guess;
};

/// A sheet of wrong guesses as SVG. `total` is how many there are in all.
std::string draw_misclassified(const ImageSet& images, const std::vector<WrongImage>& wrong,
                               std::int64_t total);
