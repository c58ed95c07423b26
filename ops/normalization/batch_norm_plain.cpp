#include <cotangent/ops/normalization/batch_norm_plain.h>

#include <cotangent/core/device/parallel.h>

// The plain kernels: channel by channel by batch_norm_plain.h.

namespace ct::normalization::batch {
namespace {

using namespace plain;

void forward_plain(const Call& c) {
  parallel_for(c.channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      batch_norm(c, i, c.x.data<double>(), number(c.weight, i, 1.0), number(c.bias, i, 0.0),
                 c.mean.data<double>()[i], c.var.data<double>()[i], c.y.data<double>());
  });
}
void backward_plain(const Call& c) {
  parallel_for(c.channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      double db = 0, dw = 0;
      batch_norm_gradient(c, i, c.x.data<double>(), c.g.data<double>(), number(c.weight, i, 1.0),
                          c.mean.data<double>()[i], c.var.data<double>()[i], db, dw,
                          c.dx.defined() ? c.dx.data<double>() : nullptr);
      put(c.dbias, i, db), put(c.dweight, i, dw);
    }
  });
}

}  // namespace
}  // namespace ct::normalization::batch

CT_KERNELS(plain, batch_norm,
           CT_BATCH_NORM_KERNELS(normalization::batch::forward_plain, normalization::batch::backward_plain))
