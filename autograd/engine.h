#pragma once

#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

struct BackwardOptions {
  /// Keeps saved tensors, so that the same tape can be walked again.
  bool retain_graph = false;
  /// Records the gradients: they have a history of their own and can be differentiated again, to any order, by
  /// the rules of the ops (OpDef::rule); an op without one throws AutogradError with its reason. Keeps the tape,
  /// like retain_graph. Leaves then hold gradients that hold the tape that holds the leaves: set_grad({}) frees
  /// them, and grad() has no such circle.
  bool create_graph = false;
};

/// Adds d(sum of roots weighted by `gradients`)/d(leaf) to grad() of every leaf that requires a gradient.
/// `gradients` holds one cotangent per root (undefined = 1 for roots with one element) or is empty.
/// Throws AutogradError if a root does not require a gradient, if the tape has been walked already without
/// retain_graph, or if a saved tensor was changed in place; ShapeError/DTypeError for a cotangent that does
/// not fit, and what hooks throw; some leaves' gradients may then have been added to: clear them before the
/// step is tried again. Walks the tape in a loop, without recursion.
///
/// Threads go back through tapes of their own at the same time, also into leaves that they share: what is
/// added to a leaf's gradient is added by one thread after the other, so that none is lost. In which order is
/// left to chance, and so are the last bits of the sum. That is all that is ordered: whoever reads, scales or
/// clears gradients meanwhile (an optimizer's step) sees some of the sum, and on a GPU the threads must use
/// one stream. A tape, or a part that two tapes have in common, belongs to one thread at a time.
CT_API void backward(TensorList roots, TensorList gradients = {}, BackwardOptions options = {});

struct GradOptions {
  bool retain_graph = false;
  /// An input that the outputs do not depend on gets an undefined gradient instead of an AutogradError.
  bool allow_unused = false;
  /// As in BackwardOptions: the gradients that are returned can be differentiated again.
  bool create_graph = false;
};

/// The gradients of `outputs` (weighted by `gradients`) with respect to `inputs`, leaves or not, returned
/// instead of being added to grad(): `grad({loss}, {w})[0]`. Walks the nodes that lead from the outputs to an
/// input and no others: what else the outputs were made from keeps its saved tensors, and its hooks are not
/// called. (What a function given to recompute() captures is known only when it runs: it is called again if an
/// input is older than its result.)
CT_API std::vector<Tensor> grad(TensorList outputs, TensorList inputs, TensorList gradients = {},
                                GradOptions options = {});

// The same of one output, to which the gradients of several inputs are wanted, `grad(loss, {w, b})` or
// `grad(loss, net.parameters())`, or that of one: `grad(loss, x)` is a tensor. A `gradient` is the output's cotangent.
template <detail::OneTensor Output>
std::vector<Tensor> grad(const Output& output, TensorList inputs, GradOptions options = {}) {
  return grad({output}, inputs, {}, options);
}
template <detail::OneTensor Output, detail::OneTensor Gradient>
std::vector<Tensor> grad(const Output& output, TensorList inputs, const Gradient& gradient,
                         GradOptions options = {}) {
  return grad({output}, inputs, {gradient}, options);
}
template <detail::OneTensor Output, detail::OneTensor Input>
Tensor grad(const Output& output, const Input& input, GradOptions options = {}) {
  return grad({output}, {input}, {}, options)[0];
}
template <detail::OneTensor Output, detail::OneTensor Input, detail::OneTensor Gradient>
Tensor grad(const Output& output, const Input& input, const Gradient& gradient, GradOptions options = {}) {
  return grad({output}, {input}, {gradient}, options)[0];
}

/// Anomaly mode of this thread: every recorded op checks its results, and every backward kernel its
/// gradients; the first NaN or infinity throws AutogradError with the op's name and, where the platform
/// can tell, the call site of the forward op. Slow: it waits for the device after every op.
CT_API bool anomaly_enabled();
CT_API void set_anomaly(Flag enabled);
class AnomalyGuard {
 public:
  [[nodiscard]] explicit AnomalyGuard(Flag enabled = true) : previous_(anomaly_enabled()) {
    set_anomaly(enabled);
  }
  ~AnomalyGuard() { set_anomaly(previous_); }
  AnomalyGuard(const AnomalyGuard&) = delete;
  AnomalyGuard& operator=(const AnomalyGuard&) = delete;

 private:
  bool previous_;
};

namespace detail {
/// Makes `sum` sum + b: in its memory if `in_place`, and else another tensor, recorded if recording is on. By the op add, which
/// lies above (ops/engine_ops.cpp).
void add_gradient(Tensor& sum, const Tensor& b, bool in_place);
/// A tensor all of whose elements are `value`, by a call that is not recorded.
Tensor filled(const TensorMeta& meta, double value);

/// Whether no element of `t` is NaN or infinite (ops/engine_ops.cpp).
bool all_finite(const Tensor& t);
/// Throws AutogradError naming `op` if `t` holds a NaN or an infinity.
void check_finite(std::string_view op, const char* phase, const Tensor& t, const std::string& call_site);
std::string current_call_site();
}  // namespace detail
}  // namespace ct
