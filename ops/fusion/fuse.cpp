#include <cotangent/ops/fusion/fuse.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include <cotangent/autograd/autocast_mode.h>
#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/engine/fold/broadcast_grad.h>
#include <cotangent/ops/fusion/known_internal.h>

namespace ct {
namespace {

using fusion::Formula;
using fusion::Gradients;
using fusion::Known;
using fusion::known;

// ---- The op -----------------------------------------------------------------------------------------------

struct FusedAttrs {
  std::int64_t formula;
};

void infer(Infer& i) {
  const Known& k = known(i.attrs<FusedAttrs>().formula);
  const std::vector<DType>& dtypes = k.formula.inputs;
  CT_CHECK(static_cast<std::size_t>(i.input_count()) == dtypes.size(), ValueError, "fused", "got ",
           i.input_count(), " tensors; its formula takes ", dtypes.size());
  for (int n = 0; n < i.input_count(); ++n)
    CT_CHECK(i.in(n).dtype() == dtypes[static_cast<std::size_t>(n)], DTypeError, "fused", "tensor ", n,
             " is ", describe(i.in(n)), "; its formula was made for ",
             name(dtypes[static_cast<std::size_t>(n)]), ": convert it with .to(dtype)");
  std::optional<Shape> common;
  for (std::size_t m = 0; m < k.formula.outputs.size(); ++m) {
    std::optional<Shape> shape;
    for (int n = 0; n < i.input_count(); ++n)
      if (k.reads[m] >> n & 1u)
        shape = shape ? broadcast_shapes("fused", *shape, i.in(n).shape()) : i.in(n).shape();
    CT_CHECK(!common || *common == *shape, ShapeError, "fused", "result 0 has shape ", *common,
             " and result ", m, " has ", *shape, "; results of one formula have one shape: fuse them apart");
    common = shape;
    i.output(*shape, k.formula.dtype(k.formula.outputs[m]));
  }
}

// The formula's ops, one by one, on tensors of any dtype.
std::vector<Tensor> one_by_one(const Formula& f, std::span<const Tensor> inputs) {
  const detail::AutocastModeGuard as_recorded({}, true);
  std::vector<Tensor> values(inputs.begin(), inputs.end());
  for (const fusion::Call& call : f.calls) {
    Tensor& y = values.emplace_back();
    if (!call.op) {
      y = full({}, call.number, {.dtype = call.dtype, .device = inputs[0].device()});
      continue;
    }
    std::vector<const Tensor*> operands;
    for (const int v : call.operands) operands.push_back(&values[static_cast<std::size_t>(v)]);
    Tensor result;
    dispatch(*call.op, operands, call.view(), {&result, 1});
    y = std::move(result);
  }
  std::vector<Tensor> results;
  for (const int out : f.outputs) results.push_back(values[static_cast<std::size_t>(out)]);
  return results;
}

void forward(const Forward& call) {
  const Known& k = known(call.attrs<FusedAttrs>().formula);
  std::array<const Tensor*, kMaxOutputs> outputs{};
  std::transform(call.outputs.begin(), call.outputs.end(), outputs.begin(),
                 [](const Tensor& t) { return &t; });
  if (map::chain::run(k.forward, {outputs.data(), call.outputs.size()}, call.inputs)) return;
  const NoGrad guard;
  std::vector<Tensor> inputs;
  for (const Tensor* const t : call.inputs) inputs.push_back(*t);
  const std::vector<Tensor> results = one_by_one(k.formula, inputs);
  for (std::size_t m = 0; m < results.size(); ++m) call.out(static_cast<int>(m)) = results[m].contiguous();
}

// The gradients by the ops one by one: the tape's own, recorded or not.
void gradients_one_by_one(const Backward& b, bool record) {
  const Known& k = known(b.attrs<FusedAttrs>().formula);
  const EnableGrad guard;
  std::vector<Tensor> inputs, wanted, roots, cotangents;
  for (std::size_t i = 0; i < b.saved_inputs.size(); ++i) {
    // Two arguments may be one tensor: each gets a place on the tape of its own.
    const Tensor& t = b.saved_inputs[i];
    Tensor own = !is_floating(t.dtype()) ? t : record ? t.unsqueeze(0).squeeze(0) : t.detach();
    if (b.needs(static_cast<int>(i)) && is_floating(t.dtype())) {
      if (!own.requires_grad()) own = own.detach().set_requires_grad();
      wanted.push_back(own);
    }
    inputs.push_back(own);
  }
  const std::vector<Tensor> results = one_by_one(k.formula, inputs);
  for (std::size_t m = 0; m < results.size(); ++m)
    if (b.grad(static_cast<int>(m)).defined() && results[m].requires_grad()) {
      roots.push_back(results[m]);
      cotangents.push_back(b.grad(static_cast<int>(m)).to(results[m].dtype()));
    }
  std::vector<Tensor> grads(wanted.size());
  if (!roots.empty()) grads = grad(roots, wanted, cotangents, {.allow_unused = true, .create_graph = record});
  std::size_t next = 0;
  for (std::size_t i = 0; i < b.saved_inputs.size(); ++i) {
    const int at = static_cast<int>(i);
    if (!b.needs(at) || !is_floating(b.saved_inputs[i].dtype())) continue;
    Tensor g = grads[next++];
    b.set_grad_in(at, g.defined() ? g.to(b.in_meta(at).dtype) : detail::filled(b.in_meta(at), 0));
  }
}

void backward(const Backward& b) {
  Known& k = known(b.attrs<FusedAttrs>().formula);
  std::uint32_t needed = 0, given = 0;
  const std::size_t inputs = b.saved_inputs.size();
  for (std::size_t i = 0; i < inputs; ++i)
    if (b.needs(static_cast<int>(i)) && is_floating(b.input_metas[i].dtype)) needed |= 1u << i;
  const Tensor* some = nullptr;
  std::array<const Tensor*, map::chain::kMaxInputs> operands{};
  for (std::size_t i = 0; i < inputs; ++i) operands[i] = &b.saved_inputs[i];
  for (std::size_t m = 0; m < b.grads.size(); ++m) {
    if (!b.grads[m].defined()) continue;
    given |= 1u << m;
    operands[inputs + m] = some = &b.grads[m];
  }
  const Gradients& g = k.gradients(needed, given);
  // Each output of the program goes to the gradient of an input of full shape, or to a tensor that is summed up after the pass.
  std::array<Tensor, map::chain::kMaxOutputs> whole;
  std::array<const Tensor*, map::chain::kMaxOutputs> outputs{};
  for (const bool full_shape : {true, false})
    for (std::size_t i = 0; i < inputs; ++i) {
      if (g.place[i] < 0) continue;
      const auto at = static_cast<std::size_t>(g.place[i]);
      const TensorMeta& meta = b.input_metas[i];
      if (outputs[at] || (meta.shape == some->shape()) != full_shape) continue;
      outputs[at] = full_shape ? &b.grad_in(static_cast<int>(i))
                               : &(whole[at] = Tensor::allocate(some->shape(), meta.dtype, meta.device));
    }
  const std::size_t count = g.program.outputs.size();
  if (count > 0 &&
      !map::chain::run(g.program, {outputs.data(), count}, {operands.data(), inputs + b.grads.size()}))
    return gradients_one_by_one(b, false);
  for (std::size_t i = 0; i < inputs; ++i) {
    const int at = static_cast<int>(i), place = g.place[i];
    if (place == Gradients::kZero) b.set_grad_in(at, detail::filled(b.input_metas[i], 0));
    if (place <= Gradients::kCotangent)
      set_summed_grad(b, at, b.grad(Gradients::kCotangent - place));
    else if (place >= 0 && outputs[static_cast<std::size_t>(place)] != &b.grad_inputs[i])
      set_summed_grad(b, at, *outputs[static_cast<std::size_t>(place)]);
  }
}

void rule(const Backward& b) { gradients_one_by_one(b, true); }

Cost cost(std::span<const TensorMeta>, std::span<const TensorMeta> outputs, AttrsView attrs) {
  const Known& k = known(static_cast<const FusedAttrs*>(attrs.data)->formula);
  return {.flops =
              static_cast<double>(k.forward.steps.size()) * static_cast<double>(numel(outputs[0].shape))};
}

constexpr InputDef kTensors[] = {{.name = "tensors", .needs = "tensors", .any_dtype = true, .rest = true}};
constexpr OutputDef kResults[] = {{.name = "results", .rest = true}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(FusedAttrs, formula)};

constexpr OpDef k_fused = checked({
    .name = "fused",
    .formula = "y = f(x), a formula of the program's own",
    .inputs = kTensors,
    .outputs = kResults,
    .attributes = kAttributes,
    .infer = infer,
    .cpu = {forward, backward},
    .cuda = {forward, backward},
    .rule = rule,
    .undefined_grads = true,
    .dtypes = kAllTypes,
    .cost = cost,
});

}  // namespace

// ---- Functions --------------------------------------------------------------------------------------------

struct detail::FusedState {
  std::size_t inputs, outputs;
  FormulaFn formula;
  std::mutex mutex;
  // The number of the formula for some dtypes, ranks of 0, and mode of Autocast.
  using Key = std::array<std::uint8_t, 25>;
  std::vector<std::pair<Key, std::int64_t>> numbers{};
};

std::shared_ptr<detail::FusedState> detail::make_fused(std::size_t inputs, std::size_t outputs,
                                                       FormulaFn formula) {
  return std::shared_ptr<FusedState>(new FusedState{inputs, outputs, std::move(formula), {}});
}

void detail::call_fused(FusedState& state, std::span<const Tensor* const> inputs, std::span<Tensor> outputs) {
  FusedState::Key key{};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = *inputs[i];
    CT_CHECK(t.defined(), Error, "fused", "tensor ", i,
             " is undefined; create it with ct::zeros, ct::randn, ... first");
    CT_CHECK(is_floating(t.dtype()) || t.dtype() == DType::boolean, DTypeError, "fused", "tensor ", i, " is ",
             describe(t), "; f32, f64, f16, bf16 and bool can be fused: convert it with .to(ct::f32)");
    key[1 + i] = static_cast<std::uint8_t>(2 * static_cast<int>(t.dtype()) + (t.dim() == 0));
  }
  const AutocastMode& mode = autocast_mode();
  if (mode.enabled) key[0] = static_cast<std::uint8_t>(1 + static_cast<int>(mode.dtype));
  std::int64_t number = -1;
  {
    const std::lock_guard lock(state.mutex);
    for (const auto& [known_key, its_number] : state.numbers)
      if (known_key == key) number = its_number;
    if (number < 0) {
      const NoGrad guard;
      std::vector<Tensor> values, results(state.outputs);
      for (const Tensor* const t : inputs)
        values.push_back(zeros(t->dim() == 0 ? Shape{} : Shape{1}, {.dtype = t->dtype(), .device = cpu}));
      number =
          fusion::remember(fusion::read_formula(values, results, [&] { state.formula(values, results); }));
      state.numbers.emplace_back(key, number);
    }
  }
  dispatch(k_fused, inputs, FusedAttrs{number}, outputs);
}

