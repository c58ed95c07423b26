#pragma once

#include <cotangent/cotangent.h>

#include <string>
#include <vector>

/// Images of 28 x 28 bytes with labels in [0, 10).
struct Images {
  ct::Tensor pixels;  ///< u8[N, 28, 28]
  ct::Tensor labels;  ///< i64[N]
};

struct ImageSet {
  std::string name;    ///< for people: "Fashion-MNIST (/usr/share/...)"
  std::string folder;  ///< where they are from; empty for drawn ones
  std::string note;    ///< what is unusual about it; empty otherwise
  Images train, test;
  std::vector<std::string> classes;  ///< the ten names
};

/// Loads images: IDX files from `directory` if it is given, else Fashion-MNIST where Debian's package puts
/// it, else (or with `drawn`) digits drawn by the program. A directory that holds only the t10k files is
/// split: the first four fifths train, the rest test. Throws ct::IoError for missing, truncated or malformed
/// files.
ImageSet load_images(const std::string& directory, bool drawn, std::uint64_t seed);

/// The images `part` of `set` as a loader takes them: centred by what the training pixels look like.
ct::data::ImageDataset dataset_of(const ImageSet& set, const Images& part);

/// Tells two image sets apart by their pixels and labels.
std::string fingerprint(const ImageSet& images);
