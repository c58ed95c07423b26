#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/number.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/collective/group.h>

// Collectives: calls that all ranks of a group make together. Each function is called by all ranks, in the same order, with tensors of the same
// shape and dtype: f32, f64, f16, bf16, i64, i32, u8, and bool where nothing is added up. They are ops: on the tape, seen by
// profilers, parts of captured steps.
//
// Gradients are those of the sum of all ranks' losses: what flows into a rank's result is what its own loss says, and what
// flows out of its tensor is what all losses say. backward() is a collective too, then.
//
// 16-bit sums are taken in f32 and rounded once on the host; NCCL rounds on its way. On the host a sum is taken in the order
// of the ranks, and has the same bits on every rank and in every run.
//
// Throw PeerError where a rank is gone, late or does something else; DeviceError for tensors that are neither on the CPU nor
// on the group's device.

namespace ct::dist {

enum class ReduceOp : std::uint8_t { sum, mean, max, min, prod };

/// The sum (mean, ...) of the ranks' tensors, element by element, on every rank.
/// Differentiable in sum and mean; with another op throws AutogradError where a gradient is wanted. Means are floating
/// (DTypeError).
CT_API Tensor all_reduce(const Tensor& x, const Group& group, ReduceOp op = ReduceOp::sum);
/// The same in place of x. Throws as the in-place functions of ops.
CT_API Tensor& all_reduce_(Tensor& x, const Group& group, ReduceOp op = ReduceOp::sum);
CT_API Tensor&& all_reduce_(Tensor&& x, const Group& group, ReduceOp op = ReduceOp::sum);

/// Rank `root`'s tensor, on every rank. Throws ValueError for a root outside of the group.
CT_API Tensor broadcast(const Tensor& x, const Group& group, Integer root = 0);
/// The same in place of x.
CT_API Tensor& broadcast_(Tensor& x, const Group& group, Integer root = 0);

/// The ranks' tensors [n, ...] one behind the other, [size * n, ...]; those of rank 0 dimensions as [size].
CT_API Tensor all_gather(const Tensor& x, const Group& group);
/// The same into `out`, off the tape. `x` may be rank's own part of `out`. Throws ShapeError unless out has size times x's
/// elements; both are contiguous.
CT_API void all_gather_into(const Tensor& out, const Tensor& x, const Group& group);

/// Part `rank` of the sum (mean) of the ranks' tensors [size * n, ...]: [n, ...]. Throws ShapeError unless the first size is a
/// multiple of the group's; as all_reduce for the op.
CT_API Tensor reduce_scatter(const Tensor& x, const Group& group, ReduceOp op = ReduceOp::sum);

/// Returns when all ranks have come. The host waits; work that is queued on a device need not be done.
CT_API void barrier(const Group& group);

namespace detail {
/// all_reduce_ of a contiguous tensor off the tape, beside the current stream of a GPU; join() is the current stream's wait for
/// all of them. On the CPU it is done at once.
CT_API void all_reduce_later(const Tensor& x, const Group& group, ReduceOp op);
CT_API void join(const Tensor& x, const Group& group);
}  // namespace detail

}  // namespace ct::dist
