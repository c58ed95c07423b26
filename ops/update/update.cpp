#include <cotangent/ops/update/update.h>

#include <array>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/update/update_internal.h>

namespace ct {
#define CT_UPDATE_OP(Rule, op) CT_KERNEL_TABLES(op)
CT_UPDATE_RULES(CT_UPDATE_OP)
#undef CT_UPDATE_OP
CT_KERNEL_TABLES(gradients)
CT_KERNEL_TABLES(loss_scale)
CT_KERNEL_TABLES(average_step)
CT_KERNEL_TABLES(round_all)

namespace update {
namespace {

constexpr InputDef constant(const char* name) { return {.name = name, .gradient = false, .any_dtype = true}; }
constexpr InputDef written(const char* name) {
  InputDef in = constant(name);
  in.written = true;
  return in;
}
constexpr InputDef optional(InputDef in) {
  in.optional = true;
  return in;
}
constexpr InputDef all(InputDef in) {
  in.rest = true;
  return in;
}
// Further tensors of as many roles as the records before have.
constexpr InputDef again(std::uint8_t turn) {
  InputDef in = all(constant("more"));
  in.turn = turn;
  return in;
}

template <std::size_t N>
consteval auto step_inputs(const char* const (&moments)[N]) {
  std::array<InputDef, kShared + kFirstMoment + N + 1> inputs{
      optional(constant("found_inf")), optional(constant("inverse_scale")), optional(constant("lr")),
      optional(written("steps")),      optional(constant("norm")),          optional(written("param")),
      optional(constant("grad")),      optional(written("master"))};
  for (std::size_t m = 0; m < N; ++m) inputs[kShared + kFirstMoment + m] = optional(written(moments[m]));
  inputs.back() = again(kFirstMoment + N);
  return inputs;
}

// Outputs are the written inputs.
constexpr OutputDef kWritten[] = {{.name = "written", .gradient = false, .rest = true}};
void infer_nothing(Infer&) {}

constexpr auto kSgdInputs = step_inputs({"momentum_buffer"});
constexpr AttrDef kSgdAttributes[] = {
    CT_ATTRIBUTE(SgdAttrs, lr),           CT_ATTRIBUTE(SgdAttrs, momentum), CT_ATTRIBUTE(SgdAttrs, dampening),
    CT_ATTRIBUTE(SgdAttrs, weight_decay), CT_ATTRIBUTE(SgdAttrs, nesterov), CT_ATTRIBUTE(SgdAttrs, max_norm),
};
constexpr auto kAdamInputs = step_inputs({"exp_avg", "exp_avg_sq", "max_exp_avg_sq"});
constexpr AttrDef kAdamAttributes[] = {
    CT_ATTRIBUTE(AdamAttrs, lr),           CT_ATTRIBUTE(AdamAttrs, beta1),
    CT_ATTRIBUTE(AdamAttrs, beta2),        CT_ATTRIBUTE(AdamAttrs, eps),
    CT_ATTRIBUTE(AdamAttrs, weight_decay), CT_ATTRIBUTE(AdamAttrs, decoupled),
    CT_ATTRIBUTE(AdamAttrs, amsgrad),      CT_ATTRIBUTE(AdamAttrs, max_norm),
};
constexpr auto kRmspropInputs = step_inputs({"square_avg", "momentum_buffer", "grad_avg"});
constexpr AttrDef kRmspropAttributes[] = {
    CT_ATTRIBUTE(RmspropAttrs, lr),       CT_ATTRIBUTE(RmspropAttrs, alpha),
    CT_ATTRIBUTE(RmspropAttrs, eps),      CT_ATTRIBUTE(RmspropAttrs, weight_decay),
    CT_ATTRIBUTE(RmspropAttrs, momentum), CT_ATTRIBUTE(RmspropAttrs, centered),
    CT_ATTRIBUTE(RmspropAttrs, max_norm),
};
constexpr auto kAdagradInputs = step_inputs({"sum"});
constexpr AttrDef kAdagradAttributes[] = {
    CT_ATTRIBUTE(AdagradAttrs, lr),
    CT_ATTRIBUTE(AdagradAttrs, lr_decay),
    CT_ATTRIBUTE(AdagradAttrs, eps),
    CT_ATTRIBUTE(AdagradAttrs, weight_decay),
    CT_ATTRIBUTE(AdagradAttrs, initial_accumulator_value),
    CT_ATTRIBUTE(AdagradAttrs, max_norm),
};
constexpr auto kLionInputs = step_inputs({"exp_avg"});
constexpr AttrDef kLionAttributes[] = {
    CT_ATTRIBUTE(LionAttrs, lr),           CT_ATTRIBUTE(LionAttrs, beta1),    CT_ATTRIBUTE(LionAttrs, beta2),
    CT_ATTRIBUTE(LionAttrs, weight_decay), CT_ATTRIBUTE(LionAttrs, max_norm),
};

constexpr InputDef kNormInputs[] = {all(constant("grads"))};
// The second one a call may leave out: a counter, 0 between calls, by which a GPU makes the norm in one launch.
constexpr OutputDef kNormOutputs[] = {{.name = "norm", .gradient = false},
                                      {.name = "done", .gradient = false}};
constexpr AttrDef kNormAttributes[] = {CT_ATTRIBUTE(NormAttrs, p)};
constexpr InputDef kClipInputs[] = {constant("norm"), all(written("grads"))};
constexpr AttrDef kClipAttributes[] = {CT_ATTRIBUTE(ClipAttrs, max_norm)};
constexpr InputDef kClampInputs[] = {all(written("grads"))};
constexpr AttrDef kClampAttributes[] = {CT_ATTRIBUTE(ClampAttrs, limit)};
constexpr InputDef kUnscaleInputs[] = {written("found_inf"), optional(constant("inverse_scale")),
                                       all(written("grads"))};
constexpr InputDef kScaleInputs[] = {written("numbers"), constant("found_inf")};
constexpr AttrDef kScaleAttributes[] = {
    CT_ATTRIBUTE(ScaleAttrs, growth),
    CT_ATTRIBUTE(ScaleAttrs, backoff),
    CT_ATTRIBUTE(ScaleAttrs, interval),
};
constexpr InputDef kAverageInputs[] = {optional(written("updates")), written("average"), constant("value"),
                                       again(2)};
constexpr AttrDef kAverageAttributes[] = {CT_ATTRIBUTE(AverageAttrs, decay),
                                          CT_ATTRIBUTE(AverageAttrs, warmup)};

constexpr InputDef kRoundInputs[] = {constant("source"), written("target"), again(2)};

constexpr OpDef in_place(const char* name, const char* formula, std::span<const InputDef> inputs,
                         std::span<const AttrDef> attributes, const KernelTables& kernels) {
  return {
      .name = name,
      .formula = formula,
      .inputs = inputs,
      .outputs = kWritten,
      .attributes = attributes,
      .infer = infer_nothing,
      .kernels = &kernels,
      .fast_f64 = true,
  };
}

}  // namespace

constexpr OpDef k_sgd_step = checked(in_place("sgd_step", "b = momentum b + (1 - dampening) g, p -= lr b",
                                              kSgdInputs, kSgdAttributes, kernel_tables::sgd_step));
constexpr OpDef k_adam_step =
    checked(in_place("adam_step", "p -= lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps)", kAdamInputs,
                     kAdamAttributes, kernel_tables::adam_step));
constexpr OpDef k_rmsprop_step =
    checked(in_place("rmsprop_step", "v = alpha v + (1 - alpha) g^2, p -= lr g / (sqrt(v) + eps)",
                     kRmspropInputs, kRmspropAttributes, kernel_tables::rmsprop_step));
constexpr OpDef k_adagrad_step =
    checked(in_place("adagrad_step", "s += g^2, p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)",
                     kAdagradInputs, kAdagradAttributes, kernel_tables::adagrad_step));
constexpr OpDef k_lion_step =
    checked(in_place("lion_step", "p = (1 - lr weight_decay) p - lr sign(beta1 m + (1 - beta1) g)",
                     kLionInputs, kLionAttributes, kernel_tables::lion_step));

constexpr OpDef k_total_norm = checked({
    .name = "total_norm",
    .formula = "norm = (sum |g|^p)^(1/p) of all elements of all gradients",
    .inputs = kNormInputs,
    .outputs = kNormOutputs,
    .attributes = kNormAttributes,
    .infer = infer_nothing,
    .kernels = &kernel_tables::gradients,
    .fast_f64 = true,
});
constexpr OpDef k_clip_to_norm = checked(in_place("clip_to_norm", "g *= min(1, max_norm / (norm + 1e-6))",
                                                  kClipInputs, kClipAttributes, kernel_tables::gradients));
constexpr OpDef k_clip_values = checked(in_place("clip_values", "g = min(max(g, -limit), limit)",
                                                 kClampInputs, kClampAttributes, kernel_tables::gradients));
constexpr OpDef k_unscale =
    checked(in_place("unscale", "found_inf = 1 if an element is infinite or NaN, g *= inverse_scale",
                     kUnscaleInputs, {}, kernel_tables::loss_scale));
constexpr OpDef k_update_scale =
    checked(in_place("update_scale", "scale *= backoff if found_inf, growth after `interval` steps without",
                     kScaleInputs, kScaleAttributes, kernel_tables::loss_scale));
constexpr OpDef k_average_step =
    checked(in_place("average_step", "average += (1 - decay) (value - average)", kAverageInputs,
                     kAverageAttributes, kernel_tables::average_step));

constexpr OpDef k_round_all = checked(
    in_place("round_all", "target = source, rounded to 16 bits", kRoundInputs, {}, kernel_tables::round_all));

}  // namespace update

CT_COMPOSED(update)

}  // namespace ct
