#include <algorithm>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/inline_vector.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/memory/scratch_internal.h>
#include <cotangent/nn/capture/assembly_internal.h>

// Groups around a call that goes over rows: which calls these are, and how they run where the call is cut, on the CPU (else:
// fusion_whole.cpp). The call's kernel is the op's own, on some rows at a time, so that what its formulas read and write stays in the
// cache. It gives each row the same bits by itself.

namespace ct::capture_impl {
namespace {

constexpr const char* kNotOnGpu = "goes over rows, by a kernel that takes no formulas on a GPU";

bool takes_formulas(const RecordedCall& c) {
  const detail::AroundRecord* const record = detail::around_of(*c.op);
  return record && (c.backward ? record->backward != nullptr : record->forward != nullptr);
}

template <class Values>
bool reads(const Values& list, const Place& p) {
  return std::ranges::any_of(list, [&](const auto& in) { return in.place->storage == p.storage; });
}

}  // namespace

// ---- Putting together ------------------------------------------------------------------------------------

// The trailing axes of a row, 0 where the call does not go by rows.
int Assembly::axes_of(const RecordedCall& c, const rows::RowRecord& record) {
  if (c.backward && !record.backward) return 0;
  return record.axes(c.attrs.view(), c.backward ? c.metas[0].shape : c.inputs[0].shape);
}

// A loss may write the gradient over what it has read.
bool Assembly::is_written_over(const Place& result) const {
  return sums_ && &result == stored_ && result.storage == row_->inputs[0].storage &&
         result.laid_out_as(row_->inputs[0]);
}

bool Assembly::add_row_tensor(const Place& p, bool result, bool shared) {
  if (!p.defined) return true;
  if (p.storage == 0) return fail("has no elements");
  const Value* const before = made(p.storage);
  if (!whole_ && !shared && !(leads(p.shape) && p.strides == contiguous_strides(p.shape)))
    return fail("has a tensor that is not cut by rows");
  if (result && is_written_over(p)) {
    row_results_.push_back({&p, -1, at_, row, shared});
    return true;
  }
  if (whole_ && before && !result && &p != loaded_)
    return fail("has a value of the group in another place than its load");
  if (before && (result || shared || !before->place->laid_out_as(p)))
    return fail("has a value of the group in another way than by rows");
  if (result &&
      std::ranges::any_of(row_inputs_, [&](const Value& in) { return in.place->storage == p.storage; }))
    return fail("changes what it reads in place");
  (result ? row_results_ : row_inputs_).push_back({&p, -1, at_, row, shared});
  return true;
}

bool Assembly::add_rows(const RecordedCall& c, const rows::RowRecord& record) {
  const Shape& shape = c.backward ? c.metas[0].shape : c.inputs[0].shape;
  const int axes = axes_of(c, record);
  sums_ = axes == rows::RowRecord::kWhole;
  if (axes == 0 || axes == shape.size())
    return fail("is no formula of each element, and does not go by rows");
  if (row_) return fail("goes over rows, as another call of the group does");
  const Place& x = c.inputs[0];
  c.for_each_place(
      [&](const Place& p) { on_gpu_ = on_gpu_ || p.device.is_cuda(); });  // others may be undefined
  whole_ = on_gpu_ || sums_;
  if (on_gpu_ && !takes_formulas(c)) return fail(kNotOnGpu);
  if (sums_ && kernel_kind(*c.op, x.device, x.dtype) == KernelKind::plain)
    return fail("goes over rows, by a plain kernel");
  rows_ = {.call = &c,
           .shared = record.shared,
           .lead = shape.size() - (whole_ ? 0 : axes),
           .shape = shape,
           .sums = sums_,
           .stored = c.backward || !sums_ ? 0 : record.stored};
  loaded_ = !c.backward ? &x : sums_ ? nullptr : &c.grads[0];
  stored_ = rows_.stored < 0 ? nullptr : &c.results[static_cast<std::size_t>(rows_.stored)];
  loads_memory_ = sums_ && record.reads_twice;
  if (sums_ && loaded_ && !(loaded_->strides == contiguous_strides(loaded_->shape)))
    return fail("reads a tensor that is not contiguous");
  if (parts_[0].shape && !leads(*parts_[0].shape)) return fail("has other rows");
  if (whole_ && !parts_[0].steps.empty() && !(loaded_ && made(loaded_->storage)))
    return fail("reads nothing of the formulas before it");
  for (const AssemblyStep& step : parts_[0].steps)
    if (const auto* const formulas = map::formulas_of(*step.call->op);
        !whole_ && formulas && formulas->y.draws)
      return fail("stays apart from what draws by the place in the whole tensor");
  for (std::size_t k = 0; k < c.flags.size(); ++k) {
    if (!(c.flags[k] & kGradNeeded)) continue;
    if (c.flags[k] & (kGradAccumulate | kGradWide)) return fail("adds to a gradient");
    if (!whole_ && (record.shared >> k & 1u)) return fail("sums a gradient over rows");
  }
  row_ = &c;
  for (std::size_t k = 0; k < c.inputs.size(); ++k)
    if (!add_row_tensor(c.inputs[k], false, (record.shared >> k & 1u) != 0)) return false;
  for (const auto* list : {&c.outputs, &c.grads})
    for (const Place& p : *list)
      if (!add_row_tensor(p, false, sums_)) return false;
  for (const Place& p : c.results)
    if (!add_row_tensor(p, true, false)) return false;
  return true;
}

// Whether a value goes from the formulas to a kernel that is not cut in registers alone.
bool Assembly::is_passed(const Value& w) const {
  return w.phase == load && w.place->storage == loaded_->storage && !loads_memory_ &&
         !is_read_behind(*w.place);
}

bool Assembly::is_read_behind(const Place& p) const { return reads(parts_[1].inputs, p); }

bool Assembly::fits(const FusedCalls& group) {
  if (!parts_[1].steps.empty() && !(stored_ && is_read_behind(*stored_)))
    return fail("gives nothing to the formulas behind it");
  for (const Value& in : parts_[1].inputs)
    if (sums_ && reads(row_results_, *in.place) && in.place->storage != stored_->storage)
      return fail("gives on what is of all rows");
  if (!on_gpu_) return true;
  std::vector<Tensor> inputs, outputs;
  for (const Place& p : group.inputs) inputs.push_back(tensor_at(p));
  for (const Place& p : group.outputs) outputs.push_back(tensor_at(p));
  std::vector<const Tensor*> given;
  for (const Tensor& t : inputs) given.push_back(&t);
  return run_whole(group, given, outputs, detail::Around::Ask::fits) ? true : fail(kNotOnGpu);
}

bool Assembly::is_read_inside(const Value& written) const {
  if (written.phase == row) return true;  // its kernel writes it
  return written.phase == load && (reads(row_inputs_, *written.place) || is_read_behind(*written.place));
}

void Assembly::set_sources(FusedCalls& group, std::span<const std::vector<const Place*>> kept) {
  const auto source = [&](const Place& p, bool inside) {
    if (!p.defined) return -1;
    int at = inside ? static_cast<int>(group.inputs.size()) : 0;
    const auto find = [&](const std::vector<Place>& list) {
      return std::ranges::any_of(list, [&](const Place& q) {
        const bool found = q.storage == p.storage && q.laid_out_as(p);
        at += !found;
        return found;
      });
    };
    [[maybe_unused]] const bool found =
        inside ? find(group.outputs) || find(rows_.scratch) : find(group.inputs);
    CT_ASSERT(found);
    return at;
  };
  const auto of_values = [&](const std::vector<Value>& values, bool before) {
    RowCalls::Sources to;
    for (const Value& v : values)
      to.push_back(source(*v.place, !before && made(v.place->storage) != nullptr));
    return to;
  };
  const auto of_places = [&](const std::vector<Place>& places) {
    RowCalls::Sources to;
    for (const Place& p : places) to.push_back(source(p, made(p.storage) != nullptr));
    return to;
  };
  const auto of_results = [&](const std::vector<const Place*>& places) {
    RowCalls::Sources to;
    for (const Place* const p : places) to.push_back(source(*p, true));
    return to;
  };
  // The formulas before the rows read what was there before, also where they change it in place.
  rows_.load_inputs = of_values(parts_[0].inputs, true), rows_.load_outputs = of_results(kept[0]);
  rows_.inputs = of_places(row_->inputs), rows_.outputs = of_places(row_->outputs);
  rows_.grads = of_places(row_->grads), rows_.results = of_places(row_->results);
  rows_.store_inputs = of_values(parts_[1].inputs, false), rows_.store_outputs = of_results(kept[1]);
  group.rows = std::move(rows_);
}

// ---- Running ---------------------------------------------------------------------------------------------

namespace {

constexpr std::int64_t kRunElements = 1 << 13, kGrainElements = 1 << 15;

// Rows [first, first + count) along the last leading axis, at a place of those before it.
struct RowRun {
  std::int64_t place[kMaxRank], first, count;
  int lead;

