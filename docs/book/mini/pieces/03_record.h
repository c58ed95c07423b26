// Chapter 3: what a loss holds on to.

namespace mini {

inline thread_local bool recording = true;
inline thread_local Size recorded = 0;  // nodes so far: the next one's number

/// While it lives, its thread records nothing.
struct NoGrad {
  bool before = recording;
  NoGrad() { recording = false; }
  ~NoGrad() { recording = before; }
  NoGrad(const NoGrad&) = delete;
};

/// A matrix that nothing was computed from: data, or a parameter, which wants a gradient.
inline Tensor leaf(Size rows, Size columns, std::vector<Real> values, bool wants_grad = false) {
  const auto n = std::make_shared<Node>();
  n->number = recorded++, n->rows = rows, n->columns = columns;
  n->values = std::move(values), n->wants_grad = wants_grad;
  return n;
}

/// A matrix that was computed from `inputs`, and its way back. It holds on to both only where some input wants a gradient
/// and no NoGrad lives; else it is a leaf. `back` finds the inputs in its node and owns none of them.
inline Tensor record(Size rows, Size columns, std::vector<Real> values, std::vector<Tensor> inputs,
                     std::function<void(const Node&)> back) {
  (void)inputs, (void)back;
  const Tensor n = leaf(rows, columns, std::move(values));
  gap("record");  // yours: what n holds on to, and when
  return n;
}

/// Takes inputs and way back from each node behind the loss, so that nodes which nobody else holds are freed. By a list: a chain of a
/// million nodes must not be a million calls deep.
inline void release(const Tensor& loss) {
  (void)loss;
  gap("release");  // yours
}

}  // namespace mini
