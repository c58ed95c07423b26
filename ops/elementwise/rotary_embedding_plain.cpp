#include <cmath>

#include <cotangent/ops/elementwise/rotary_embedding_internal.h>
#include <cotangent/ops/elementwise/rotary_embedding_plain.h>

// The plain kernels: every row of a call by rotary_embedding_plain.h.

namespace ct::plain::rotary_embedding_calls {
namespace {

template <auto turn_row>
void turn(const Tensor& x, const Tensor& positions, const rotary::Attrs& attrs, const Tensor& y) {
  if (y.numel() == 0) return;
  const std::int64_t length = x.size(-2), turned = attrs.turned(x.size(-1));
  const double* frequency = rotary::frequencies<double>(attrs.options, turned).of;
  const rotary::Positions at(positions);
  const Rows rows(x.shape(), x.dim() - 1);
  const std::int64_t rows_of_batch = rows.count() / x.size(0);  // where batches have positions of their own
  rows.each([&](std::int64_t r) {
    const std::int64_t batch = positions.dim() == 2 ? r / rows_of_batch : 0;
    const auto position = static_cast<double>(at[batch * length + r % length]);
    turn_row(rows.of(x, r), position, frequency, turned / 2, attrs.options.interleaved, rows.in(y, r));
  });
}

void forward(const Forward& f) {
  turn<rotary_embedding>(f.in(0), f.in(1), f.attrs<rotary::Attrs>(), f.out());
}

void backward(const Backward& b) {
  if (b.needs(0)) turn<rotary_embedding_gradient>(b.grad(), b.in(1), b.attrs<rotary::Attrs>(), b.grad_in(0));
}

}  // namespace
}  // namespace ct::plain::rotary_embedding_calls

CT_KERNELS(plain, rotary_embedding,
           {"rotary_embedding", plain::rotary_embedding_calls::forward,
            plain::rotary_embedding_calls::backward})
