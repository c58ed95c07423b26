#include <cotangent/ops/copy/copy.h>

#include <cmath>
#include <cstring>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/autograd/node.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/core/op/execute.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/copy/copy_internal.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/engine/walk/calls.h>
#include <cotangent/ops/engine/walk/copy.h>

namespace ct {
namespace {

// `t` read with a larger shape, without the tape.
Tensor broadcast(const Tensor& t, const Shape& shape) {
  if (t.shape() == shape) return t;
  return Tensor::from_storage(t.impl()->storage, shape, broadcast_strides(t.shape(), t.strides(), shape),
                              t.storage_offset(), t.dtype());
}

// A gradient of zero in the shape of an input: one number, read over and over.
Tensor zero_gradient(const TensorMeta& meta) {
  const Tensor zero = Tensor::allocate({}, meta.dtype, meta.device);
  walk::calls::fill(zero, 0);
  return broadcast(zero, meta.shape);
}

// ---- copy: clone, contiguous, to(dtype) -------------------------------------------------------------------

void copy_infer(Infer& i) { i.output(i.in(0).shape(), i.attrs<CopyAttrs>().dtype); }

constexpr InputDef kX[] = {{.name = "x"}};
constexpr OutputDef kY[] = {{.name = "y"}};

void copy_forward(const Forward& call) { copy_kernel(call.out(), call.in(0)); }

void copy_backward(const Backward& b) {
  if (!b.needs(0)) return;
  if (b.grad().dtype() == b.in_meta(0).dtype) {
    b.set_grad_in(0, b.grad());
  } else {
    copy_kernel(b.grad_in(0), b.grad());
  }
}

void copy_rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, b.grad().to(b.in_meta(0).dtype));
}

constexpr AttrDef kCopyAttributes[] = {CT_ATTRIBUTE(CopyAttrs, dtype)};

constexpr OpDef k_copy = checked({
    .name = "copy",
    .formula = "y = x, contiguous, in another dtype if wanted",
    .inputs = kX,
    .outputs = kY,
    .attributes = kCopyAttributes,
    .infer = copy_infer,
    .cpu = {copy_forward, copy_backward},
    .cuda = {copy_forward, copy_backward},
    .rule = copy_rule,
    .converts = true,
    .dtypes = kAllTypes,
});

// ---- to_device --------------------------------------------------------------------------------------------

void to_device_infer(Infer& i) {
  const Device device = i.attrs<ToDeviceAttrs>().device;
  check_device("to", device);
  i.output_on(i.in(0).shape(), i.in(0).dtype(), device);
}

void to_device_forward(const Forward& call) { move_bytes(call.out(), ct::contiguous(call.in(0))); }

void to_device_backward(const Backward& b) {
  if (!b.needs(0)) return;
  if (b.grad().device() == b.in_meta(0).device) {
    b.set_grad_in(0, b.grad());
  } else {
    move_bytes(b.grad_in(0), ct::contiguous(b.grad()));
  }
}

void to_device_rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, b.grad().to(b.in_meta(0).device));
}

constexpr AttrDef kToDeviceAttributes[] = {CT_ATTRIBUTE(ToDeviceAttrs, device)};

constexpr OpDef k_to_device = checked({
    .name = "to_device",
    .formula = "y = x, on another device",
    .inputs = kX,
    .outputs = kY,
    .attributes = kToDeviceAttributes,
    .infer = to_device_infer,
    .cpu = {to_device_forward, to_device_backward},
    .cuda = {to_device_forward, to_device_backward},
    .rule = to_device_rule,
    .dtypes = kAllTypes,
});

// ---- assign: copy_ on the tape ----------------------------------------------------------------------------

// The target is written, not read.
Cost write_cost(std::span<const TensorMeta> in, std::span<const TensorMeta> out, AttrsView) {
  return {.bytes = bytes_of(in.subspan(1)) + bytes_of(out)};
}

void assign_infer(Infer& i) {
  CT_CHECK(i.in(0).shape() == i.in(1).shape(), ShapeError, "assign", "the target is ", describe(i.in(0)),
           ", the source ", describe(i.in(1)), "; they must have the same shape");
  i.output(i.in(0).shape(), i.in(0).dtype());
}

