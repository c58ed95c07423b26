#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct::data {

/// An .npy array in a file, of which rows (elements of its first axis) are read where they are asked for: for arrays that
/// memory has no room for. A handle; several threads may read at once.
class CT_API NpyRows {
 public:
  /// Throws IoError as io::load_npy(), and for an array without axes, in Fortran order or big-endian.
  static NpyRows open(const std::string& path);

  std::int64_t size() const { return shape_[0]; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  /// The rows with these numbers, [count, ...]. Throws IndexError out of range, IoError if the file has shrunk.
  Tensor rows(std::span<const std::int64_t> indices) const;

 private:
  struct File;
  std::shared_ptr<const File> file_;
  Shape shape_;
  DType dtype_ = DType::f32;
};

/// Arrays in files whose first axes belong together, as a TensorDataset whose tensors stay on the disk. Data that fits
/// into memory is faster as TensorDataset(io::load_npy("x.npy"), io::load_npy("y.npy")).
///
///     ct::data::NpyDataset data("images.npy", "labels.npy");   // batches are std::array<Tensor, 2>
template <std::size_t N>
class NpyDataset {
 public:
  /// Throws IoError as NpyRows::open(), ShapeError unless all have equally many rows.
  template <std::convertible_to<std::string>... Path>
  requires(sizeof...(Path) == N) explicit NpyDataset(const Path&... paths) : files_{NpyRows::open(paths)...} {
    for (const NpyRows& f : files_)
      CT_CHECK(f.size() == files_[0].size(), ShapeError, "NpyDataset", "got arrays of ", files_[0].size(),
               " and ", f.size(), " rows; the first axis counts the examples in all arrays");
  }
  std::int64_t size() const { return files_[0].size(); }
  std::array<Tensor, N> get_batch(std::span<const std::int64_t> indices) const {
    std::array<Tensor, N> batch;
    for (std::size_t k = 0; k < N; ++k) batch[k] = files_[k].rows(indices);
    return batch;
  }

 private:
  std::array<NpyRows, N> files_;
};
template <std::convertible_to<std::string>... Path>
NpyDataset(const Path&...) -> NpyDataset<sizeof...(Path)>;

}  // namespace ct::data
