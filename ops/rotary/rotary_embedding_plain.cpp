#include <cotangent/ops/rotary/rotary_embedding_internal.h>
#include <cotangent/ops/rotary/rotary_embedding_plain.h>

// The plain kernels: every row of a call by rotary_embedding_plain.h.

namespace ct::rotary {
namespace {

using namespace plain;

template <auto turn_row>
void turn(const Tensor& x, const Tensor& positions, const Attrs& attrs, const Tensor& y) {
  if (y.numel() == 0) return;
  const std::int64_t length = x.size(-2), turned = attrs.turned(x.size(-1));
  const Row frequency(frequencies<double>(attrs.options, turned).of, turned / 2, Eigen::InnerStride<>(1));
  const Positions at(positions);
  const Rows rows(x.shape(), x.dim() - 1);
  const std::int64_t batches = positions.dim() == 2 ? x.size(0) : 1;  // that have positions of their own
  const std::int64_t heads = rows.count() / batches / length;
  parallel_for(batches * length, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Turn phi = turn_of(static_cast<double>(at[i]), frequency);
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t r = (i / length * heads + h) * length + i % length;
        turn_row(rows.of(x, r), phi, attrs.options.interleaved, rows.in(y, r));
      }
    }
  });
}

void forward_plain(const Forward& f) {
  turn<plain::rotary_embedding>(f.in(0), f.in(1), f.attrs<Attrs>(), f.out());
}

void backward_plain(const Backward& b) {
  if (b.needs(0)) turn<plain::rotary_embedding_gradient>(b.grad(), b.in(1), b.attrs<Attrs>(), b.grad_in(0));
}

}  // namespace
}  // namespace ct::rotary

CT_KERNELS(plain, rotary_embedding, {"rotary_embedding", rotary::forward_plain, rotary::backward_plain})