void assign_forward(const Forward& call) { copy_kernel(call.out(), call.in(1)); }

void assign_backward(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, zero_gradient(b.in_meta(0)));
  if (b.needs(1)) b.set_grad_in(1, b.grad());
}

constexpr InputDef kAssignInputs[] = {{.name = "target"}, {.name = "source"}};

constexpr OpDef k_assign = checked({
    .name = "assign",
    .formula = "y = source, in the memory of the target",
    .inputs = kAssignInputs,
    .outputs = kY,
    .infer = assign_infer,
    .cpu = {assign_forward, assign_backward},
    .cuda = {assign_forward, assign_backward},
    .rule = assign_backward,
    .dtypes = kAllTypes,
    .cost = write_cost,
});

// ---- fill: fill_ on the tape ------------------------------------------------------------------------------

void fill_infer(Infer& i) { i.output(i.in(0).shape(), i.in(0).dtype()); }

void fill_forward(const Forward& call) {
  const Tensor& y = call.out();
  const Scalar value = call.attrs_view.size > 0 ? call.attrs<FillAttrs>().value : Scalar(0);
  const auto number = value.to<double>();
  if (number == 0 && !std::signbit(number) && y.is_contiguous())
    return zero_bytes(y.raw_data(), y.device(), static_cast<std::size_t>(y.nbytes()));
  fill_kernel(y, value);
}

void fill_backward(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, zero_gradient(b.in_meta(0)));
}

constexpr InputDef kTarget[] = {{.name = "target"}};
constexpr AttrDef kFillAttributes[] = {CT_ATTRIBUTE(FillAttrs, value)};

constexpr OpDef k_fill = checked({
    .name = "fill",
    .formula = "y = value, in the memory of the target",
    .inputs = kTarget,
    .outputs = kY,
    .attributes = kFillAttributes,
    .infer = fill_infer,
    .cpu = {fill_forward, fill_backward},
    .cuda = {fill_forward, fill_backward},
    .rule = fill_backward,
    .dtypes = kAllTypes,
    .cost = write_cost,
});

}  // namespace

CT_ROOM(copy, &k_copy, &k_to_device, &k_assign, &k_fill)

// ---- calls off the tape -----------------------------------------------------------------------------------

namespace {
Tensor result_of(const OpDef& op, const Tensor& t, AttrsView attrs, DType dtype, Device device) {
  Tensor y = Tensor::allocate(t.shape(), dtype, device);
  const Tensor* inputs[] = {&t};
  const DeviceGuard guard(t.device());
  execute(t.device(), {op, inputs, {&y, 1}, attrs});
  return y;
}
}  // namespace

Tensor walk::calls::converted(const Tensor& t, DType dtype) {
  if (t.is_contiguous() && t.dtype() == dtype) return t;
  return result_of(k_copy, t, CopyAttrs{dtype}, dtype, t.device());
}

Tensor walk::calls::moved(const Tensor& t, Device device) {
  if (t.device() == device) return result_of(k_copy, t, CopyAttrs{t.dtype()}, t.dtype(), device);
  return result_of(k_to_device, t, ToDeviceAttrs{device}, t.dtype(), device);
}

void walk::calls::assign(const Tensor& target, const Tensor& source) {
  detail::write(k_assign, {&target, &source});
}

void walk::calls::fill(const Tensor& target, const Scalar& value) {
  detail::write(k_fill, {&target}, FillAttrs{value});
}

Tensor detail::packed(const Tensor& t) { return walk::calls::contiguous(t); }

// ---- members of Tensor ------------------------------------------------------------------------------------

Tensor Tensor::to(DType dtype) const {
  if (this->dtype() == dtype) return *this;
  return dispatch(k_copy, {*this}, CopyAttrs{dtype});
}

Tensor Tensor::to(Device device) const {
  if (this->device() == device) return *this;
  return dispatch(k_to_device, {*this}, ToDeviceAttrs{device});
}

Tensor Tensor::clone() const { return dispatch(k_copy, {*this}, CopyAttrs{dtype()}); }

Tensor Tensor::contiguous() const {
  if (is_contiguous()) return *this;
  return dispatch(k_copy, {*this}, CopyAttrs{dtype()});
}

