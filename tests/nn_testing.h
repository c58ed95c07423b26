#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <cotangent/core/tensor/tensor.h>

// Helpers for the tests of nn/.

namespace ct::testing {

/// A folder that goes when the test ends.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cotangent-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + '/' + name; }
  std::string read(const std::string& name) const {
    std::ostringstream all;
    all << std::ifstream(*this / name, std::ios::binary).rdbuf();
    return std::move(all).str();
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(*this / name, std::ios::binary) << bytes;
  }
  std::int64_t count() const {
    return std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator());
  }

 private:
  std::string path_;
};

template <class T>
Tensor tensor_of(const Shape& shape, const std::vector<T>& values) {
  Tensor t = Tensor::allocate(shape, dtype_of<T>, cpu);
  std::copy(values.begin(), values.end(), t.data<T>());
  return t;
}

inline std::string bytes_of(const Tensor& t) {
  const Tensor host = t.to(cpu);
  return {static_cast<const char*>(host.raw_data()), static_cast<std::size_t>(host.nbytes())};
}

/// The largest difference, measured by the largest wanted value, or by `least` if all are smaller. NaN if
/// there is a NaN, infinity if the sizes differ.
inline double worst(const std::vector<double>& got, const std::vector<double>& want, double least = 0) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double most = 0, scale = least;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - want[i]);
    if (std::isnan(error)) return error;
    most = std::max(most, error);
    scale = std::max(scale, std::abs(want[i]));
  }
  return most / scale;
}
inline double worst(const Tensor& got, const Tensor& want, double least = 0) {
  if (got.shape() != want.shape()) return std::numeric_limits<double>::infinity();
  return worst(got.to_vector<double>(), want.to_vector<double>(), least);
}

}  // namespace ct::testing
