#pragma once

#include <initializer_list>
#include <span>

#include <cotangent/core/base/export.h>
#include <cotangent/core/op/op_call.h>
#include <cotangent/core/op/op_observer.h>

// The one way to a kernel, for dispatch, for the tape and for all that writes tensors without either: observers and tracers
// (core/op/op_observer.h) see every call.

namespace ct {

/// Runs the forward kernel of `call.op` for the kind of `device` and the dtype of input 0, which must be defined. Inputs that
/// its records want contiguous are copied first, as calls of their own. Throws DeviceError where the op has no such kernel,
/// and what the kernel throws.
CT_API void execute(Device device, const Forward& call);

/// The same of the backward kernel. `inputs` and `outputs` are call.saved_inputs and call.saved_outputs, whose tensors that
/// are not contiguous are exchanged for copies: a further handle would keep a kernel from writing over a saved value.
CT_API void execute(Device device, const Backward& call, std::span<Tensor> inputs, std::span<Tensor> outputs);

namespace detail {
/// Runs the forward kernel of an op whose result takes the place of its first input, off the tape: a fill, an assignment, a
/// draw. The change is the caller's to note.
void write(const OpDef& op, std::initializer_list<const Tensor*> inputs, AttrsView attrs = {});

/// Runs the forward kernel of an op whose records say which inputs it writes, off the tape, on the device of the first input
/// that is there. The changes are the caller's to note. Observers and tracers see the written inputs as outputs; to the kernel
/// alone none are given, as handles cost time.
void write(const OpDef& op, std::span<const Tensor* const> inputs, AttrsView attrs);

/// A contiguous copy, not recorded: a call of the op copy, which lies above.
Tensor packed(const Tensor& t);
}  // namespace detail

}  // namespace ct
