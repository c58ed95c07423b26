#include <cotangent/nn/data/dataset.h>

#include <cstring>

#include <cotangent/core/memory/memory.h>
#include <cotangent/nn/data/loader_internal.h>

namespace ct::data {

namespace detail {
bool& pinned_batches() {
  thread_local bool pinned = false;
  return pinned;
}
}  // namespace detail

Tensor allocate_batch(const Shape& shape, DType dtype) {
  if (!detail::pinned_batches()) return Tensor::allocate(shape, dtype, cpu);
  const std::size_t bytes = static_cast<std::size_t>(numel(shape)) * size_of(dtype);
  return Tensor::from_storage(Storage::allocate_pinned(bytes), shape, contiguous_strides(shape), 0, dtype);
}

namespace {

Tensor allocate_like(const Tensor& source, const Shape& shape) {
  return source.is_cpu() ? allocate_batch(shape, source.dtype())
                         : Tensor::allocate(shape, source.dtype(), source.device());
}

void copy_row(const Tensor& to, std::int64_t row, const void* from, std::size_t bytes) {
  char* target = static_cast<char*>(to.raw_data()) + static_cast<std::size_t>(row) * bytes;
  if (to.is_cpu()) {
    if (bytes > 0) std::memcpy(target, from, bytes);
  } else {
    copy_bytes(target, to.device(), from, to.device(), bytes);
  }
}

}  // namespace

std::vector<std::int64_t> detail::chosen(const std::vector<std::int64_t>& indices,
                                         std::span<const std::int64_t> rows) {
  std::vector<std::int64_t> mapped;
  mapped.reserve(rows.size());
  for (const std::int64_t i : rows) mapped.push_back(indices.at(static_cast<std::size_t>(i)));
  return mapped;
}

Tensor gather_rows(const Tensor& source, std::span<const std::int64_t> rows) {
  CT_CHECK(source.dim() > 0, ShapeError, "gather_rows", "got the scalar ", describe(source),
           "; a first axis to choose from is needed");
  const Tensor dense = source.detach().contiguous();
  Shape shape = dense.shape();
  const std::int64_t count = shape[0];
  shape[0] = static_cast<std::int64_t>(rows.size());
  Tensor batch = allocate_like(dense, shape);
  const std::size_t bytes = count > 0 ? static_cast<std::size_t>(dense.nbytes() / count) : 0;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    CT_CHECK(rows[k] >= 0 && rows[k] < count, IndexError, "gather_rows", "row ", rows[k],
             " is out of range for ", describe(source), "; it must lie in [0, ", count, ")");
    copy_row(batch, static_cast<std::int64_t>(k),
             static_cast<const char*>(dense.raw_data()) + static_cast<std::size_t>(rows[k]) * bytes, bytes);
  }
  return batch;
}

Tensor stack_examples(TensorList examples) {
  CT_CHECK(!examples.empty(), ShapeError, "stack_examples", "got no examples; at least one is needed");
  const Tensor& first = examples[0];
  Shape shape = first.shape();
  shape.insert(0, static_cast<std::int64_t>(examples.size()));
  Tensor batch = allocate_like(first, shape);
  for (std::size_t k = 0; k < examples.size(); ++k) {
    const Tensor& e = examples[k];
    CT_CHECK(
        e.shape() == first.shape(), ShapeError, "stack_examples", "example ", k, " of a batch is ",
        describe(e), ", the first ", describe(first),
        "; examples of one batch have one shape: pass a DataLoader a function that collates them to a batch");
    CT_CHECK(e.dtype() == first.dtype(), DTypeError, "stack_examples", "example ", k, " of a batch is ",
             describe(e), ", the first ", describe(first), "; examples of one batch have one dtype");
    CT_CHECK(e.device() == first.device(), DeviceError, "stack_examples", "example ", k, " of a batch is ",
             describe(e), ", the first ", describe(first), "; examples of one batch are on one device");
    const Tensor dense = e.detach().contiguous();
    copy_row(batch, static_cast<std::int64_t>(k), dense.raw_data(), static_cast<std::size_t>(dense.nbytes()));
  }
  return batch;
}

}  // namespace ct::data
