#pragma once

#include <array>
#include <initializer_list>
#include <span>

#include <cotangent/core/base/export.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/core/tensor/tensor.h>

// One way in for every op. dispatch() checks devices and dtypes, asks the op for its result shapes,
// allocates, picks the device's kernel, runs it and, if a gradient is wanted, records the call on the tape.
// Rooms hold formulas and kernels, and none of this.

namespace ct {

/// A borrowed tensor in an argument list.
using TensorRef = const Tensor*;

namespace detail {
// Takes the address of each tensor in {a, b}, so that no handle is copied.
struct InputRef {
  InputRef(const Tensor& t) : tensor(&t) {}
  const Tensor* tensor;
};
}  // namespace detail

/// Runs `op` and writes its outputs to `outputs` (as many as the op has).
/// Throws DeviceError, DTypeError or what the op's shape rule throws; nothing is changed then.
CT_API void dispatch(const OpDef& op, std::span<const TensorRef> inputs, AttrsView attrs,
                     std::span<Tensor> outputs);

/// An op with one output (the first, if it has auxiliary ones): `return dispatch(k_softmax, {x}, attrs);`
CT_API Tensor dispatch(const OpDef& op, std::initializer_list<detail::InputRef> inputs, AttrsView attrs = {});

/// The first N outputs of an op that has several.
template <std::size_t N>
std::array<Tensor, N> dispatch_n(const OpDef& op, std::initializer_list<detail::InputRef> inputs,
                                 AttrsView attrs = {}) {
  static_assert(sizeof(detail::InputRef) == sizeof(TensorRef));
  std::array<Tensor, kMaxOutputs> outputs;
  dispatch(op, {reinterpret_cast<const TensorRef*>(inputs.begin()), inputs.size()}, attrs, outputs);
  std::array<Tensor, N> result;
  for (std::size_t i = 0; i < N; ++i) result[i] = std::move(outputs[i]);
  return result;
}

/// Runs an elementwise op with `self` as input 0 and as the place of its result. The result's shape must be
/// self's shape, and its dtype is converted to self's within a category (f32 into f16, not f32 into i64).
/// Throws AutogradError for a leaf that requires a gradient, or a view, while recording.
CT_API Tensor& dispatch_inplace(const OpDef& op, Tensor& self, std::initializer_list<detail::InputRef> others,
                                AttrsView attrs = {});

}  // namespace ct
