#include <cotangent/ops/sampling/sampling.h>

#include <cmath>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/engine/random/with_draw.h>
#include <cotangent/ops/sampling/sampling_internal.h>

namespace ct {
CT_KERNEL_TABLES(sampling)
namespace {

using sampling::Attrs;
constexpr const char* kName = "sample_logits";

void infer(Infer& in) {
  const auto& attrs = in.attrs<Attrs>();
  const Tensor& x = in.in(0);
  CT_CHECK(x.dim() > 0 && x.size(-1) > 0, ShapeError, kName, "logits is ", describe(x),
           "; it must be [..., n] with something to draw");
  CT_CHECK(attrs.temperature >= 0 && std::isfinite(attrs.temperature), ValueError, kName, "temperature is ",
           attrs.temperature, "; it must be finite and at least 0 (0: the largest logit)");
  CT_CHECK(attrs.top_k >= 0, ValueError, kName, "top_k is ", attrs.top_k,
           "; it must be at least 1, or 0 for all");
  CT_CHECK(attrs.top_p > 0 && attrs.top_p <= 1, ValueError, kName, "top_p is ", attrs.top_p,
           "; it must lie in (0, 1]");
  in.output(Shape(x.shape().begin(), static_cast<std::size_t>(x.dim() - 1)), DType::i64);
}

constexpr InputDef kInputs[] = {{.name = "logits", .gradient = false, .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .gradient = false}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, temperature), CT_ATTRIBUTE(Attrs, top_k),
                                   CT_ATTRIBUTE(Attrs, top_p), CT_ATTRIBUTE(Attrs, draw)};

}  // namespace

constexpr OpDef k_sample_logits = checked({
    .name = kName,
    .formula = "y ~ softmax(x / temperature), the top k and p of it",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = infer,
    .kernels = &kernel_tables::sampling,
    .flops_each = 20,
});

CT_ROOM(sampling, &k_sample_logits)

Tensor sample_logits(const Tensor& logits, const SampleOptions& options, Generator& generator) {
  const auto run = [&](const GeneratorState& draw) {
    return dispatch(k_sample_logits, {logits},
                    Attrs{options.temperature, options.top_k, options.top_p, draw});
  };
  return options.temperature == 0 ? run({}) : with_draw(generator, run);
}

}  // namespace ct
