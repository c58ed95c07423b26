#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// Calls fn(inputs) and keeps nothing for backward but the inputs: backward calls fn again and goes through
/// what that records. Memory for a second forward pass, in the parts where it is used:
///
///     for (const Block& block : blocks)
///       x = ct::recompute([block](const ct::Tensor& x) { return block(x); }, x);
///
/// Gradients reach the inputs and every tensor that fn captures, parameters as well as results of earlier
/// ops; they have the same bits as without recompute(). It nests, and works with ct::grad(), with
/// retain_graph and under ct::Autocast. The default generator and the autocast mode are set back for the
/// second call, so that dropout draws the same masks. fn must draw from no other generator (and no other
/// thread from the default one meanwhile), and must compute the same each time. It is kept until backward, so
/// it holds by value (modules and tensors are handles) what may be gone by then.
///
/// Without recording (NoGrad) it is fn(inputs). With it the floating outputs require a gradient, whatever fn
/// captures. Throws ValueError for an empty fn, and AutogradError in backward if an input has been changed in
/// place, if fn returns other shapes or dtypes than the first time, or if fn uses a tensor that was made
/// after the call of recompute().
CT_API std::vector<Tensor> recompute(std::function<std::vector<Tensor>(const std::vector<Tensor>&)> fn,
                                     const std::vector<Tensor>& inputs);
CT_API Tensor recompute(std::function<Tensor(const Tensor&)> fn, const Tensor& input);

namespace detail {
/// State that nn sets for the forward passes of a thread: functional_call() the tensors in place of parameters.
struct ForwardScope : std::enable_shared_from_this<ForwardScope> {
  virtual ~ForwardScope() = default;
};
/// That of this thread, or null. recompute() sets it back for the second call, too.
CT_API const ForwardScope*& forward_scope();
}  // namespace detail

}  // namespace ct
