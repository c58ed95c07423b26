#include <cotangent/ops/elementwise/dropout_internal.h>
#include <cotangent/ops/elementwise/dropout_plain.h>
#include <cotangent/ops/engine/map/plain.h>

// The plain kernels: every element of a call by dropout_plain.h.

namespace ct::elementwise::dropout_impl {
namespace {

using namespace plain;

void forward_plain(const Forward& f) {
  const auto& a = f.attrs<Attrs>();
  const double* x = f.in(0).data<double>();
  const GeneratorState draw = a.draw.now();
  const std::uint64_t threshold = bernoulli_threshold(a.p);
  each_element(f.out(), [&](std::int64_t i) {
    return dropout(x[i], is_dropped(draw, static_cast<std::uint64_t>(i), threshold), a.p);
  });
}

void backward_plain(const Backward& b) {
  if (!b.needs(0)) return;
  const auto& a = b.attrs<Attrs>();
  const double* g = b.grad().data<double>();
  const GeneratorState draw = a.draw.now();
  const std::uint64_t threshold = bernoulli_threshold(a.p);
  each_element(b.grad_in(0), [&](std::int64_t i) {
    return dropout_gradient(g[i], is_dropped(draw, static_cast<std::uint64_t>(i), threshold), a.p);
  });
}

}  // namespace
}  // namespace ct::elementwise::dropout_impl

CT_KERNELS(plain, dropout,
           {"dropout", elementwise::dropout_impl::forward_plain, elementwise::dropout_impl::backward_plain})
