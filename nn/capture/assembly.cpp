#include <cotangent/nn/capture/assembly_internal.h>

#include <algorithm>

#include <cotangent/core/base/error.h>

// Members of a group run together, in the place of the last of them. That changes nothing where no other call between the first and
// the last touches what a member has written, or writes what one has read: by addresses, as memory that the step frees is used
// again. Within the group each element goes from member to member, so an output may lie on an input only element by element.

namespace ct::capture_impl {
namespace {

using map::FormulaRecord;
using map::MapRecord;

constexpr std::size_t kMostSteps = 64;

// Addresses of a tensor's elements; where a stride is negative, of all its storage.
struct Reach {
  std::uintptr_t begin, end;
  explicit Reach(const Place& p) : begin(reinterpret_cast<std::uintptr_t>(p.data)), end(begin + p.bytes) {
    std::int64_t last = p.offset;
    for (int d = 0; d < p.shape.size(); ++d) {
      if (p.strides[d] < 0) return;
      last += (p.shape[d] - 1) * p.strides[d];
    }
    end = begin + static_cast<std::uintptr_t>(last + 1) * size_of(p.dtype);
    begin += static_cast<std::uintptr_t>(p.offset) * size_of(p.dtype);
  }
  bool meets(const Reach& other) const { return begin < other.end && other.begin < end; }
};
bool same_elements(const Place& a, const Place& b) {
  return Reach(a).begin == Reach(b).begin && a.shape == b.shape && a.strides == b.strides &&
         size_of(a.dtype) == size_of(b.dtype);
}
// Whether neighbours along the last axis lie apart, which costs more than it saves.
bool is_scattered(const Place& p) {
  constexpr std::int64_t kMany = 1 << 14;
  int last = p.shape.size() - 1;
  while (last >= 0 && p.shape[last] == 1) --last;
  return last >= 0 && p.strides[last] > 1 && ct::numel(p.shape) >= kMany;
}
bool same_tensor(const Place& a, const Place& b) { return a.storage == b.storage && a.laid_out_as(b); }

bool converts_twice(DType from, DType to) { return from == DType::f64 && is_low_precision(to); }

// Whether all elements are moved by chunks of 16 bytes, as far as the last axis goes: by an op's own kernel where the tensor has the
// shape of its result, and by the group's where it is broadcast.
bool in_chunks(const Place& p, const Shape& shape, bool of_the_op) {
  constexpr std::int64_t kChunk = 8;
  if (ct::numel(p.shape) == 1) return true;
  if (!(p.strides == contiguous_strides(p.shape)) || Reach(p).begin % (kChunk * size_of(p.dtype)) != 0)
    return false;
  if (p.shape == shape) return ct::numel(shape) % kChunk == 0;
  return !of_the_op && shape[shape.size() - 1] % kChunk == 0;
}

}  // namespace

bool meet(const Place& a, const Place& b) {
  return a.storage != 0 && b.storage != 0 && Reach(a).meets(Reach(b));
}

bool Assembly::covers(const Place& result) {
  if (!result.defined) return fail("has no result");
  if (result.storage == 0) return fail("has no elements");
  const Shape*& shape = part().shape;
  if (!shape) shape = &result.shape;
  return *shape == result.shape && (!row_ || leads(*shape)) ? true : fail("has another shape");
}

// Whether the rows are the leading axes.
bool Assembly::leads(const Shape& shape) const {
  for (int d = 0; d < rows_.lead; ++d)
    if (d >= shape.size() || shape[d] != rows_.shape[d]) return false;
  return true;
}

// A value that the formulas before the rows or these have made.
const Assembly::Value* Assembly::made(std::uint64_t storage) const {
  for (const auto* list : {&parts_[0].written, &row_results_})
    for (const Value& v : *list)
      if (v.place->storage == storage) return &v;
  return nullptr;
}

bool Assembly::read(const Place& p, int& value, AssemblyStep& step) {
  if (!p.defined || p.storage == 0) return fail("a tensor is left out or empty");
  if (is_scattered(p)) return fail("reads a transposed tensor");
  step.read.push_back(&p);
  Part& now = part();
  for (const Value& w : now.written) {
    if (w.place->storage != p.storage) continue;
    if (!w.place->laid_out_as(p)) return fail("reads a value of the group in another layout");
    value = w.value;
    return true;
  }
  if (const Value* const w = row_ ? made(p.storage) : nullptr)
    if (!w->place->laid_out_as(p) || p.shape.size() != now.shape->size())
      return fail("reads a value of the rows in another layout");
  for (const Value& in : now.inputs)
    if (same_tensor(*in.place, p)) {
      value = in.value;
      return true;
    }
  value = static_cast<int>(now.dtypes.size());
  now.dtypes.push_back(p.dtype);
  now.inputs.push_back({&p, value, at_, phase()});
  return now.inputs.size() <= std::size_t{map::chain::kMaxInputs} ? true : fail("reads too many tensors");
}

bool Assembly::write(const Place& p, int value) {
  if (row_ && made(p.storage)) return fail("changes a value of the rows in place");
  for (Value& w : part().written) {
    if (w.place->storage != p.storage) continue;
    if (!w.place->laid_out_as(p)) return fail("writes a value of the group in another layout");
    w.value = value;
    return true;
  }
  part().written.push_back({&p, value, at_, phase()});
  return true;
}

bool Assembly::add_step(AssemblyStep step, DType dtype) {
  const MapRecord* const record = map::formulas_of(*step.call->op);
  if (record && record->y.draws && !(step.written->strides == contiguous_strides(step.written->shape)))
    return fail("draws for elements that are not in a row");
  if (record && record->y.draws && row_ && !whole_) return fail("draws by the place in the whole tensor");
  Part& now = part();
  if (now.steps.size() == kMostSteps) return fail("has too many steps");
  step.value = static_cast<int>(now.dtypes.size());
  now.dtypes.push_back(dtype);
  const Place& to = *step.written;
  now.steps.push_back(std::move(step));
  return write(to, now.steps.back().value);
}

bool Assembly::add_forward(const RecordedCall& c) {
  const MapRecord* const record = map::formulas_of(*c.op);
  if (!record && !c.op->converts) return fail("is no formula of each element");
  if (c.results.size() != 1 || !covers(c.results[0]))
    return c.results.size() == 1 ? false : fail("has several results");
  AssemblyStep step{.call = &c, .written = &c.results[0]};
  for (const Place& p : c.inputs)
    if (!read(p, step.operands.emplace_back(), step)) return false;
  if (c.op->converts && converts_twice(c.inputs[0].dtype, c.results[0].dtype))
    return fail("rounds f64 to 16 bits");
  return add_step(std::move(step), c.results[0].dtype);
}

bool Assembly::add_backward(const RecordedCall& c) {
  const MapRecord* const record = map::formulas_of(*c.op);
  if (!record && !c.op->converts) return fail("is no formula of each element");
  if (c.grads.size() != 1) return fail("has another shape");
  const Place& g = c.grads[0];
  const bool reduces = record && record->reduces && record->reduces(c.attrs.view());
  bool any = false;
  for (std::size_t k = 0; k < c.flags.size(); ++k) {
    if (!(c.flags[k] & kGradNeeded) || !c.results[k].defined) continue;
    any = true;
    if (!covers(reduces ? c.results[k] : g)) return fail("has another shape");
    if (c.flags[k] & (kGradAccumulate | kGradWide)) return fail("adds to a gradient");
    if (!reduces && !(c.metas[k].shape == g.shape)) return fail("sums the gradient of a broadcast operand");
    const Place& dx = c.results[k];
    AssemblyStep step{.call = &c, .written = &dx, .operand = static_cast<int>(k)};
    step.operands.assign(c.inputs.size(), -1);
    if (!read(g, step.cotangent, step)) return false;
    if (same_tensor(dx, g)) continue;  // passed on
    if (c.op->converts) {
      if (converts_twice(g.dtype, dx.dtype)) return fail("rounds f64 to 16 bits");
    } else {
      if (static_cast<int>(k) >= record->gradients || record->gradient[k].formula.text.empty())
        return fail("has a gradient that is no formula of each element");
      step.read.clear();
      for (const char* at = record->gradient[k].operands; *at; ++at) {
        const std::size_t i = *at == 'g' || *at == 'y' ? 0 : static_cast<std::size_t>(*at - '0');
        const Place& p = *at == 'g' ? g : *at == 'y' ? c.outputs[0] : c.inputs[i];
        if (!read(p, *at == 'g' ? step.cotangent : *at == 'y' ? step.y : step.operands[i], step))
          return false;
      }
    }
    if (!add_step(std::move(step), dx.dtype)) return false;
  }
  return any ? true : fail("has no gradient");
}

// Bits of the op that runs alone, on a GPU. Where its kernel moves chunks, 16 bits take faster functions.
bool Assembly::set_lanes(fusion::Builder& b, const AssemblyStep& step, const Part& of) {
  b.rough = false;
  const Place& y = *step.written;
  if (y.device.is_cpu() || step.call->op->converts) return true;
  const MapRecord& record = *map::formulas_of(*step.call->op);
  const FormulaRecord& formula = step.operand < 0 ? record.y : record.gradient[step.operand].formula;
  const DType dtype = step.read.back()->dtype;
  const map::chain::Steady steady = map::chain::steadiness(formula.text, dtype);
  if (steady == map::chain::Steady::everywhere) return true;
  if (steady == map::chain::Steady::nowhere)
    return fail("is a formula whose last bits depend on the kernel that a GPU's compiler puts it in");
  const bool vectors = formula.tiles->f32 && !formula.tiles->predicate;
  const Shape& shape = *of.shape;
  bool whole = in_chunks(y, shape, true);
  for (const Place* const p : step.read) whole = whole && in_chunks(*p, shape, vectors);
  for (const Value& in : of.inputs) whole = whole && in_chunks(*in.place, shape, false);
  if (!whole)
    return fail(
        "is a formula whose last bits are known in chunks of 16 bytes alone, which this layout has not");
  b.rough = vectors && is_low_precision(dtype);
  in_chunks_ = true;
  return true;
}

// The program that gives the values of `kept`, in their order.
bool Assembly::build(const Part& part, const std::vector<const Place*>& kept, map::chain::Program& program) {
  if (part.steps.empty()) return true;
  if (kept.empty()) return fail("writes what nothing reads");
  if (kept.size() > std::size_t{map::chain::kMaxOutputs}) return fail("writes too many tensors");
  fusion::Builder b;
  b.draws = true, b.elements = ct::numel(*part.shape), in_chunks_ = false;
  std::vector<int> values(part.dtypes.size(), -1), results;
  for (const Value& in : part.inputs) values[static_cast<std::size_t>(in.value)] = b.input(in.place->dtype);
  const auto built = [&](int v) { return v < 0 ? -1 : values[static_cast<std::size_t>(v)]; };
  for (const AssemblyStep& step : part.steps) {
    std::vector<int> operands;
    for (const int v : step.operands) operands.push_back(built(v));
    if (!set_lanes(b, step, part)) return false;
    const RecordedCall& c = *step.call;
    const int made = step.operand < 0 ? b.call(*c.op, c.attrs.view(), operands, step.written->dtype)
                                      : b.gradient(*c.op, c.attrs.view(), operands, built(step.y),
                                                   step.operand, built(step.cotangent), step.written->dtype);
    if (made < 0) return fail("has no formula of its dtypes");
    values[static_cast<std::size_t>(step.value)] = made;
  }
  for (const Place* const p : kept)
    results.push_back(built(std::ranges::find(part.written, p, &Value::place)->value));
  program = b.finish(std::move(results), true);
  program.in_chunks = in_chunks_;
  return true;
}

// Whether a value has to be in memory: somebody else sees it.
bool Assembly::is_needed(const Value& written) const {
  if (!passing_.contains(written.place->storage)) return true;
  return std::ranges::any_of(accesses_.at(written.place->storage), [&](std::size_t i) {
    return i > written.first && !std::ranges::binary_search(members_, i);
  });
}

bool Assembly::stays_in_order(const std::vector<Value>& inputs, const std::vector<Value>& outputs) {
  std::size_t next = 0;
  for (std::size_t i = members_.front(); i < members_.back(); ++i) {
    if (members_[next] == i) {
      ++next;
      continue;
    }
    const RecordedCall& c = calls_[i];
    if (c.runs != RecordedCall::Runs::each) continue;
    bool meets = false;
    c.for_each_place([&](const Place& p) {
      for (const Value& out : outputs) meets = meets || (out.first < i && meet(p, *out.place));
    });
    for (const Place& p : c.results)
      for (const Value& in : inputs) meets = meets || (in.first < i && meet(p, *in.place));
    if (meets) {
      why_ = cat("call ", i, ", ", c.name(), ", between them uses the memory");
      return false;
    }
  }
  return true;
}

// An output may lie on an input where each element, or run of rows, is read before it is written.
bool Assembly::do_not_meet(const std::vector<Value>& inputs, const std::vector<Value>& outputs) {
  for (std::size_t m = 0; m < outputs.size(); ++m) {
    const Value& out = outputs[m];
    for (std::size_t n = 0; n < m; ++n)
      if (meet(*out.place, *outputs[n].place)) return fail("writes to one memory twice");
    for (const Value& in : inputs) {
      if (!meet(*out.place, *in.place)) continue;
      // On a GPU threads of a row read its first element when another one may have written it.
      const bool read_before = in.phase < out.phase ||
                               (in.phase == out.phase && in.phase != row && !(on_gpu_ && in.phase == load)) ||
                               is_written_over(*out.place);
      if (in.shared || !read_before || !same_elements(*out.place, *in.place))
        return fail("writes over elements that the group has still to read");
    }
  }
  return true;
}

bool Assembly::finish(FusedCalls& group) {
  std::vector<Value> inputs = parts_[0].inputs, outputs;
  for (const Value& in : row_inputs_)
    if (!made(in.place->storage)) inputs.push_back(in);
  for (const Value& in : parts_[1].inputs)
    if (!made(in.place->storage)) inputs.push_back(in);
  std::vector<const Place*> kept[2];  // of the parts
  const auto keep = [&](const Value& w, std::vector<const Place*>* of_part) {
    bool needed = is_needed(w);
    if (w.place == stored_) rows_.stores_in_memory = needed;
    if (!needed && !is_read_inside(w)) return;
    needed = needed || (whole_ && (w.phase == row ? !on_gpu_ : !is_passed(w)));
    if (of_part) of_part->push_back(w.place);
    if (w.phase == row && made(w.place->storage) != &w) return;  // written over what was loaded
    needed ? outputs.push_back(w) : rows_.scratch.push_back(*w.place);
  };
  for (const Value& w : parts_[0].written) keep(w, &kept[0]);
  for (const Value& w : row_results_) keep(w, nullptr);
  for (const Value& w : parts_[1].written) keep(w, &kept[1]);
  if (outputs.empty()) return fail("writes what nothing reads");
  if (!do_not_meet(inputs, outputs) || !stays_in_order(inputs, outputs)) return false;
  if (!build(parts_[0], kept[0], group.program) || !build(parts_[1], kept[1], rows_.store)) return false;
  group.calls = members_;
  for (const Value& in : inputs)
    if (std::ranges::none_of(group.inputs, [&](const Place& p) { return same_tensor(p, *in.place); }))
      group.inputs.push_back(*in.place);
  for (const Value& out : outputs) group.outputs.push_back(*out.place);
  if (row_) set_sources(group, kept);
  return !whole_ || fits(group);
}

}  // namespace ct::capture_impl
