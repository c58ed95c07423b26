// Chapter 2: the tape.

namespace mini {

struct Node;
using Tensor = std::shared_ptr<Node>;

/// A matrix on the tape, row by row, and the way back to what it was made from.
struct Node {
  Size number = 0;  // larger than those of its inputs
  Size rows = 1, columns = 1;
  std::vector<Real> values, grad;  // an empty gradient is none
  bool wants_grad = false;
  std::vector<Tensor> inputs;
  std::function<void(const Node&)> back;  // adds to the gradients of the inputs what the node's own says

  Size size() const { return rows * columns; }

  /// The gradient, of zeros where there was none.
  std::vector<Real>& into() {
    if (grad.empty()) grad.assign(size(), 0);
    return grad;
  }
};

/// Adds dL/dn to the gradient of every leaf n that wants one, for a loss L, which is a number. Each node is visited once, the
/// youngest first; one that has handed on its gradient loses it.
inline void backward(const Tensor& loss) {
  (void)loss;
  gap("backward");  // yours: find the nodes, order them, hand the gradients on
}

}  // namespace mini
