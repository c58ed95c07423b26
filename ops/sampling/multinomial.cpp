#include <cotangent/ops/sampling/multinomial.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/engine/random/with_draw.h>
#include <cotangent/ops/sampling/multinomial_internal.h>

namespace ct {
CT_KERNEL_TABLES(multinomial)
namespace {

using sampling::weighted::Attrs;

void infer(Infer& in) {
  const auto& attrs = in.attrs<Attrs>();
  const Tensor& w = in.in(0);
  CT_CHECK(w.dim() == 1 || w.dim() == 2, ShapeError, "multinomial", "weights is ", describe(w),
           "; it must be [n] or [rows, n]");
  const std::int64_t n = w.size(-1);
  CT_CHECK(n > 0, ShapeError, "multinomial", "weights is ", describe(w), "; there must be something to draw");
  CT_CHECK(attrs.count > 0, ValueError, "multinomial", "count is ", attrs.count, "; it must be at least 1");
  CT_CHECK(attrs.replacement || attrs.count <= n, ValueError, "multinomial", "count is ", attrs.count,
           ", weights is ", describe(w), "; without replacement at most ", n, " can be drawn");
  Shape out = w.shape();
  out.back() = attrs.count;
  in.output(out, DType::i64);
}

constexpr InputDef kInputs[] = {{.name = "weights", .gradient = false, .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .gradient = false}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, count), CT_ATTRIBUTE(Attrs, replacement),
                                   CT_ATTRIBUTE(Attrs, draw)};

}  // namespace

constexpr OpDef k_multinomial = checked({
    .name = "multinomial",
    .formula = "y ~ w / sum(w)",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = infer,
    .kernels = &kernel_tables::multinomial,
    .flops_each = 2,
});

CT_ROOM(multinomial, &k_multinomial)

Tensor multinomial(const Tensor& weights, Integer count, Flag replacement, Generator& generator) {
  return with_draw(generator, [&](const GeneratorState& draw) {
    return dispatch(k_multinomial, {weights}, Attrs{count, replacement, draw});
  });
}

}  // namespace ct