  // A shape of `rank` axes, of which leading ones may be left out or be 1.
  Shape cut(const Shape& shape, int rank, std::int64_t* offset = nullptr, const Strides& strides = {}) const {
    Shape part = shape;
    for (int d = 0; d < lead; ++d) {
      const int k = d - (rank - shape.size());
      if (k < 0 || shape[k] == 1) continue;
      if (offset) *offset += (d + 1 < lead ? place[d] : first) * strides[k];
      part[k] = d + 1 < lead ? 1 : count;
    }
    return part;
  }
  Tensor cut(const Tensor& t, int rank) const {
    std::int64_t offset = t.storage_offset();
    const Shape part = cut(t.shape(), rank, &offset, t.strides());
    return Tensor::from_storage(t.impl()->storage, part, t.strides(), offset, t.dtype());
  }
};

class RowPass {
 public:
  RowPass(const FusedCalls& group, std::span<const Tensor* const> inputs, std::span<const Tensor> outputs)
      : group_(group), rows_(*group.rows) {
    for (const Tensor* const t : inputs) whole_.push_back(t);
    for (const Tensor& t : outputs) whole_.push_back(&t);
    for (int d = 0; d + 1 < rows_.lead; ++d) places_ *= rows_.shape[d];
    length_ = rows_.shape[rows_.lead - 1];
    const std::int64_t each = std::max<std::int64_t>(1, numel(rows_.shape) / (places_ * length_));
    count_ = std::clamp<std::int64_t>(kRunElements / each, 1, length_);
    for (const Place& p : rows_.scratch) {
      scratch_at_.push_back(scratch_bytes_);
      const auto rows = static_cast<std::size_t>(places_ * length_);
      const std::size_t row = static_cast<std::size_t>(numel(p.shape)) / rows * size_of(p.dtype);
      scratch_bytes_ += (row * static_cast<std::size_t>(count_) + 127) / 64 * 64;
    }
    runs_ = chunk_count(length_, count_);
    grain_ = std::max<std::int64_t>(1, kGrainElements / (each * count_));
  }

