#include <cotangent/ops/engine/map/chain.h>

#include <algorithm>

#include <cotangent/core/base/error.h>

namespace ct::map::chain {
namespace {

using map::Compute;

// Without the steps that no output needs.
void drop_dead(Program& p) {
  std::vector<bool> live(p.dtypes.size());
  for (const int out : p.outputs) live[static_cast<std::size_t>(out)] = true;
  for (std::size_t s = p.steps.size(); s-- > 0;)
    if (live[static_cast<std::size_t>(p.inputs) + s])
      for (int k = 0; k < p.steps[s].operand_count; ++k) live[p.steps[s].operands[k]] = true;
  std::vector<std::uint16_t> moved(p.dtypes.size());
  std::size_t kept = 0;
  for (std::size_t v = 0; v < p.dtypes.size(); ++v) {
    if (v >= static_cast<std::size_t>(p.inputs)) {
      if (!live[v]) continue;
      Step step = p.steps[v - static_cast<std::size_t>(p.inputs)];
      for (int k = 0; k < step.operand_count; ++k) step.operands[k] = moved[step.operands[k]];
      p.steps[kept - static_cast<std::size_t>(p.inputs)] = step;
    }
    p.dtypes[kept] = p.dtypes[v];
    moved[v] = static_cast<std::uint16_t>(kept++);
  }
  p.dtypes.resize(kept);
  p.steps.resize(kept - static_cast<std::size_t>(p.inputs));
  for (int& out : p.outputs) out = moved[static_cast<std::size_t>(out)];
}

// Inputs, numbers and values that are given twice become steps of their own.
void separate_outputs(Program& p) {
  for (std::size_t m = 0; m < p.outputs.size(); ++m) {
    const int v = p.outputs[m];
    const bool given = std::find(p.outputs.begin(), p.outputs.begin() + static_cast<std::ptrdiff_t>(m), v) !=
                       p.outputs.begin() + static_cast<std::ptrdiff_t>(m);
    if (given || v < p.inputs || p.steps[static_cast<std::size_t>(v - p.inputs)].operand_count == 0)
      p.outputs[m] = p.convert(v, p.dtypes[static_cast<std::size_t>(v)]);
  }
}

}  // namespace

bool computable(const map::FormulaRecord& formula, DType last, Compute& compute) {
  compute = last == DType::f64 || !formula.tiles->f32 ? Compute::f64 : Compute::f32;
  return last != DType::f64 && formula.tiles->f32 ? true : formula.tiles->f64 != nullptr;
}

void finish(Program& p) {
  drop_dead(p);
  separate_outputs(p);
  CT_CHECK(p.steps.size() <= std::size_t{kMaxSteps} && p.inputs <= kMaxInputs &&
               p.outputs.size() <= std::size_t{kMaxOutputs},
           ValueError, "chain", "a program of ", p.inputs, " inputs, ", p.steps.size(), " steps and ",
           p.outputs.size(), " outputs; there are at most ", kMaxInputs, ", ", kMaxSteps, " and ",
           kMaxOutputs);
  const std::size_t inputs = static_cast<std::size_t>(p.inputs), steps = p.steps.size();
  p.last_use.assign(p.dtypes.size(), 0);
  for (std::size_t s = 0; s < steps; ++s) p.last_use[inputs + s] = static_cast<std::uint16_t>(s);
  for (std::size_t s = 0; s < steps; ++s)
    for (int k = 0; k < p.steps[s].operand_count; ++k)
      p.last_use[p.steps[s].operands[k]] = static_cast<std::uint16_t>(s);
  p.plans.resize(steps);
  for (std::size_t m = 0; m < p.outputs.size(); ++m)
    p.plans[static_cast<std::size_t>(p.outputs[m]) - inputs].output = static_cast<int>(m);
  p.input_slots.assign(inputs, -1);
  std::vector<int> free;
  p.slots = 0;
  const auto take = [&] {
    if (free.empty()) return p.slots++;
    const int slot = free.back();
    free.pop_back();
    return slot;
  };
  for (std::size_t s = 0; s < steps; ++s) {
    const Step& step = p.steps[s];
    Program::Plan& plan = p.plans[s];
    for (int k = 0; k < step.operand_count; ++k)
      if (const std::size_t v = step.operands[k]; v < inputs && p.input_slots[v] < 0)
        p.input_slots[v] = take();
    // A tile function may write over what it reads; a conversion may not, as sizes differ.
    const auto release = [&] {
      for (int k = 0; k < step.operand_count; ++k) {
        const std::size_t v = step.operands[k];
        const bool again = std::find(step.operands, step.operands + k, v) != step.operands + k;
        if (again || p.last_use[v] != s) continue;
        if (v < inputs || p.steps[v - inputs].operand_count > 0)
          free.push_back(v < inputs ? p.input_slots[v] : p.plans[v - inputs].slot);
      }
    };
    if (step.formula) {
      const DType last = p.dtypes[step.operands[step.operand_count - 1]];
      [[maybe_unused]] const bool found = computable(*step.formula, last, plan.compute);
      CT_ASSERT(found);
      plan.tile = plan.compute == Compute::f64 ? step.formula->tiles->f64 : step.formula->tiles->f32;
      p.wide = p.wide || plan.compute == Compute::f64;
      // A number has the value that it has in f32, also where f32 is computed in f64.
      const Scalar &a = step.numbers.p, &b = step.numbers.q;
      plan.numbers = last == DType::f64 ? step.numbers : map::Parameters{a.to<float>(), b.to<float>()};
      release();
    }
    if (step.operand_count > 0) plan.slot = take();
    if (!step.formula) release();
    if (step.operand_count > 0 && p.last_use[inputs + s] == s)
      free.push_back(plan.slot);  // written, not read
    const DType result = p.dtypes[inputs + s];
    p.wide = p.wide || result == DType::f64;
  }
  for (const DType t : p.dtypes) p.wide = p.wide || t == DType::f64;
}

bool run(const Program& program, std::span<const Tensor* const> outputs,
         std::span<const Tensor* const> inputs) {
  if (outputs[0]->numel() == 0) return true;
  return functions_of(kernel_tables::chain_functions, outputs[0]->device())
      .run(program, outputs, inputs, false);
}

void run_elements(const Program& program, std::span<const Tensor* const> outputs,
                  std::span<const Tensor* const> inputs, std::int64_t begin, std::int64_t end) {
  functions_of(kernel_tables::chain_functions, Device{}).run_elements(program, outputs, inputs, begin, end);
}

bool ready(const Program& program, std::span<const Tensor* const> outputs,
           std::span<const Tensor* const> inputs) {
  return functions_of(kernel_tables::chain_functions, outputs[0]->device())
      .run(program, outputs, inputs, true);
}

bool Wrapping::launch(const char* op, const detail::KernelText& text, unsigned blocks, unsigned threads,
                      unsigned threads_y, std::size_t shared, const void* argument, std::size_t bytes) const {
  const CudaGrid grid{blocks, threads, static_cast<unsigned>(shared), 1, threads_y};
  return functions_of(kernel_tables::chain_functions, ct::cuda())
      .launch(*this, op, text, grid, argument, bytes);
}

std::string describe(const Program& p) {
  const auto value = [&](int v) {
    return detail::cat(v < p.inputs ? 'x' : 'v', v < p.inputs ? v : v - p.inputs);
  };
  std::string text;
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    const Step& step = p.steps[s];
    const int result = p.inputs + static_cast<int>(s);
    text += detail::cat("  ", value(result), " = ", step.operand_count == 0 ? "number" : step.name);
    if (step.operand_count == 0) text += detail::cat(' ', step.numbers.p);
    for (int k = 0; k < step.operand_count; ++k) text += ' ' + value(step.operands[k]);
    text += detail::cat("  ", name(p.dtypes[static_cast<std::size_t>(result)]));
    if (std::find(p.outputs.begin(), p.outputs.end(), result) != p.outputs.end()) text += ", written";
    text += '\n';
  }
  return text;
}

}  // namespace ct::map::chain
