#include <cotangent/core/device/index_error.h>
#include <cotangent/ops/indexing/embedding_internal.h>
#include <cotangent/ops/indexing/embedding_plain.h>

// The plain kernels: embedding_plain.h, after the indices have been checked.

namespace ct::indexing_impl::embedded {
namespace {

using namespace plain;

void forward_plain(const Forward& f) {
  const Tensor& w = f.in(0);
  const std::int64_t rows = w.size(0), columns = w.size(1), places = f.in(1).numel();
  const Integers i(f.in(1));
  for (std::int64_t p = 0; p < places; ++p)
    if (i[p] < 0 || i[p] >= rows) throw_index_error("embedding", IndexKind::token, i[p], rows);
  embedding({w.data<double>(), rows, columns}, i, {f.out().data<double>(), places, columns});
}

void backward_plain(const Backward& b) {
  if (!b.needs(0)) return;
  Tensor& dw = b.grad_in(0);
  if (!b.accumulate(0)) dw.zero_();
  const std::int64_t rows = dw.size(0), columns = dw.size(1);
  embedding_gradient({b.grad().data<double>(), b.in(1).numel(), columns}, Integers(b.in(1)),
                     b.attrs<Attrs>().padding_row(rows), {dw.data<double>(), rows, columns});
}

}  // namespace
}  // namespace ct::indexing_impl::embedded

CT_KERNELS(plain, embedding,
           {"embedding", indexing_impl::embedded::forward_plain, indexing_impl::embedded::backward_plain})