  void all() const {
    parallel_for(places_ * runs_, grain_, [&](std::int64_t begin, std::int64_t end) {
      const std::size_t bytes = std::max<std::size_t>(scratch_bytes_, 1);
      std::byte* const buffer = scratch<std::byte>(kCallersScratch, static_cast<std::int64_t>(bytes));
      const Ref<Storage> memory = Storage::wrap(buffer, bytes, Device{}, {});
      for (std::int64_t i = begin; i < end; ++i) one(i, memory);
    });
  }

 private:
  void one(std::int64_t i, const Ref<Storage>& scratch) const {
    RowRun run;
    run.lead = rows_.lead;
    run.first = i % runs_ * count_;
    run.count = std::min(count_, length_ - run.first);
    std::int64_t rest = i / runs_;
    for (int d = rows_.lead - 2; d >= 0; --d) run.place[d] = rest % rows_.shape[d], rest /= rows_.shape[d];
    // The tensor of a source; of `rank` 0 its own rank counts.
    const auto tensor = [&](int source, int rank, bool shared = false) -> Tensor {
      if (source < 0) return {};
      const auto k = static_cast<std::size_t>(source);
      if (k < whole_.size()) {
        const Tensor& t = *whole_[k];
        return shared ? t : run.cut(t, rank ? rank : t.dim());
      }
      const Place& p = rows_.scratch[k - whole_.size()];
      const Shape part = run.cut(p.shape, p.shape.size());
      const std::size_t offset = scratch_at_[k - whole_.size()] / size_of(p.dtype);
      return Tensor::from_storage(scratch, part, contiguous_strides(part), static_cast<std::int64_t>(offset),
                                  p.dtype);
    };
    formulas(group_.program, rows_.load_inputs, rows_.load_outputs, tensor);
    call(run, tensor);
    formulas(rows_.store, rows_.store_inputs, rows_.store_outputs, tensor);
  }

