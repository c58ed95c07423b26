#include <cmath>

#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

std::vector<Tensor> reference(std::span<const Tensor> in, AttrsView) {
  std::vector<double> values = in[0].to_vector<double>();
  for (double& v : values) v = v / (1 + std::abs(v));
  return {from_vector(values, in[0].shape())};
}

std::vector<Sample> samples(SampleMaker& make) {
  return {{{make.normal({3, 5})}, {}, "odd sizes"},
          {{make.normal({})}, {}, "scalar"},
          {{make.normal({0, 4})}, {}, "empty"}};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(squash, {"squash", samples, nullptr, reference})
