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
  std::vector<Node*> found = {loss.get()};
  std::set<Node*> seen(found.begin(), found.end());
  for (Size i = 0; i < found.size(); ++i)
    for (const Tensor& in : found[i]->inputs)
      if (in->wants_grad && seen.insert(in.get()).second) found.push_back(in.get());
  std::sort(found.begin(), found.end(), [](Node* a, Node* b) { return a->number > b->number; });
  loss->into()[0] += 1;
  for (Node* const n : found)
    if (n->back) n->back(*n), n->grad.clear();
}

}  // namespace mini
