#include <cotangent/ops/engine/walk/copy.h>

#include <cotangent/core/base/error.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/ops/engine/walk/axes.h>

namespace ct {

void move_bytes(const Tensor& dst, const Tensor& src) {
  const bool async = src.is_pinned() && dst.is_cuda();
  copy_bytes(dst.raw_data(), dst.device(), src.raw_data(), src.device(),
             static_cast<std::size_t>(src.nbytes()), async);
  if (async) src.impl()->storage->record_stream(current_stream(dst.device()));
}

void copy_kernel(const Tensor& dst, const Tensor& src) {
  functions_of(kernel_tables::copying, dst.device()).copy(dst, src);
}

void fill_kernel(const Tensor& dst, const Scalar& value) {
  functions_of(kernel_tables::copying, dst.device()).fill(dst, value);
}

Tensor contiguous(const Tensor& t) { return converted(t, t.dtype()); }

Tensor converted(const Tensor& t, DType dtype) {
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
    move_bytes(out, contiguous(t));
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

void walk::check_writable(const char* op, const Tensor& t) {
  if (t.numel() == 0) return;
  const int axis = expanded_axis(t.shape(), t.strides());
  CT_CHECK(axis < 0, ShapeError, op, "axis ", axis, " of ", describe(t),
           " is expanded: its elements share one place in memory; clone() the tensor before writing to it");
  if (t.is_contiguous()) return;
  // Windows of unfold() overlap: an axis steps no further than those inside of it reach.
  Axes<1> axes;
  for (int i = 0; i < t.dim(); ++i) axes.append(t.shape()[i], {t.strides()[i]});
  axes.sort();
  std::int64_t reach = 0;
  for (int i = axes.rank - 1; i >= 0; --i) {
    CT_CHECK(axes.stride[i][0] > reach, ShapeError, op, describe(t), " with strides ", t.strides(),
             " has elements that share one place in memory; clone() the tensor before writing to it");
    reach += (axes.size[i] - 1) * axes.stride[i][0];
  }
}

}  // namespace ct
