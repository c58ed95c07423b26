#include <algorithm>

#include <cotangent/core/base/inline_vector.h>
#include <cotangent/core/memory/scratch_internal.h>
#include <cotangent/nn/capture/fusion_internal.h>
#include <cotangent/ops/engine/rows/record.h>

// Groups around a call that goes over rows, whose kernel is not cut. On a GPU the op's own is compiled anew with the formulas as its
// load and its store (core/op/around.h), and a value that only passes between them has a place, which is never touched. On the CPU that
// of a loss calls for the formulas (engine/rows/record.h), chunk by chunk, while these are in the cache.

namespace ct::capture_impl {
namespace {

// Formulas around a call on the CPU.
struct Around final : rows::Passes {
  const map::chain::Program *before = nullptr, *behind = nullptr;
  std::span<const Tensor*const> load_outputs{}, load_inputs{}, store_outputs{}, store_inputs{};
  const Tensor* loaded = nullptr;
  bool passes = false;  // what is loaded has no memory that is touched

  const void* load(std::int64_t begin, std::int64_t end) const override {
    if (before && passes) return load_into_buffer(begin, end);
    if (before) map::chain::run_elements(*before, load_outputs, load_inputs, begin, end);
    return loaded->raw_data();
  }
  void store(std::int64_t begin, std::int64_t end) const override {
    if (behind) map::chain::run_elements(*behind, store_outputs, store_inputs, begin, end);
  }

 private:
  // In a buffer of the thread's, as if the tensor began that much before it.
  const void* load_into_buffer(std::int64_t begin, std::int64_t end) const {
    const std::size_t size = size_of(loaded->dtype()), first = static_cast<std::size_t>(begin) * size;
    const std::size_t bytes = static_cast<std::size_t>(end - begin) * size;
    std::byte* const buffer = scratch<std::byte>(kCallersScratch, static_cast<std::int64_t>(bytes));
    void* const data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(buffer) - first);
    const Tensor here =
        Tensor::from_storage(Storage::wrap(data, first + bytes, Device{}, {}), loaded->shape(),
                             contiguous_strides(loaded->shape()), 0, loaded->dtype());
    InlineVector<const Tensor*, 16> outputs;
    for (const Tensor* const t : load_outputs) outputs.emplace_back(t == loaded ? &here : t);
    map::chain::run_elements(*before, {outputs.begin(), outputs.size()}, load_inputs, begin, end);
    return data;
  }
};

}  // namespace

bool run_whole(const FusedCalls& group, std::span<const Tensor* const> inputs,
               std::span<const Tensor> outputs, detail::Around::Ask ask) {
  const RowCalls& r = *group.rows;
  const RecordedCall& c = *r.call;
  const int loaded = c.backward ? r.grads[0] : r.inputs[0];
  const int stored = r.stored < 0 ? -1 : r.results[static_cast<std::size_t>(r.stored)];
  const auto first = static_cast<int>(inputs.size() + outputs.size());
  std::vector<Tensor> scratch;  // what nobody reads has memory while the kernel runs
  for (const Place& p : r.scratch) {
    const int source = first + static_cast<int>(scratch.size());
    const bool passes = source == loaded || (source == stored && !r.store.steps.empty());
    scratch.push_back(passes ? tensor_at(p) : Tensor::allocate(p.shape, p.dtype, p.device));
  }
  std::vector<const Tensor*> all(inputs.begin(), inputs.end());
  for (const Tensor& t : outputs) all.push_back(&t);
  for (const Tensor& t : scratch) all.push_back(&t);
  const Tensor none;
  const auto list = [&](const RowCalls::Sources& sources) {
    std::vector<const Tensor*> to;
    for (const int k : sources) to.push_back(k < 0 ? &none : all[static_cast<std::size_t>(k)]);
    return to;
  };
  const auto values = [&](const RowCalls::Sources& sources) {
    std::vector<Tensor> to;
    for (const Tensor* const t : list(sources)) to.push_back(*t);
    return to;
  };
  const auto load_outputs = list(r.load_outputs), load_inputs = list(r.load_inputs);
  const auto store_outputs = list(r.store_outputs), store_inputs = list(r.store_inputs);
  std::vector<Tensor> results = values(r.results);
  const std::vector<Tensor> grads = values(r.grads), saved = values(r.inputs), made = values(r.outputs);
  const auto given = list(r.inputs);
  const Forward forward{*c.op, given, results, c.attrs.view()};
  const Backward backward{*c.op, c.attrs.view(), grads, saved, made, c.metas, results, c.flags, c.last};

  if (all[0]->device().is_cpu()) {
    const rows::RowRecord& record = *rows::rows_of(*c.op);
    Around around;
    if (!load_outputs.empty()) around.before = &group.program;
    if (!store_outputs.empty()) around.behind = &r.store;
    around.load_outputs = load_outputs, around.load_inputs = load_inputs;
    around.store_outputs = store_outputs, around.store_inputs = store_inputs;
    around.loaded = loaded < 0 ? nullptr : all[static_cast<std::size_t>(loaded)],
    around.passes = loaded >= first;
    c.backward ? record.backward_within(backward, around) : record.forward_within(forward, around);
    return true;
  }
  map::chain::Wrapping around(r.compiled);
  around.ask = ask;
  if (!group.program.steps.empty()) {
    const auto at =
        static_cast<std::size_t>(std::ranges::find(r.load_outputs, loaded) - r.load_outputs.begin());
    around.load = {&group.program, load_outputs, load_inputs, at, loaded < first};
  }
  if (!r.store.steps.empty()) {
    const auto at =
        static_cast<std::size_t>(std::ranges::find(r.store_inputs, stored) - r.store_inputs.begin());
    around.store = {&r.store, store_outputs, store_inputs, at, r.stores_in_memory};
  }
  const detail::AroundRecord& record = *detail::around_of(*c.op);
  if (around.store.program && !record.stores) return false;
  return c.backward ? record.backward(backward, &around) : record.forward(forward, &around);
}

}  // namespace ct::capture_impl
