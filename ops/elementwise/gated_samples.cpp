#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

std::vector<Sample> samples(SampleMaker& make) {
  const auto sample = [&](const Shape& shape, const char* label) {
    return Sample{{make.normal(shape), make.normal(shape)}, {}, label};
  };
  // The halves of one projection, as views.
  const Tensor packed = make.normal({3, 4, 48}), odd = make.normal({5, 14});
  return {sample({4, 6}, "a matrix"),
          sample({3, 129}, "odd rows"),
          sample({2, 3, 64}, "whole vectors"),
          sample({1300}, "several blocks"),
          sample({}, "scalars"),
          sample({1, 1}, "size 1"),
          {{packed.narrow(-1, 0, 24), packed.narrow(-1, 24, 24)}, {}, "halves"},
          {{odd.narrow(-1, 0, 7), odd.narrow(-1, 7, 7)}, {}, "odd halves"},
          {{make.values({6}, {-90, -20, -3, 0, 12, 60}), make.normal({6})}, {}, "far from 0"},
          sample({0, 4}, "empty")};
}

std::vector<ErrorSample> error_samples(SampleMaker& make) {
  return {{{make.normal({4, 6}), make.normal({6})}, {}, "gate is f64[4, 6], up is f64[6]"},
          {{make.normal({4}), make.index({4}, 3)}, {}, "different dtypes"},
          {{make.index({4}, 3), make.index({4}, 3)}, {}, "supported dtypes are f32"}};
}

}  // namespace
}  // namespace ct

CT_ORACLE(gated)
CT_OP_TESTS(gated, {"swiglu", samples, error_samples, nullptr, &oracle_kernels::gated},
            {"geglu", samples, error_samples, nullptr, &oracle_kernels::gated},
            {"geglu_tanh", samples, error_samples, nullptr, &oracle_kernels::gated})
