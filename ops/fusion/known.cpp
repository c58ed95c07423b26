#include <cotangent/ops/fusion/known_internal.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include <cotangent/core/base/error.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/ops/engine/map/unary.h>

namespace ct::fusion {
namespace {

using map::Parameters;

constexpr std::size_t kMostSteps = 64, kMostFormulas = 4096;

std::atomic<Known*> g_known[kMostFormulas];

}  // namespace

const Gradients& Known::gradients(std::uint32_t needed, std::uint32_t given) {
  const std::lock_guard lock(mutex);
  const auto at = backward.find({needed, given});
  if (at != backward.end()) return at->second;
  return backward.emplace(std::pair(needed, given), backward_program(formula, needed, given)).first->second;
}

Known& known(std::int64_t number) {
  Known* const found = number >= 0 && number < std::int64_t{kMostFormulas}
                           ? g_known[number].load(std::memory_order_acquire)
                           : nullptr;
  CT_CHECK(found, ValueError, "fused", "there is no formula ", number, "; ct::fuse() makes them");
  return *found;
}

namespace {

// All that makes a formula; the bytes of attributes have gaps.
std::string key_of(const Formula& f) {
  std::string key;
  const auto add = [&](const auto& value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (const DType t : f.inputs) add(t);
  for (const Call& call : f.calls) {
    add(call.op);
    add(call.dtype);
    add(call.number.to<double>());
    if (call.op && !call.op->converts)
      for (const Parameters numbers = map::parameters_of(call.view());
           const Scalar& s : {numbers.p, numbers.q}) {
        add(s.to<double>());
        add(s.kind());
      }
    add(call.operands.size());
    for (const int v : call.operands) add(v);
  }
  for (const int out : f.outputs) add(out);
  return key;
}

void check_formula(const Formula& f, const std::vector<std::uint32_t>& reads) {
  const auto steps = static_cast<std::size_t>(
      std::count_if(f.calls.begin(), f.calls.end(), [](const Call& c) { return c.op != nullptr; }));
  CT_CHECK(steps <= kMostSteps, ValueError, "fuse", "the formula has ", steps, " steps; at most ", kMostSteps,
           " are supported: cut it in two fused functions");
  std::uint32_t used = 0;
  for (const std::uint32_t r : reads) used |= r;
  for (std::size_t i = 0; i < f.inputs.size(); ++i)
    CT_CHECK(used >> i & 1u, ValueError, "fuse", "the formula does not use its argument ", i,
             "; leave it out");
}

}  // namespace

std::int64_t remember(Formula f) {
  static std::mutex& mutex = *new std::mutex;
  static auto& numbers = *new std::map<std::string, std::int64_t>;
  std::string key = key_of(f);
  const std::lock_guard lock(mutex);
  if (const auto at = numbers.find(key); at != numbers.end()) return at->second;
  std::vector<std::uint32_t> reads(f.inputs.size() + f.calls.size()), of_outputs;
  for (std::size_t i = 0; i < f.inputs.size(); ++i) reads[i] = 1u << i;
  for (std::size_t s = 0; s < f.calls.size(); ++s)
    for (const int v : f.calls[s].operands) reads[f.inputs.size() + s] |= reads[static_cast<std::size_t>(v)];
  for (const int out : f.outputs) of_outputs.push_back(reads[static_cast<std::size_t>(out)]);
  check_formula(f, of_outputs);
  CT_CHECK(numbers.size() < kMostFormulas, ValueError, "fuse", "there are ", kMostFormulas,
           " fused formulas already; one whose numbers change from call to call is a new one each time: pass "
           "them as "
           "tensors of rank 0");
  auto entry = std::make_unique<Known>();
  entry->forward = forward_program(f);
  entry->formula = std::move(f);
  entry->reads = std::move(of_outputs);
  const auto number = static_cast<std::int64_t>(numbers.size());
  g_known[number].store(entry.release(), std::memory_order_release);
  numbers.emplace(std::move(key), number);
  return number;
}

// ---- Reading a formula ------------------------------------------------------------------------------------

namespace {

// Writes down the calls that a formula makes on tensors of one element.
class Reader final : public Tracer {
 public:
  explicit Reader(std::span<const Tensor> inputs) {
    for (const Tensor& t : inputs) {
      formula_.inputs.push_back(t.dtype());
      keep(t);
    }
  }
  bool begin(const KernelCall& call) override {
    if (!call.forward) return false;
    const Forward& f = *call.forward;
    if (std::none_of(f.inputs.begin(), f.inputs.end(), [&](const Tensor* t) { return find(*t) >= 0; }))
      return false;
    Call made{.op = &call.op};
    for (const Tensor* const t : f.inputs) made.operands.push_back(value_of(call.op, *t));
    const auto* const bytes = static_cast<const std::byte*>(f.attrs_view.data);
    made.attrs.assign(bytes, bytes + f.attrs_view.size);
    made.dtype = f.out().dtype();
    formula_.calls.push_back(std::move(made));
    keep(f.out());
    return false;
  }
  void end(const KernelCall&) override {}

  Formula take(std::span<const Tensor> results) {
    for (const Tensor& t : results) {
      const int v = find(t);
      CT_CHECK(v >= 0, ValueError, "fuse",
               "the formula returns what is not made of its arguments; return an expression of them");
      formula_.outputs.push_back(v);
    }
    return std::move(formula_);
  }

 private:
  void keep(const Tensor& t) {
    values_[t.impl()] = static_cast<int>(formula_.inputs.size() + formula_.calls.size()) - 1;
    kept_.push_back(t);
  }
  int find(const Tensor& t) const {
    const auto at = values_.find(t.impl());
    return at == values_.end() ? -1 : at->second;
  }
  // A tensor that is no value is a number that a function made.
  int value_of(const OpDef& op, const Tensor& t) {
    if (const int v = find(t); v >= 0) return v;
    const bool view = std::any_of(kept_.begin(), kept_.end(), [&](const Tensor& k) {
      return k.impl()->storage.get() == t.impl()->storage.get();
    });
    CT_CHECK(!view && t.numel() == 1, ValueError, "fuse", "'", op.name, "' reads ", describe(t),
             ", which is no value of the formula; fuse functions element by element alone");
    const Scalar number = t.dtype() == DType::boolean ? Scalar(t.item<bool>()) : Scalar(t.item<double>());
    formula_.calls.push_back({.dtype = t.dtype(), .number = number});
    keep(t);
    return static_cast<int>(formula_.inputs.size() + formula_.calls.size()) - 1;
  }

  Formula formula_;
  std::map<const TensorImpl*, int> values_;
  std::vector<Tensor> kept_;
};

}  // namespace

Formula read_formula(std::span<const Tensor> inputs, std::span<Tensor> results, FunctionRef<void()> compute) {
  Reader reader(inputs);
  const TracerScope scope(reader);
  compute();
  return reader.take(results);
}

}  // namespace ct::fusion
