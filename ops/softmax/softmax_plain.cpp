#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/softmax/softmax_internal.h>
#include <cotangent/ops/softmax/softmax_plain.h>

// The plain kernels: every row of a call by softmax_plain.h.

namespace ct::softmax_kernels {
namespace {

using namespace plain;

/// The tensors of a call with the softmax's axis last: what lies apart along it is moved together, and back.
class Call {
 public:
  Call(const OpDef& op, const Shape& shape, const Attrs& attrs)
      : axis_(wrap_axis(op.name, attrs.axis, shape.size())), last_(axis_ + 1 >= shape.size()) {}

  Tensor in(const Tensor& t) const { return last_ ? t : t.transpose(axis_, -1).contiguous(); }
  /// Runs f(rows, r, y) for the rows r of y, which becomes `out`.
  template <class F>
  void run(const Tensor& out, const F& f) const {
    const Tensor y = last_ ? out : Tensor::allocate(out.transpose(axis_, -1).shape(), f64, cpu);
    const Rows rows(y.shape(), y.dim() - 1);
    rows.each([&](std::int64_t r) { f(rows, r, y); });
    if (!last_) copy_kernel(out, y.transpose(axis_, -1));
  }

 private:
  int axis_;
  bool last_;
  NoGrad guard_;
};

template <void row_forward(const Row&, MutableRow)>
void forward_plain(const Forward& f) {
  const Call call(f.op, f.out().shape(), f.attrs<Attrs>());
  const Tensor x = call.in(f.in(0));
  call.run(f.out(), [&](const Rows& rows, std::int64_t r, const Tensor& y) {
    row_forward(rows.of(x, r), rows.in(y, r));
  });
}

template <void row_backward(const Row&, const Row&, MutableRow)>
void backward_plain(const Backward& b) {
  if (!b.needs(0)) return;
  const Call call(b.op, b.out().shape(), b.attrs<Attrs>());
  const Tensor g = call.in(b.grad()), y = call.in(b.out());
  call.run(b.grad_in(0), [&](const Rows& rows, std::int64_t r, const Tensor& dx) {
    row_backward(rows.of(g, r), rows.of(y, r), rows.in(dx, r));
  });
}

}  // namespace
}  // namespace ct::softmax_kernels

CT_KERNELS(plain, softmax,
           {"softmax", softmax_kernels::forward_plain<plain::softmax>,
            softmax_kernels::backward_plain<plain::softmax_gradient>},
           {"log_softmax", softmax_kernels::forward_plain<plain::log_softmax>,
            softmax_kernels::backward_plain<plain::log_softmax_gradient>})