  template <class TensorOf>
  static void formulas(const map::chain::Program& program, const RowCalls::Sources& inputs,
                       const RowCalls::Sources& outputs, const TensorOf& tensor) {
    if (outputs.empty()) return;
    InlineVector<Tensor, 16> held;
    for (const int source : outputs) held.emplace_back(tensor(source, 0));
    const int rank = held[0].dim();
    for (const int source : inputs) held.emplace_back(tensor(source, rank));
    InlineVector<const Tensor*, 16> all;
    for (const Tensor& t : held) all.emplace_back(&t);
    const std::span<const Tensor* const> given(all.begin(), all.size());
    map::chain::run(program, given.first(outputs.size()), given.subspan(outputs.size()));
  }

  template <class TensorOf>
  void call(const RowRun& run, const TensorOf& tensor) const {
    const RecordedCall& c = *rows_.call;
    const auto list = [&](const RowCalls::Sources& sources, std::uint32_t shared,
                          InlineVector<Tensor, 4>& to) {
      for (std::size_t k = 0; k < sources.size(); ++k)
        to.emplace_back(tensor(sources[k], 0, (shared >> k & 1u) != 0));
    };
    InlineVector<Tensor, 4> inputs, outputs, grads, results;
    list(rows_.inputs, rows_.shared, inputs), list(rows_.outputs, 0, outputs), list(rows_.grads, 0, grads);
    list(rows_.results, 0, results);
    const std::span<Tensor> to = results;
    if (c.backward) {
      InlineVector<TensorMeta, 4> metas;
      for (std::size_t k = 0; k < c.metas.size(); ++k) {
        TensorMeta& m = metas.emplace_back(c.metas[k]);
        if (!(rows_.shared >> k & 1u)) m.shape = run.cut(m.shape, m.shape.size());
      }
      c.backward_kernel({*c.op, c.attrs.view(), grads, inputs, outputs, metas, to, c.flags, c.last});
    } else {
      InlineVector<const Tensor*, 4> arguments;
      for (const Tensor& t : inputs) arguments.emplace_back(&t);
      c.forward_kernel({*c.op, arguments, to, c.attrs.view()});
    }
    for (std::size_t k = 0; k < results.size(); ++k)
      if (Tensor wanted = tensor(rows_.results[k], 0);
          wanted.defined() && wanted.raw_data() != results[k].raw_data())
        wanted.copy_(results[k]);
  }

  const FusedCalls& group_;
  const RowCalls& rows_;
  std::vector<const Tensor*> whole_;
  std::vector<std::size_t> scratch_at_;
  std::size_t scratch_bytes_ = 0;
  // Runs of `count_` rows along an axis of `length_`, at as many places.
  std::int64_t places_ = 1, length_ = 1, count_ = 1, runs_ = 1, grain_ = 1;
};

}  // namespace

void run_rows(const FusedCalls& group, std::span<const Tensor* const> inputs,
              std::span<const Tensor> outputs) {
  RowPass(group, inputs, outputs).all();
}

}  // namespace ct::capture_impl
