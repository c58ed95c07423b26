#include <cotangent/ops/indexing/rearrange_internal.h>
#include <cotangent/ops/testing/references.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using indexing_impl::padded::Attrs;

std::vector<Tensor> pad_reference(std::span<const Tensor> in, AttrsView attrs) {
  const Attrs& a = *static_cast<const Attrs*>(attrs.data);
  Shape shape = in[0].shape();
  for (int i = 0; i < shape.size(); ++i) shape[i] += a.before[i] + a.after[i];
  return {testing::by_index(shape, [&](Dims at) {
    std::int64_t offset = 0;
    for (int i = 0; i < at.size(); ++i) {
      const std::int64_t k = at[i] - a.before[i];
      if (k < 0 || k >= in[0].shape()[i]) return a.value.to<double>();
      offset += k * in[0].strides()[i];
    }
    return in[0].data<double>()[offset];
  })};
}
std::vector<Sample> pad_samples(SampleMaker& make) {
  return {{{make.normal({4})}, Attrs{{1}, {2}, 1}, "a vector"},
          {{make.normal({2, 3})}, Attrs{{0, 2}, {1, 0}, 0}, "rows and columns"},
          {{make.normal({2, 3, 4})}, Attrs{{1, 0, 2}, {1, 0, 3}, 1}, "outer axes"},
          {{make.normal({3})}, Attrs{{0}, {0}, 0}, "nothing"},
          {{make.normal({})}, Attrs{{}, {}, 0}, "a scalar"},
          {{make.normal({0, 2})}, Attrs{{2, 0}, {1, 0}, 1}, "of nothing"}};
}
std::vector<ErrorSample> pad_errors(SampleMaker& make) {
  return {{{make.normal({4})}, Attrs{{1, 1}, {2, 0}, 0}, "one number for each axis"},
          {{make.normal({4})}, Attrs{{-1}, {2}, 0}, "they must be >= 0"}};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(rearrange, {"pad", pad_samples, pad_errors, pad_reference})
