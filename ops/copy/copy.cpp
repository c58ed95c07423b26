#include <cotangent/ops/copy/copy.h>

#include <cmath>
#include <cstring>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/memory.h>
#include <cotangent/core/registry.h>
#include <cotangent/ops/copy/copy_kernels.h>
#include <cotangent/ops/dispatch.h>

namespace ct {
namespace {

// `t` read with a larger shape, without the tape.
Tensor broadcast(const Tensor& t, const Shape& shape) {
  if (t.shape() == shape) return t;
  return Tensor::from_storage(t.impl()->storage, shape, broadcast_strides(t.shape(), t.strides(), shape),
                              t.storage_offset(), t.dtype());
}

// Bytes of two contiguous tensors of the same shape and dtype, on any devices. From pinned memory the copy
// is asynchronous: the allocator is told, so that the source may be dropped at once.
void move_bytes(const Tensor& dst, const Tensor& src) {
  const bool async = src.is_pinned() && dst.is_cuda();
  copy_bytes(dst.raw_data(), dst.device(), src.raw_data(), src.device(),
             static_cast<std::size_t>(src.nbytes()), async);
  if (async) src.impl()->storage->record_stream(current_stream(dst.device()));
}

// A gradient of zero in the shape of an input: one number, read over and over.
Tensor zero_gradient(const TensorMeta& meta) {
  const Tensor zero = Tensor::allocate({}, meta.dtype, meta.device);
  zero_bytes(zero.raw_data(), meta.device, size_of(meta.dtype));
  return broadcast(zero, meta.shape);
}

// ---- copy: clone, contiguous, to(dtype) -------------------------------------------------------------------

void copy_infer(Infer& i) { i.output(i.in(0).shape(), i.attrs<CopyAttrs>().dtype); }

Cost copy_cost(std::span<const TensorMeta> in, std::span<const TensorMeta> out, AttrsView) {
  const double n = static_cast<double>(numel(in[0].shape));
  return {0, n * static_cast<double>(size_of(in[0].dtype) + size_of(out[0].dtype))};
}

// Element by element in row-major order, by index arithmetic alone.
std::vector<Tensor> copy_reference(std::span<const Tensor> inputs, AttrsView) {
  const Tensor& x = inputs[0];
  Tensor y = Tensor::allocate(x.shape(), f64, cpu);
  for (std::int64_t at = 0; at < x.numel(); ++at) {
    std::int64_t rest = at, from = 0;
    for (int i = x.dim() - 1; i >= 0; --i) {
      from += rest % x.shape()[i] * x.strides()[i];
      rest /= x.shape()[i];
    }
    y.data<double>()[at] = x.data<double>()[from];
  }
  return {y};
}

std::vector<Sample> shape_samples(SampleMaker& make, const AnyAttrs& attrs) {
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{0, 3}, Shape{5, 3}, Shape{2, 1, 9},
                             Shape{17, 35}, Shape{2, 3, 2, 5}})
    samples.push_back({{make.normal(shape)}, attrs, ""});
  return samples;
}

std::vector<Sample> copy_samples(SampleMaker& make) { return shape_samples(make, CopyAttrs{f64}); }

constexpr InputDef kX[] = {{.name = "x"}};
constexpr OutputDef kY[] = {{.name = "y"}};

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
    .cpu = {copy_forward_cpu, copy_backward_cpu},
    .cuda = CT_CUDA_KERNELS(copy_forward_cuda, copy_backward_cuda),
    .rule = copy_rule,
    .converts = true,
    .dtypes = kAllTypes,
    .cost = copy_cost,
    .reference = copy_reference,
    .samples = copy_samples,
});

// ---- to_device --------------------------------------------------------------------------------------------

void to_device_infer(Infer& i) {
  const Device device = i.attrs<ToDeviceAttrs>().device;
  check_device("to", device);
  i.output_on(i.in(0).shape(), i.in(0).dtype(), device);
}

void to_device_forward(const Forward& call) { move_bytes(call.out(), packed(call.in(0))); }

void to_device_backward(const Backward& b) {
  if (!b.needs(0)) return;
  if (b.grad().device() == b.in_meta(0).device) {
    b.set_grad_in(0, b.grad());
  } else {
    move_bytes(b.grad_in(0), packed(b.grad()));
  }
}

// To the CPU: from a GPU this brings the values down and the gradient up.
std::vector<Sample> to_device_samples(SampleMaker& make) { return shape_samples(make, ToDeviceAttrs{cpu}); }

