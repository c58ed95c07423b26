#pragma once

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct::testing {

/// A copy on `device` with the same strides and storage of its own: for tests, where the layout is what is
/// tested. An expanded tensor becomes contiguous, since its elements can't be changed one at a time.
inline Tensor copy_with_layout(const Tensor& t, Device device) {
  NoGrad guard;
  if (expanded_axis(t.shape(), t.strides()) >= 0) return t.detach().clone().to(device);
  std::int64_t extent = t.numel() > 0 ? 1 : 0;  // elements of the storage that the layout reaches
  for (int i = 0; i < t.dim(); ++i)
    if (extent > 0) extent += (t.shape()[i] - 1) * t.strides()[i];
  const auto bytes = static_cast<std::size_t>(extent) * size_of(t.dtype());
  auto storage = Storage::allocate(bytes, device);
  copy_bytes(storage->data(), device, t.raw_data(), t.device(), bytes);
  return Tensor::from_storage(std::move(storage), t.shape(), t.strides(), 0, t.dtype());
}

}  // namespace ct::testing
