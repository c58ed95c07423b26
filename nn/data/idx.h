#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct::data {

/// Reads a file in the IDX format of the MNIST data sets, packed by gzip or not: elements u8, i32, f32, f64;
/// i8 and i16 become i32. Throws IoError for a file that is missing, truncated, damaged or of another kind;
/// the message names the path and what to do.
CT_API Tensor read_idx(const std::string& path);

/// Part of a data set.
enum class Split { train, test };
inline constexpr Split train = Split::train;
inline constexpr Split test = Split::test;

struct IdxOptions {
  /// Pixels are given as (value / 255 - mean) / std.
  double mean = 0;
  double std = 1;
};

/// Images with labels. Pixels are kept as bytes and become f32 when a batch is made.
class CT_API ImageDataset {
 public:
  /// `images` u8 [n, height, width] or [n, channels, height, width], `labels` i64 [n], both contiguous on the
  /// CPU. Throws ShapeError, DTypeError, DeviceError, and ValueError unless std > 0.
  ImageDataset(Tensor images, Tensor labels, IdxOptions options = {});

  std::int64_t size() const { return images_.shape()[0]; }
  /// Image f32 [channels, height, width] and label i64 [].
  std::pair<Tensor, Tensor> get(std::int64_t i) const;
  /// Images f32 [count, channels, height, width] and labels i64 [count].
  std::pair<Tensor, Tensor> get_batch(std::span<const std::int64_t> indices) const;
  /// u8 [n, channels, height, width]
  const Tensor& images() const { return images_; }
  const Tensor& labels() const { return labels_; }
  /// The largest label + 1.
  std::int64_t classes() const;

 private:
  Tensor images_, labels_;
  float mean_, std_;
};

/// Opens a data set in MNIST's layout: `folder` holds train-images-idx3-ubyte and train-labels-idx1-ubyte, or
/// t10k-... for the test part, packed (.gz) or not (a '.' for the '-' before idx is accepted). Throws IoError
/// if a file is missing or malformed, or if images and labels are not equally many.
CT_API ImageDataset idx(const std::string& folder, Split split = Split::train, IdxOptions options = {});

}  // namespace ct::data