std::vector<ErrorSample> to_device_errors(SampleMaker& make) {
  return {{{make.normal({2})}, ToDeviceAttrs{cuda(99)}, "cuda:99"}};
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
    .cuda = CT_CUDA_KERNELS(to_device_forward, to_device_backward),
    .rule = to_device_rule,
    .dtypes = kAllTypes,
    .cost = copy_cost,
    .reference = copy_reference,
    .samples = to_device_samples,
    .error_samples = to_device_errors,
});

// ---- assign: copy_ on the tape ----------------------------------------------------------------------------

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

std::vector<Tensor> assign_reference(std::span<const Tensor> inputs, AttrsView attrs) {
  return copy_reference(inputs.subspan(1), attrs);
}

std::vector<Sample> assign_samples(SampleMaker& make) {
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{0, 3}, Shape{5, 3}, Shape{2, 1, 9}})
    samples.push_back({{make.normal(shape), make.normal(shape)}, {}, ""});
  return samples;
}

std::vector<ErrorSample> assign_errors(SampleMaker& make) {
  return {{{make.normal({2, 3}), make.normal({3, 2})}, {}, "must have the same shape"},
          {{make.normal({2}), make.index({2}, 5)}, {}, "different dtypes"}};
}

constexpr InputDef kAssignInputs[] = {{.name = "target"}, {.name = "source"}};

constexpr OpDef k_assign = checked({
    .name = "assign",
    .formula = "y = source, in the memory of the target",
    .inputs = kAssignInputs,
    .outputs = kY,
    .infer = assign_infer,
    .cpu = {assign_forward, assign_backward},
    .cuda = CT_CUDA_KERNELS(assign_forward, assign_backward),
    .rule = assign_backward,
    .dtypes = kAllTypes,
    .cost = copy_cost,
    .reference = assign_reference,
    .samples = assign_samples,
    .error_samples = assign_errors,
});

// ---- fill: fill_ on the tape ------------------------------------------------------------------------------

void fill_infer(Infer& i) { i.output(i.in(0).shape(), i.in(0).dtype()); }

void fill_forward(const Forward& call) { fill_kernel(call.out(), call.attrs<FillAttrs>().value); }

void fill_backward(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, zero_gradient(b.in_meta(0)));
}

Cost fill_cost(std::span<const TensorMeta> in, std::span<const TensorMeta>, AttrsView) {
  return {0, static_cast<double>(numel(in[0].shape)) * static_cast<double>(size_of(in[0].dtype))};
}

std::vector<Tensor> fill_reference(std::span<const Tensor> inputs, AttrsView attrs) {
  Tensor y = Tensor::allocate(inputs[0].shape(), f64, cpu);
  const double value = static_cast<const FillAttrs*>(attrs.data)->value.to<double>();
  for (std::int64_t i = 0; i < y.numel(); ++i) y.data<double>()[i] = value;
  return {y};
}

std::vector<Sample> fill_samples(SampleMaker& make) {
  std::vector<Sample> samples = shape_samples(make, FillAttrs{1});
  samples.push_back({{make.normal({3, 5})}, FillAttrs{0}, "zero"});
  return samples;
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
    .cuda = CT_CUDA_KERNELS(fill_forward, fill_backward),
    .rule = fill_backward,
    .dtypes = kAllTypes,
    .cost = fill_cost,
    .reference = fill_reference,
    .samples = fill_samples,
});

constexpr const OpDef* ops[] = {&k_copy, &k_to_device, &k_assign, &k_fill};

}  // namespace

namespace rooms {
extern const Room copy;
const Room copy{"copy", ops};
}  // namespace rooms

// ---- without the tape -------------------------------------------------------------------------------------

void copy_kernel(const Tensor& dst, const Tensor& src) {
#ifdef COTANGENT_CUDA
  if (dst.is_cuda()) {
    const DeviceGuard guard(dst.device());
    return copy_cuda(dst, src);
  }
#endif
  copy_cpu(dst, src);
}

void fill_kernel(const Tensor& dst, const Scalar& value) {
#ifdef COTANGENT_CUDA
  if (dst.is_cuda()) {
    const DeviceGuard guard(dst.device());
    return fill_cuda(dst, value);
  }
#endif
  fill_cpu(dst, value);
}

Tensor packed(const Tensor& t) { return packed(t, t.dtype()); }

