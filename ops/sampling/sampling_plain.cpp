#include <cmath>

#include <cotangent/ops/sampling/sampling_plain.h>

// The plain kernel: every row of a call by sampling_plain.h.

namespace ct::sampling {
namespace {

using namespace plain;

void forward_plain(const Forward& f) {
  const Tensor& x = f.in(0);
  const Rows rows(x.shape(), x.dim() - 1);
  std::int64_t* ids = f.out().data<std::int64_t>();
  Attrs attrs = f.attrs<Attrs>();
  attrs.draw = attrs.draw.now();
  rows.each([&](std::int64_t r) {
    const Row row = rows.of(x, r);
    check_row(!row.isNaN().any() && std::isfinite(row.maxCoeff()), r);
    ids[r] = sample_logits(row, attrs, r);
  });
}

}  // namespace
}  // namespace ct::sampling

CT_KERNELS(plain, sampling, forward_only("sample_logits", sampling::forward_plain))
