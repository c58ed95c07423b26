#include <cotangent/ops/softsign/softsign.h>

#include <cmath>

#include <cotangent/core/registry.h>
#include <cotangent/ops/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/softsign/softsign_kernels.h>

namespace ct {
namespace {

void infer(Infer& c) { c.output(c.in(0).shape(), c.in(0).dtype()); }

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

constexpr OpDef definition() {
  OpDef op{.name = "softsign",
           .formula = "y = x / (1 + |x|)",
           .infer = infer,
           .cpu = {softsign_forward_cpu, softsign_backward_cpu},
           .cuda = CT_CUDA_KERNELS(softsign_forward_cuda, softsign_backward_cuda)};
  op.saves[0] = {.inputs = 1};  // dx needs x
  op.reference = reference;
  op.samples = samples;
  return op;
}
constexpr OpDef k_softsign = checked(definition());
constexpr const OpDef* kOps[] = {&k_softsign};

}  // namespace

Tensor softsign(const Tensor& x) { return dispatch(k_softsign, {x}); }

namespace rooms {
extern const Room softsign;
const Room softsign{"softsign", kOps};
}  // namespace rooms
}  // namespace ct