Tensor Tensor::pin_memory() const {
  if (is_cpu() && is_pinned()) return *this;
  Tensor out = from_storage(Storage::allocate_pinned(static_cast<std::size_t>(nbytes())), shape(),
                            contiguous_strides(shape()), 0, dtype());
  if (is_cpu()) {
    walk::calls::assign(out, *this);
  } else {
    move_bytes(out, walk::calls::contiguous(*this));
  }
  return out;
}

Scalar Tensor::item_scalar() const {
  CT_CHECK(numel() == 1, ShapeError, "item", "tensor ", describe(*this), " has ", numel(),
           " elements; item() needs exactly one: reduce it, select one, or use to_vector()");
  detail::note_read("item");
  alignas(8) char element[8];
  copy_bytes(element, cpu, raw_data(), device(), size_of(dtype()));
  return visit_all("item", dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, bool>) return Scalar(element[0] != 0);
    T value;
    std::memcpy(&value, element, sizeof value);
    return Scalar(static_cast<compute_t<T>>(value));
  });
}

Tensor::operator bool() const {
  CT_CHECK(numel() == 1, ShapeError, "bool", "tensor ", describe(*this), " has ", numel(),
           " elements and is neither true nor false; any() or all() make one of them, logical_and(), "
           "logical_or() and logical_not() work on each, defined() asks whether there is a tensor");
  return item<bool>();
}

template <class T>
std::vector<T> Tensor::elements() const {
  detail::note_read("to_vector");
  const Tensor host = walk::calls::converted(is_cpu() ? *this : walk::calls::moved(*this, cpu), dtype_of<T>);
  const T* data = static_cast<const T*>(host.raw_data());
  return std::vector<T>(data, data + host.numel());
}

template CT_API std::vector<float> Tensor::elements() const;
template CT_API std::vector<double> Tensor::elements() const;
template CT_API std::vector<Half> Tensor::elements() const;
template CT_API std::vector<BFloat16> Tensor::elements() const;
template CT_API std::vector<std::int64_t> Tensor::elements() const;
template CT_API std::vector<std::int32_t> Tensor::elements() const;
template CT_API std::vector<std::uint8_t> Tensor::elements() const;
template CT_API std::vector<bool> Tensor::elements() const;

Tensor& Tensor::fill_(const Scalar& value) {
  check_fits("fill_", value, dtype());
  if (grad_enabled() && requires_grad()) return dispatch_inplace(k_fill, *this, {}, FillAttrs{value});
  walk::calls::fill(*this, value);
  detail::note_change(*get().storage);
  return *this;
}

Tensor& Tensor::zero_() { return fill_(0); }

Tensor Tensor::operator=(const Tensor& source) && { return detail::assigned("=", *this).copy_(source); }

Tensor Tensor::operator=(const Scalar& value) && { return detail::assigned("=", *this).fill_(value); }

Tensor& Tensor::copy_(const Tensor& source) {
  CT_CHECK(broadcast_shapes("copy_", shape(), source.shape()) == shape(), ShapeError, "copy_", "the source, ",
           describe(source), ", does not broadcast to the target, ", describe(*this),
           "; its sizes must be the target's or 1");
  walk::check_writable("copy_", *this);
  if (grad_enabled() && (requires_grad() || source.requires_grad()))
    return dispatch_inplace(k_assign, *this, {source.to(dtype()).to(device()).expand(shape())});
  if (source.is_same(*this) || numel() == 0) return *this;

  Tensor from = source;
  if (from.device() == device()) {
    const bool shared = from.impl()->storage == get().storage;
    if (shared) from = walk::calls::moved(from, device());  // the two may overlap
  } else {
    if (size_of(dtype()) < size_of(from.dtype()))
      from = walk::calls::converted(from, dtype());  // fewer bytes to move
    if (is_contiguous() && from.dtype() == dtype() && from.shape() == shape()) {
      move_bytes(*this, walk::calls::contiguous(from));
      detail::note_change(*get().storage);
      return *this;
    }
    from = walk::calls::moved(from, device());
  }
  walk::calls::assign(*this, broadcast(from, shape()));
  detail::note_change(*get().storage);
  return *this;
}

}  // namespace ct
