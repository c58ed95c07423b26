#include <algorithm>

#include <cotangent/nn/capture/fusion_internal.h>

// Groups around a call that goes over rows, as they run on a GPU: the op's own kernel, compiled anew with the formulas as its load and
// its store (core/op/around.h). A value that only passes between them has a place, which is never touched.

namespace ct::capture_impl {

bool run_rows_cuda(const FusedCalls& group, std::span<const Tensor* const> inputs,
                   std::span<const Tensor> outputs, detail::Around::Ask ask) {
  const RowCalls& r = *group.rows;
  const RecordedCall& c = *r.call;
  const int loaded = c.backward ? r.grads[0] : r.inputs[0], stored = r.results[0];
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
  map::chain::Wrapping around(r.compiled);
  around.ask = ask;
  const auto wrap = [&](map::chain::Wrapping::Part& part, const map::chain::Program& program, const auto& to,
                        const auto& from, const RowCalls::Sources& of, int passed) {
    if (program.steps.empty()) return;
    const auto at = static_cast<std::size_t>(std::ranges::find(of, passed) - of.begin());
    part = {&program, to, from, at, passed < first};
  };
  wrap(around.load, group.program, load_outputs, load_inputs, r.load_outputs, loaded);
  wrap(around.store, r.store, store_outputs, store_inputs, r.store_inputs, stored);

  const detail::AroundRecord& record = *detail::around_of(*c.op);
  if (around.store.program && !record.stores) return false;
  std::vector<Tensor> results = values(r.results);
  if (!c.backward) return record.forward({*c.op, list(r.inputs), results, c.attrs.view()}, &around);
  const std::vector<Tensor> grads = values(r.grads), saved = values(r.inputs), made = values(r.outputs);
  return record.backward({*c.op, c.attrs.view(), grads, saved, made, c.metas, results, c.flags, c.last},
                         &around);
}

}  // namespace ct::capture_impl