Tensor packed(const Tensor& t, DType dtype) {
  if (t.is_contiguous() && t.dtype() == dtype) return t;
  Tensor out = Tensor::allocate(t.shape(), dtype, t.device());
  copy_kernel(out, t);
  return out;
}

Tensor moved(const Tensor& t, Device device) {
  Tensor out = Tensor::allocate(t.shape(), t.dtype(), device);
  if (t.device() == device) {
    copy_kernel(out, t);
  } else {
    move_bytes(out, packed(t));
  }
  return out;
}

std::pair<std::int64_t, std::int64_t> integer_range(DType dtype) {
  const auto digits = [](int n) { return std::pair(-(std::int64_t{1} << n), std::int64_t{1} << n); };
  switch (dtype) {
    case DType::boolean: return {0, 1};
    case DType::u8: return {0, 255};
    case DType::i32: return {INT32_MIN, INT32_MAX};
    case DType::i64: return {INT64_MIN, INT64_MAX};
    case DType::bf16: return digits(8);
    case DType::f16: return digits(11);
    case DType::f32: return digits(24);
    case DType::f64: return digits(53);
  }
  return {};
}

void check_fits(const char* op, const Scalar& value, DType dtype) {
  if (is_floating(dtype) || dtype == DType::boolean) return;
  const auto [low, high] = integer_range(dtype);
  // A floating value loses its fraction, so it may lie up to 1 outside. Beside -2^63 there is no such value.
  const double v = value.to<double>();
  const auto n = value.to<std::int64_t>();
  const bool inside = value.is_floating()
                          ? (v >= static_cast<double>(low) || v > static_cast<double>(low) - 1) &&
                                v < static_cast<double>(high) + 1
                          : low <= n && n <= high;
  CT_CHECK(inside, ValueError, op, "the value ", value, " does not fit into ", dtype, ", which holds ", low,
           " to ", high, "; pass one of those, or use another dtype");
}

void detail::check_writable(const char* op, const Tensor& t) {
  if (t.numel() == 0) return;
  const int axis = expanded_axis(t.shape(), t.strides());
  CT_CHECK(axis < 0, ShapeError, op, "axis ", axis, " of ", describe(t),
           " is expanded: its elements share one place in memory; clone() the tensor before writing to it");
}

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
    copy_kernel(out, *this);
  } else {
    move_bytes(out, packed(*this));
  }
  return out;
}

Scalar Tensor::item_scalar() const {
  CT_CHECK(numel() == 1, ShapeError, "item", "tensor ", describe(*this), " has ", numel(),
           " elements; item() needs exactly one: reduce it, select one, or use to_vector()");
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
  const Tensor host = packed(is_cpu() ? *this : moved(*this, cpu), dtype_of<T>);
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
  fill_kernel(*this, value);
  get().storage->bump_version();
  return *this;
}

Tensor& Tensor::zero_() { return fill_(0); }

Tensor Tensor::operator=(const Tensor& source) && { return detail::assigned("=", *this).copy_(source); }

Tensor Tensor::operator=(const Scalar& value) && { return detail::assigned("=", *this).fill_(value); }

Tensor& Tensor::copy_(const Tensor& source) {
  CT_CHECK(broadcast_shapes("copy_", shape(), source.shape()) == shape(), ShapeError, "copy_", "the source, ",
           describe(source), ", does not broadcast to the target, ", describe(*this),
           "; its sizes must be the target's or 1");
  detail::check_writable("copy_", *this);
  if (grad_enabled() && (requires_grad() || source.requires_grad()))
    return dispatch_inplace(k_assign, *this, {source.to(dtype()).to(device()).expand(shape())});
  if (source.is_same(*this) || numel() == 0) return *this;

  Tensor from = source;
  if (from.device() == device()) {
    const bool shared = from.impl()->storage == get().storage;
    if (shared) from = moved(from, device());  // the two may overlap
  } else {
    if (size_of(dtype()) < size_of(from.dtype())) from = packed(from, dtype());  // fewer bytes to move
    if (is_contiguous() && from.dtype() == dtype() && from.shape() == shape()) {
      move_bytes(*this, packed(from));
      get().storage->bump_version();
      return *this;
    }
    from = moved(from, device());
  }
  copy_kernel(*this, broadcast(from, shape()));
  get().storage->bump_version();
  return *this;
}

}  // namespace ct
