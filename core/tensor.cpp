#include <cotangent/core/tensor.h>

#include <ostream>

namespace ct {

TensorImpl::~TensorImpl() = default;

Tensor Tensor::allocate(const Shape& shape, DType dtype, Device device) {
  auto impl = make_ref<TensorImpl>();
  impl->numel = ct::numel(shape);
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->dtype = dtype;
  impl->storage = Storage::allocate(static_cast<std::size_t>(impl->numel) * size_of(dtype), device);
  return Tensor(std::move(impl));
}

Tensor Tensor::from_storage(Ref<Storage> storage, const Shape& shape, const Strides& strides,
                            std::int64_t offset, DType dtype) {
  auto impl = make_ref<TensorImpl>();
  impl->numel = ct::numel(shape);
  impl->shape = shape;
  impl->strides = strides;
  impl->offset = offset;
  impl->dtype = dtype;
  impl->contiguous = ct::is_contiguous(shape, strides);
  impl->history_version = storage->history_version();
  impl->storage = std::move(storage);
  return Tensor(std::move(impl));
}

std::int64_t Tensor::size(std::int64_t axis) const {
  CT_CHECK(dim() > 0, ShapeError, "size", "a scalar has no axis ", axis, "; use numel()");
  return shape()[wrap_axis("size", axis, dim())];
}

std::int64_t Tensor::stride(std::int64_t axis) const {
  CT_CHECK(dim() > 0, ShapeError, "stride", "a scalar has no axis ", axis);
  return strides()[wrap_axis("stride", axis, dim())];
}

void Tensor::throw_undefined() {
  throw Error(
      "[tensor] the tensor is undefined (default-constructed, or a gradient that was never computed); "
      "create one with ct::zeros, ct::randn, ... or check defined() first");
}

std::string describe(const TensorMeta& t) {
  std::string text = detail::cat(t.dtype, t.shape);
  if (!t.device.is_cpu()) text += " on " + to_string(t.device);
  return text;
}

std::string describe(const Tensor& t) { return t.defined() ? describe(t.meta()) : "undefined"; }

namespace detail {
std::ostream& operator<<(std::ostream& out, const Described& d) { return out << describe(d.tensor); }
}  // namespace detail

std::ostream& operator<<(std::ostream& out, const Scalar& scalar) {
  switch (scalar.kind()) {
    case Scalar::Kind::boolean: return out << (scalar.to<bool>() ? "true" : "false");
    case Scalar::Kind::integer: return out << scalar.to<std::int64_t>();
    default: return out << scalar.to<double>();
  }
}

}  // namespace ct
