#include <algorithm>
#include <utility>

#include <cotangent/core/base/error.h>
#include <cotangent/ops/engine/map/unary.h>
#include <cotangent/ops/fusion/build_internal.h>

namespace ct {
namespace elementwise::binary {
extern const OpDef k_add;
}

namespace fusion {
namespace {

using map::MapRecord;

constexpr std::size_t kMostOperands = map::kMaxInputs;

std::pair<map::Parameters, map::Draw> numbers_of(const MapRecord& record, AttrsView attrs,
                                                 std::int64_t count) {
  std::pair<map::Parameters, map::Draw> of{};
  if (record.read)
    record.read(attrs, count, of.first, of.second);
  else
    of.first = map::parameters_of(attrs);
  return of;
}

}  // namespace

int Builder::input(DType dtype) {
  CT_ASSERT(program_.steps.empty());
  program_.dtypes.push_back(dtype);
  return program_.inputs++;
}

int Builder::number(const Scalar& value, DType dtype) {
  return program_.add({.name = "number", .numbers = {value, 0}}, dtype);
}

int Builder::step(const char* name, const map::FormulaRecord& formula, const map::Parameters& numbers,
                  std::span<const int> operands, DType dtype, const map::Draw& draw) {
  map::chain::Step step{.name = name,
                        .formula = &formula,
                        .numbers = numbers,
                        .draw = draw,
                        .operand_count = static_cast<int>(operands.size()),
                        .rough = rough};
  std::copy(operands.begin(), operands.end(), step.operands);
  return program_.add(step, dtype);
}

int Builder::call(const OpDef& op, AttrsView attrs, std::span<const int> operands, DType result) {
  const auto integer = [](DType t) { return !is_floating(t) && t != DType::boolean; };
  if (integer(result) || operands.empty() ||
      std::any_of(operands.begin(), operands.end(), [&](int v) { return integer(dtype(v)); }))
    return -1;
  if (op.converts) return convert(operands[0], result);
  const MapRecord* const record = map::formulas_of(op);
  map::Compute compute;
  if (record && ((record->y.draws && !draws) || (record->reduces && record->reduces(attrs)))) return -1;
  if (!record || record->y.inputs != operands.size() || record->y.outputs != 1 ||
      !map::chain::computable(record->y, dtype(operands.back()), compute))
    return -1;
  const auto [numbers, draw] = numbers_of(*record, attrs, elements);
  return step(op.name, record->y, numbers, operands, result, draw);
}

int Builder::gradient(const OpDef& op, AttrsView attrs, std::span<const int> operands, int result, int k,
                      int cotangent, DType wanted) {
  if (op.converts) return dtype(cotangent) == wanted ? cotangent : convert(cotangent, wanted);
  const MapRecord* const record = map::formulas_of(op);
  if (!record || k >= record->gradients) return -1;
  const map::GradientRecord& of = record->gradient[k];
  if (of.passes_on) return cotangent;
  if (of.formula.text.empty()) return -1;
  std::array<int, kMostOperands> values{};
  std::size_t count = 0;
  for (const char* at = of.operands; *at; ++at) {
    values[count] = *at == 'g'   ? cotangent
                    : *at == 'y' ? result
                                 : operands[static_cast<std::size_t>(*at - '0')];
    if (values[count++] < 0) return -1;
  }
  map::Compute compute;
  if (!map::chain::computable(of.formula, dtype(values[count - 1]), compute)) return -1;
  const auto [numbers, draw] = numbers_of(*record, attrs, elements);
  return step(op.name, of.formula, of.numbers ? *of.numbers : numbers, {values.data(), count}, wanted, draw);
}

int Builder::sum(int a, int b) {
  const int operands[] = {a, b};
  return step("add", map::formulas_of(elementwise::binary::k_add)->y, {}, operands, dtype(a));
}

map::chain::Program Builder::finish(std::vector<int> outputs, bool round_between) {
  program_.outputs = std::move(outputs);
  program_.round_between = round_between;
  map::chain::finish(program_);
  return std::move(program_);
}

namespace {

// Adds a formula's calls. Value v of the formula becomes v + the return value from the first call on.
int add_calls(Builder& b, const Formula& f, int extra) {
  const int inputs = static_cast<int>(f.inputs.size());
  for (const Call& call : f.calls) {
    if (!call.op) {
      b.number(call.number, call.dtype);
      continue;
    }
    std::array<int, kMostOperands> operands{};
    CT_CHECK(call.operands.size() <= kMostOperands, ValueError, "fuse", "'", call.op->name, "' has ",
             call.operands.size(), " operands; at most ", kMostOperands, " can be fused");
    std::transform(call.operands.begin(), call.operands.end(), operands.begin(),
                   [&](int v) { return v < inputs ? v : v + extra; });
    const DType last = call.operands.empty() ? call.dtype : f.dtype(call.operands.back());
    CT_CHECK(b.call(*call.op, call.view(), {operands.data(), call.operands.size()}, call.dtype) >= 0,
             DTypeError, "fuse", "'", call.op->name, "' of ", name(last),
             " has no formula to be fused; f32, f64, f16 and bf16 have, and bool where it is compared or "
             "selects: convert with .to(ct::f32), or call the op outside of the fused function");
  }
  return extra;
}

}  // namespace

map::chain::Program forward_program(const Formula& f, bool round_between) {
  Builder b;
  for (const DType t : f.inputs) b.input(t);
  add_calls(b, f, 0);
  return b.finish(f.outputs, round_between);
}

Gradients backward_program(const Formula& f, std::uint32_t needed, std::uint32_t given, bool round_between) {
  Builder b;
  const int inputs = static_cast<int>(f.inputs.size()), outputs = static_cast<int>(f.outputs.size());
  for (const DType t : f.inputs) b.input(t);
  for (const int out : f.outputs) b.input(f.dtype(out));
  const int extra = add_calls(b, f, outputs);
  const auto here = [&](int v) { return v < inputs ? v : v + extra; };

  // Values that lead to a gradient that is wanted, and their cotangents.
  std::vector<bool> leads(f.inputs.size() + f.calls.size());
  for (int i = 0; i < inputs; ++i) leads[static_cast<std::size_t>(i)] = needed >> i & 1u;
  for (std::size_t s = 0; s < f.calls.size(); ++s)
    for (const int v : f.calls[s].operands)
      if (is_floating(f.calls[s].dtype) && leads[static_cast<std::size_t>(v)])
        leads[f.inputs.size() + s] = true;
  std::vector<int> cotangent(leads.size(), -1);
  const auto flow = [&](int value, int g) {
    int& sum = cotangent[static_cast<std::size_t>(value)];
    if (g >= 0) sum = sum < 0 ? g : b.sum(sum, g);
  };
  for (int m = 0; m < outputs; ++m)
    if (given >> m & 1u) flow(f.outputs[static_cast<std::size_t>(m)], inputs + m);
  for (std::size_t s = f.calls.size(); s-- > 0;) {
    const Call& call = f.calls[s];
    const int result = inputs + static_cast<int>(s), g = cotangent[static_cast<std::size_t>(result)];
    if (g < 0) continue;
    std::array<int, kMostOperands> operands{};
    std::transform(call.operands.begin(), call.operands.end(), operands.begin(), here);
    for (std::size_t k = 0; k < call.operands.size(); ++k)
      if (const int v = call.operands[k]; leads[static_cast<std::size_t>(v)] && is_floating(f.dtype(v)))
        flow(v, b.gradient(*call.op, call.view(), {operands.data(), call.operands.size()}, here(result),
                           static_cast<int>(k), g, f.dtype(v)));
  }

  Gradients result;
  std::vector<int> written;
  for (int i = 0; i < inputs; ++i) {
    int& place = result.place.emplace_back(Gradients::kNone);
    if (!(needed >> i & 1u)) continue;
    const int g = cotangent[static_cast<std::size_t>(i)];
    if (g < 0) {
      place = Gradients::kZero;
    } else if (g >= inputs && g < inputs + outputs && b.dtype(g) == f.dtype(i)) {
      place = Gradients::kCotangent - (g - inputs);
    } else {
      const auto at = std::find(written.begin(), written.end(), g);
      place = static_cast<int>(at - written.begin());
      if (at == written.end()) written.push_back(g);
    }
  }
  result.program = b.finish(std::move(written), round_between);
  return result;
}

}  // namespace fusion
}  // namespace ct
