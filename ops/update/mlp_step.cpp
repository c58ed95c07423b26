#include <cotangent/ops/update/mlp_step.h>

#include <array>

#include <cotangent/core/op/execute.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/update/mlp_step_internal.h>

namespace ct {
CT_KERNEL_TABLES(mlp_step)

namespace update::mlp {
namespace {

constexpr InputDef read(const char* name) { return {.name = name, .gradient = false, .any_dtype = true}; }
constexpr InputDef written(const char* name) {
  InputDef in = read(name);
  in.written = true;
  return in;
}
constexpr InputDef more() {
  InputDef in = read("more");
  in.rest = true, in.turn = 3;
  return in;
}
constexpr InputDef kInputs[] = {
    read("x"),        read("labels"),     written("steps"),      written("losses"),
    written("param"), written("exp_avg"), written("exp_avg_sq"), more()};
constexpr OutputDef kOutputs[] = {{.name = "written", .gradient = false, .rest = true}};
constexpr AttrDef kAttributes[] = {
    CT_ATTRIBUTE(AdamAttrs, lr),  CT_ATTRIBUTE(AdamAttrs, beta1),        CT_ATTRIBUTE(AdamAttrs, beta2),
    CT_ATTRIBUTE(AdamAttrs, eps), CT_ATTRIBUTE(AdamAttrs, weight_decay), CT_ATTRIBUTE(AdamAttrs, decoupled),
};
constexpr OpDef k_mlp_step = checked({
    .name = "mlp_step",
    .formula = "steps of Adam on cross_entropy of a perceptron of three layers",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = [](Infer&) {},
    .kernels = &kernel_tables::mlp_step,
});

void check(const Tensor& t, const char* name, std::initializer_list<std::int64_t> shape, DType dtype,
           Device device) {
  constexpr const char* op = "mlp_step_";
  CT_CHECK(t.defined() && std::ranges::equal(t.shape(), shape), ShapeError, op, name, " is ", describe(t),
           "; it must be ", to_string(Shape(shape)));
  CT_CHECK(t.dtype() == dtype, DTypeError, op, name, " is ", describe(t), "; it must be ", dtype);
  CT_CHECK(t.device() == device, DeviceError, op, name, " is ", describe(t), "; x is on ", to_string(device));
  CT_CHECK(t.is_contiguous(), ShapeError, op, name, " is not contiguous; it must be: call contiguous()");
}

}  // namespace
}  // namespace update::mlp

namespace update {

Tensor mlp_step_(TensorList params, TensorList exp_avgs, TensorList exp_avg_sqs, const Tensor& steps,
                 const Tensor& x, const Tensor& labels, const AdamAttrs& adam) {
  using namespace mlp;
  constexpr const char* op = "mlp_step_";
  for (const TensorList* list : {&params, &exp_avgs, &exp_avg_sqs})
    CT_CHECK(list->size() == kParameters, ShapeError, op, "a list has ", list->size(),
             " tensors; params, exp_avgs and exp_avg_sqs have 6 each, weight and bias of three layers");
  CT_CHECK(x.defined() && x.dim() == 3 && x.numel() > 0, ShapeError, op, "x is ", describe(x),
           "; it must be [k, rows, in], none of them 0");
  const auto outs = [&](std::size_t i) {
    CT_CHECK(params[i].defined() && params[i].dim() == 2 && params[i].numel() > 0, ShapeError, op,
             "parameter ", i, " is ", describe(params[i]), "; it must be [out, in], neither of them 0");
    return params[i].size(0);
  };
  const std::int64_t k = x.size(0), rows = x.size(1), sizes[] = {x.size(2), outs(0), outs(2), outs(4)};
  check(x, "x", {k, rows, sizes[0]}, f32, x.device());
  check(labels, "labels", {k, rows}, i64, x.device());
  check(steps, "steps", {1}, i64, x.device());
  CT_CHECK(!adam.amsgrad && adam.max_norm == 0, ValueError, op,
           "amsgrad or a largest norm was asked for, which it lacks; train by layers and optim::Adam");
  const Tensor losses = Tensor::allocate({k}, f32, x.device());
  std::array<const Tensor*, Call::kFirst + 3 * kParameters> inputs{&x, &labels, &steps, &losses};
  for (std::size_t i = 0; i < kParameters; ++i)
    for (std::size_t which = 0; const TensorList* list : {&params, &exp_avgs, &exp_avg_sqs}) {
      const Tensor& t = *(inputs[Call::kFirst + 3 * i + which++] = &(*list)[i]);
      const char* const name = list == &params ? "a parameter" : "a moment";
      if (i % 2 == 0)
        check(t, name, {sizes[i / 2 + 1], sizes[i / 2]}, f32, x.device());
      else
        check(t, name, {sizes[i / 2 + 1]}, f32, x.device());
    }
  ct::detail::write(k_mlp_step, inputs, adam);
  for (std::size_t i = 2; i < inputs.size(); ++i) inputs[i]->impl()->storage->bump_version();
  return losses;
}

}  // namespace update

CT_COMPOSED(mlp_step)

}  // namespace ct
