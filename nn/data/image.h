#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

// Pictures in files. This part is a library of its own, Cotangent::image, so that programs that read none need
// neither libpng nor libjpeg.

namespace ct::data {

/// Whether this build reads such files: each where its library was there when it was configured.
CT_API bool has_png();
CT_API bool has_jpeg();

/// Colours of a picture's pixels.
enum class Color {
  rgb,   ///< [3, height, width]; transparency is left out
  gray,  ///< [1, height, width]: 0.299 red + 0.587 green + 0.114 blue, as Pillow's "L"
};

/// Reads a picture of 8 bits, u8 [channels, height, width]: PNG or JPEG, told by its first bytes. A picture of 16 bits
/// is rounded. Throws IoError for a file that is missing, truncated, damaged, announces more than it can hold or than
/// 2^27 points, or is of a kind that this build does not read.
CT_API Tensor read_image(const std::string& path, Color color = Color::rgb);
/// The same of a file in memory; `name` is for messages.
CT_API Tensor decode_image(std::span<const std::byte> bytes, Color color = Color::rgb,
                           std::string name = "memory");

/// Pictures in folders that are named by their classes, as torchvision's ImageFolder: root/cat/1.png, root/dog/7.jpg.
/// Files are decoded where they are asked for. Examples are pairs: picture f32 [channels, height, width] in [0, 1],
/// label i64 []. Batches are stacked, so the pictures of one are of one size, or map() makes them so.
class CT_API ImageFolder {
 public:
  /// Lists the files: classes and, in each, paths in the order of their bytes; what does not end in .png, .jpg or .jpeg
  /// is passed over. Throws IoError for a folder that can't be read, without classes, or with one that has no pictures.
  explicit ImageFolder(const std::string& root, Color color = Color::rgb);

  std::int64_t size() const { return static_cast<std::int64_t>(files_.size()); }
  /// Throws as read_image(), IndexError out of range.
  std::pair<Tensor, Tensor> get(std::int64_t i) const;
  const std::vector<std::string>& classes() const { return classes_; }
  /// Path and label of each example.
  const std::vector<std::pair<std::string, std::int64_t>>& files() const { return files_; }

 private:
  std::vector<std::string> classes_;
  std::vector<std::pair<std::string, std::int64_t>> files_;
  Color color_;
};

}  // namespace ct::data
