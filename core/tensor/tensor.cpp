#include <cotangent/core/tensor/tensor.h>

#include <ostream>

namespace ct {

TensorImpl::~TensorImpl() = default;

[[noreturn, gnu::cold, gnu::noinline]] static void fail_too_large(const Shape& shape, DType dtype) {
  detail::fail<OutOfMemoryError>("allocator", "requested ", name(dtype), shape,
                                 ", more than 2^63 bytes; look for the size that is too large");
}

Tensor Tensor::allocate(const Shape& shape, DType dtype, Device device) {
  auto impl = make_ref<TensorImpl>();
  impl->shape = shape;
  impl->strides = shape;
  impl->dtype = dtype;
  // A size that does not fit into 63 bits must not become a small one.
  std::int64_t step = 1, bytes = static_cast<std::int64_t>(size_of(dtype));
  bool overflows = false, empty = false;
  for (int i = shape.size() - 1; i >= 0; --i) {
    const std::int64_t size = shape[i];
    impl->strides[i] = step;
    overflows |= __builtin_mul_overflow(bytes, size, &bytes);
    empty |= size == 0;
    if (size > 1) static_cast<void>(__builtin_mul_overflow(step, size, &step));
  }
  if (empty) bytes = 0;
  if (overflows && !empty) [[unlikely]]
    fail_too_large(shape, dtype);
  impl->numel = empty ? 0 : step;
  impl->storage = Storage::allocate(static_cast<std::size_t>(bytes), device);
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

std::int64_t Tensor::size(Integer axis) const {
  CT_CHECK(dim() > 0, ShapeError, "size", "a scalar has no axis ", axis, "; use numel()");
  return shape()[wrap_axis("size", axis, dim())];
}

std::int64_t Tensor::stride(Integer axis) const {
  CT_CHECK(dim() > 0, ShapeError, "stride", "a scalar has no axis ", axis, "; strides() is empty");
  return strides()[wrap_axis("stride", axis, dim())];
}

void Tensor::throw_undefined() {
  throw Error(
      "[tensor] the tensor is undefined (default-constructed, or a gradient that was never computed); "
      "create one with ct::zeros, ct::randn, ... or check defined() first");
}

std::string Tensor::describe_self() const { return describe(*this); }

std::string describe(const TensorMeta& t) {
  std::string text = detail::cat(t.dtype, t.shape);
  if (!t.device.is_cpu()) text += " on " + to_string(t.device);
  return text;
}

std::string describe(const Tensor& t) { return t.defined() ? describe(t.meta()) : "undefined"; }

namespace detail {
std::ostream& operator<<(std::ostream& out, const Described& d) { return out << describe(d.tensor); }

Tensor& assigned(const char* op, Tensor& t) {
  if (!t.defined()) t.numel();  // throws
  const Ref<Storage>& storage = t.impl()->storage;
  const bool seen = t.impl()->use_count() > 1 || !storage.unique() || !storage->is_owned();
  CT_CHECK(
      seen, ValueError, op, "the left side, ", describe(t),
      ", is a temporary whose memory no other tensor shares, so nobody would see the change; assign to a "
      "view, such as x[0] or x.slice(...), or give the tensor a name first. x[mask] and x[indices] are "
      "copies: "
      "x.index_put_({mask}, values) writes where they stand");
  return t;
}
}  // namespace detail

std::ostream& operator<<(std::ostream& out, const Scalar& scalar) {
  switch (scalar.kind()) {
    case Scalar::Kind::boolean: return out << (scalar.to<bool>() ? "true" : "false");
    case Scalar::Kind::integer: return out << std::to_string(scalar.to<std::int64_t>());
    default: detail::show(out, scalar.to<double>()); return out;
  }
}

}  // namespace ct
