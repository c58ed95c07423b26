#pragma once

#include <cstdint>
#include <utility>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/base/scalar.h>
#include <cotangent/core/device/device.h>
#include <cotangent/core/device/kernel_tables.h>
#include <cotangent/core/tensor/tensor.h>

// Copies and conversions without the tape, for kernels, dispatch and the copy room.

namespace ct {

/// Writes the elements of `src` into the memory of `dst`: same shape, same device, any strides on both
/// sides, any dtypes (converted as core/base/convert_element.h says). The two must not overlap, except that
/// they may be the same elements. Queued on the current stream on CUDA. The version counter is not touched.
void copy_kernel(const Tensor& dst, const Tensor& src);

/// The least and the largest integer up to which `dtype` holds them all.
std::pair<std::int64_t, std::int64_t> integer_range(DType dtype);

/// Throws ValueError unless `dtype`, if it is one of integers, can hold `value`: NaN and what lies outside
/// its range can't be told from other numbers afterwards.
void check_fits(const char* op, const Scalar& value, DType dtype);

namespace walk {
/// Throws ShapeError, naming `op`, if several elements of `t` share one place in memory (a tensor made by
/// expand), so that writing to it would have no meaning.
void check_writable(const char* op, const Tensor& t);
}  // namespace walk

/// Writes `value` into every element of `dst`, which may have any strides.
void fill_kernel(const Tensor& dst, const Scalar& value);

/// `t` if it is contiguous, else a contiguous copy that is not recorded. For engines; the kernels of an op get
/// what its records ask for (core/op/op_records.h).
Tensor contiguous(const Tensor& t);
/// `t` in `dtype`, contiguous, not recorded; `t` itself if it is that already.
Tensor converted(const Tensor& t, DType dtype);
/// A contiguous copy of `t` on `device`, not recorded; also when `t` is there already.
Tensor moved(const Tensor& t, Device device);

/// The bytes of two contiguous tensors of the same shape and dtype, on any devices. From pinned memory the copy is
/// asynchronous: the allocator is told, so that the source may be dropped at once.
void move_bytes(const Tensor& dst, const Tensor& src);

/// The halves of the above per device.
void copy_cpu(const Tensor& dst, const Tensor& src);
void fill_cpu(const Tensor& dst, const Scalar& value);
void copy_cuda(const Tensor& dst, const Tensor& src);
void fill_cuda(const Tensor& dst, const Scalar& value);
struct CopyFunctions {
  decltype(&copy_cpu) copy;
  decltype(&fill_cpu) fill;
};
CT_FUNCTION_TABLES(CopyFunctions, copying)

}  // namespace ct