std::string detail::explain_fused(FusedState& state) {
  const std::lock_guard lock(state.mutex);
  if (state.numbers.empty()) return "not called yet\n";
  std::string text;
  const auto bytes_of_value = [](const map::chain::Program& p, int v) {
    return size_of(p.dtypes[static_cast<std::size_t>(v)]);
  };
  const auto add = [&](const char* pass, const map::chain::Program& p) {
    std::size_t steps = 0, apart = 0, together = 0;
    for (std::size_t s = 0; s < p.steps.size(); ++s) {
      if (p.steps[s].operand_count == 0) continue;
      ++steps;
      apart += bytes_of_value(p, p.inputs + static_cast<int>(s));
      for (int o = 0; o < p.steps[s].operand_count; ++o) apart += bytes_of_value(p, p.steps[s].operands[o]);
    }
    for (int v = 0; v < p.inputs; ++v)
      if (p.input_slots[static_cast<std::size_t>(v)] >= 0) together += bytes_of_value(p, v);
    for (const int out : p.outputs) together += bytes_of_value(p, out);
    text += cat(pass, ": ", steps, " steps in 1 pass, ", together, " bytes an element; one by one ", steps,
                " passes, ", apart, " bytes\n", map::chain::describe(p));
  };
  for (const auto& [key, number] : state.numbers) {
    Known& k = known(number);
    text += cat("formula ", number, " of");
    for (const DType t : k.formula.inputs) text += cat(' ', name(t));
    text += '\n';
    add("forward", k.forward);
    const std::lock_guard backward(k.mutex);
    for (const auto& [asked, g] : k.backward)
      if (!g.program.outputs.empty()) add("backward", g.program);
  }
  return text;
}

CT_COMPOSED(fuse)
}  // namespace ct
