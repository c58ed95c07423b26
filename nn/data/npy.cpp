#include <cotangent/nn/data/npy.h>

#include <algorithm>
#include <utility>

#include <cotangent/nn/data/dataset.h>
#include <cotangent/nn/io/npy_internal.h>

namespace ct::data {

struct NpyRows::File {
  std::unique_ptr<const io::ByteSource> source;
  std::uint64_t data = 0, row_bytes = 0;  // where the rows begin
};

NpyRows NpyRows::open(const std::string& path) {
  constexpr char op[] = "NpyRows::open";
  auto file = std::make_shared<File>();
  file->source = io::open_file(op, path);
  const io::ByteSource& source = *file->source;
  const auto next = [&](void* to, std::size_t bytes) {
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, source.size() - file->data));
    source.read(file->data, to, step);
    file->data += step;
    return step;
  };
  const io::NpyHeader header = io::read_npy_header(source, next);
  const std::uint64_t bytes = io::npy_data_bytes(source, header, source.size() - file->data);
  source.check(header.shape.size() > 0, op, "holds one number; an array of rows is wanted");
  source.check(
      !header.big_endian && (!header.fortran_order || header.shape.size() == 1), op, "is ",
      header.big_endian ? "big-endian" : "in Fortran order",
      "; save it with np.ascontiguousarray() in the machine's byte order, or read it whole with load_npy()");
  source.check(file->data + bytes == source.size(), op, "has ", source.size() - file->data - bytes,
               " bytes after the array; the file is damaged");
  file->row_bytes = header.shape[0] > 0 ? bytes / static_cast<std::uint64_t>(header.shape[0]) : 0;
  NpyRows rows;
  rows.shape_ = header.shape;
  rows.dtype_ = header.dtype;
  rows.file_ = std::move(file);
  return rows;
}

Tensor NpyRows::rows(std::span<const std::int64_t> indices) const {
  CT_CHECK(file_, Error, "NpyRows", "is of no file; get one from NpyRows::open()");
  for (const std::int64_t i : indices)
    CT_CHECK(i >= 0 && i < size(), IndexError, "NpyRows", "row ", i, " of ",
             printable_path(file_->source->name()), " is out of range; it must lie in [0, ", size(), ')');
  Shape shape = shape_;
  shape[0] = static_cast<std::int64_t>(indices.size());
  Tensor batch = allocate_batch(shape, dtype_);
  auto* to = static_cast<std::uint8_t*>(batch.raw_data());
  for (const std::int64_t i : indices) {
    file_->source->read(file_->data + static_cast<std::uint64_t>(i) * file_->row_bytes, to,
                        static_cast<std::size_t>(file_->row_bytes));
    to += file_->row_bytes;
  }
  if (dtype_ == DType::boolean) {  // any other byte would be undefined behaviour wherever it is read
    auto* bytes = static_cast<std::uint8_t*>(batch.raw_data());
    for (std::int64_t i = 0; i < batch.numel(); ++i) bytes[i] = bytes[i] != 0;
  }
  return batch;
}

}  // namespace ct::data
