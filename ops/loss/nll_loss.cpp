#include <cotangent/core/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/loss/class_loss_internal.h>
#include <cotangent/ops/loss/nll_loss.h>
#include <cotangent/ops/loss/nll_loss_internal.h>
#include <cotangent/ops/rules_internal.h>

namespace ct {
CT_KERNEL_TABLES(nll_loss)
namespace {

void nll_loss_infer(Infer& in) {
  const Tensor& x = in.in(0);
  loss::check_scores("nll_loss", "log_probs", x, in.in(2));
  loss::check_label_tensor("nll_loss", "log_probs", x, in.in(1));
  const Reduction reduction = in.attrs<NllLossAttrs>().reduction;
  in.output(reduction == Reduction::none ? in.in(1).shape() : Shape{}, x.dtype());
  if (reduction == Reduction::mean) in.output({}, accumulate_type(x.dtype()));
}

Cost nll_loss_cost(std::span<const TensorMeta> in, std::span<const TensorMeta> out, AttrsView) {
  const double rows = static_cast<double>(numel(in[1].shape)),
               size = static_cast<double>(size_of(in[0].dtype));
  return {2 * rows, rows * (size + static_cast<double>(size_of(in[1].dtype))) +
                        size * static_cast<double>(numel(out[0].shape))};
}

std::vector<Sample> nll_loss_samples(SampleMaker& make) {
  std::vector<Sample> samples;
  for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
    const NllLossAttrs attrs{reduction, -100}, ignore{reduction, 1};
    const auto add = [&](const Shape& x, bool weight, const NllLossAttrs& a, const char* label) {
      const std::int64_t classes = x.size() == 1 ? x[0] : x[1];
      samples.push_back({{make.normal(x), make.index(loss::without_classes(x), classes),
                          weight ? make.uniform({classes}, 0.2, 2) : Tensor{}},
                         a,
                         label});
    };
    add({5, 3}, false, attrs, name(reduction).data());
    add({5, 3}, true, attrs, "weights");
    add({9, 2}, true, ignore, "ignored rows");
    add({4}, false, attrs, "one row without a batch axis");
    add({2, 3, 5}, true, attrs, "one inner axis");
    add({2, 3, 3, 5}, false, ignore, "two inner axes, ignored rows");
    add({67, 33}, true, attrs, "odd sizes");
    add({0, 3}, false, attrs, "no rows");
    add({3, 1}, false, attrs, "one class");
  }
  return samples;
}

std::vector<ErrorSample> nll_loss_errors(SampleMaker& make) {
  const NllLossAttrs mean{Reduction::mean, -100};
  Tensor bad = make.index({4}, 3).clone();
  bad.fill_(3);
  Tensor negative = bad.clone();
  negative.fill_(-1);
  return {{{make.normal({4, 3}), make.index({5}, 3), Tensor{}}, mean, "class labels must have shape [4]"},
          {{make.normal({4, 3}), make.normal({4}), Tensor{}}, mean, "class labels must be i64 or i32"},
          {{make.normal({}), make.index({}, 3), Tensor{}}, mean, "it must be [classes], [n, classes]"},
          {{make.normal({4, 0}), make.index({4}, 3), Tensor{}}, mean, "at least one class"},
          {{make.normal({4, 3}), make.index({4}, 3), make.normal({4})}, mean, "weight must be [3]"},
          {{make.normal({4, 3}), bad, Tensor{}}, mean, "class label 3 is out of range for 3 classes"},
          {{make.normal({4, 3}), negative, Tensor{}}, mean, "class label -1 is out of range for 3 classes"}};
}

// dx = -g w[t] in class t, 0 elsewhere.
void nll_loss_rule(const Backward& b) {
  if (!b.needs(0)) return;
  const auto& attrs = b.attrs<NllLossAttrs>();
  const Tensor targets = loss::label_targets(b.in(1), b.saved_inputs[2], b.in_meta(0), attrs.ignore_index, 0);
  const bool mean = attrs.reduction == Reduction::mean;
  const Tensor g = rules::spread(b.grad(), attrs.reduction, b.in_meta(1).shape, mean ? b.out(1) : Tensor{});
  b.set_grad_in(0, -targets * g.unsqueeze(loss::class_axis(b.in_meta(0).shape)));
}

constexpr InputDef kInputs[] = {{.name = "x", .needs = "t weight weights", .packed = true},
                                {.name = "t", .gradient = false, .any_dtype = true, .packed = true},
                                {.name = "weight", .gradient = false, .optional = true, .packed = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .packed = true}, {.name = "weights", .gradient = false}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(NllLossAttrs, reduction, kReductionNames),
                                   CT_ATTRIBUTE(NllLossAttrs, ignore_index)};

}  // namespace

constexpr OpDef k_nll_loss = checked({
    .name = "nll_loss",
    .formula = "y = reduce(-w[t] x[t])",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = nll_loss_infer,
    .kernels = &kernel_tables::nll_loss,
    .rule = nll_loss_rule,
    .autocast = AutocastPolicy::f32,
    .cost = nll_loss_cost,
    .samples = nll_loss_samples,
    .error_samples = nll_loss_errors,
});

CT_ROOM(nll_loss, &k_nll_loss)

Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const NllLossOptions& options) {
  return dispatch(k_nll_loss, {log_probs, target, options.weight},
                  NllLossAttrs{options.reduction, options.ignore_index});
}

}  // namespace ct
