#include <algorithm>
#include <map>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/device/runtime_internal.h>
#include <cotangent/core/memory/pool_blocks_internal.h>
#include <cotangent/nn/capture/program_internal.h>

namespace ct::detail {
namespace {

std::uint64_t fresh_number() { return Storage::wrap(nullptr, 0, cpu, {})->id(); }

template <class F>
void each_tensor(const KernelCall& call, F&& f) {
  if (call.forward) {
    for (const Tensor* t : call.forward->inputs) f(*t);
    for (const Tensor& t : call.forward->outputs) f(t);
    return;
  }
  for (const auto& list : {call.backward->saved_inputs, call.backward->saved_outputs, call.backward->grads})
    for (const Tensor& t : list) f(t);
  for (const Tensor& t : call.backward->grad_inputs) f(t);
}

}  // namespace

const void* Leaf::gradient_of(const Tensor& leaf) {
  const Tensor grad = leaf.grad();
  return grad.defined() ? grad.impl()->storage->data() : nullptr;
}

void Leaf::leave() {
  if (end == start && start) return;  // changed in place, or left alone
  if (gradient_of(tensor) == end) return;
  if (!end) return tensor.set_grad({});
  const Ref<Storage>& memory = made.impl()->storage;
  Ref<Storage> own = Storage::wrap(memory->data(), memory->bytes(), memory->device(), [memory] {});
  tensor.set_grad(Tensor::from_storage(std::move(own), made.shape(), made.strides(), made.storage_offset(),
                                       made.dtype()));
}

// ---- Watcher --------------------------------------------------------------------------------------------

bool Watcher::begin(const KernelCall& call) {
  each_tensor(call, [&](const Tensor& t) { note(t); });
  return false;
}

void Watcher::note(const Tensor& t) {
  if (!t.defined()) return;
  if (device.is_cpu()) device = t.device();
  if (t.requires_grad() && t.is_leaf() && known_.insert(t.impl()).second) leaves.push_back(t);
}

// ---- StepRecorder ---------------------------------------------------------------------------------------

StepRecorder::StepRecorder(Recorded& to, Mailbox& mailbox, const Stream& stream, std::uint64_t home,
                           Watcher& watcher)
    : to_(to), mailbox_(mailbox), stream_(stream), home_(home), first_(fresh_number()), watcher_(watcher) {
  for (const Tensor& leaf : watcher.leaves) add_leaf(leaf);
}

void StepRecorder::add_leaf(const Tensor& leaf) {
  const void* const start = Leaf::gradient_of(leaf);
  if (start) start_gradients_.insert(start);
  to_.leaves.push_back({leaf, leaf.impl()->storage.get(), leaf.requires_grad(), start});
}

// Leaves of which calls see views alone are met here.
void StepRecorder::gradient(const Tensor& leaf) {
  watcher_.note(leaf);
  while (to_.leaves.size() < watcher_.leaves.size()) add_leaf(watcher_.leaves[to_.leaves.size()]);
}

void StepRecorder::effect(std::function<void()> effect) {
  to_.effects.push_back({calls.size(), -1, std::move(effect), {}});
}
void StepRecorder::guard(const char* what, std::function<bool()> holds, bool returns) {
  to_.guards.push_back({what, std::move(holds), returns});
}
void* StepRecorder::slot(std::function<std::uint64_t()> value) {
  if (next_slot_ == Mailbox::kSlots)
    refuse("capture", "has more numbers that change from step to step than the 30 there is room for");
  const int slot = next_slot_++;
  const std::uint64_t now = value();
  if (stream_.device.is_cpu()) mailbox_.send(slot, now);  // the step is run as it is recorded
  to_.effects.push_back({calls.size(), slot, {}, std::move(value), now});
  return mailbox_.at(slot);
}

void StepRecorder::refuse(const char* op, const char* why) {
  fail<CaptureError>(op, "in a captured step, behind ", calls.size(), " calls",
                     calls.empty() ? std::string() : ", the last of them " + calls.back().name(), ": ", why);
}

void StepRecorder::beginning(const KernelCall& call) {
  const OpDef& op = call.op;
  if (stream_.device.is_cuda() && !(current_stream(stream_.device) == stream_))
    refuse(op.name, "works on a stream of its own; a captured step runs on one stream");
  const AttrsView attrs = call.forward ? call.forward->attrs_view : call.backward->attrs_view;
  for (const AttrDef& field : op.attributes) {
    if (field.type != AttrType::draw || std::size_t{field.offset} + field.size > attrs.size) continue;
    GeneratorState draw;
    std::memcpy(&draw, static_cast<const std::byte*>(attrs.data) + field.offset, sizeof draw);
    if (!draw.live && !(draw == GeneratorState{}))
      refuse(
          op.name,
          "draws from a generator of its own or a seed that the step sets, which a replay would repeat; use "
          "default_generator(), seeded before");
  }
  outputs_.clear();
  if (call.forward) {  // in a backward call gradients may be locked
    for (const Tensor* t : call.forward->inputs)
      if (t->defined() && t->requires_grad()) gradient(*t);
    for (const Tensor& t : call.forward->outputs) outputs_.push_back(t.impl());
  }
  each_tensor(call, [&](const Tensor& t) { see(op, t); });
}

void StepRecorder::ended(const KernelCall& call) {
  if (call.forward)
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      if (call.forward->outputs[k].impl() != outputs_[k])
        refuse(call.op.name, "has a result whose size its values tell; a replay has that of the recording");
  for (const Tensor& t : call.forward ? call.forward->outputs : call.backward->grad_inputs) see(call.op, t);
}

void StepRecorder::see(const OpDef& op, const Tensor& t) {
  if (!t.defined()) return;
  if (!(t.device() == stream_.device)) {
    const std::string why = cat("uses ", describe(t), " on ", t.device(), ", the step works on ",
                                stream_.device, "; move it before the step, and give it as an argument");
    refuse(op.name, why.c_str());
  }
  const Storage& storage = *t.impl()->storage;
  if (storage.bytes() == 0) return;
  if (mailbox_.holds(storage.data())) return;
  const std::uint64_t id = storage.id();
  const bool made_here = reinterpret_cast<std::uintptr_t>(storage.stream().native) == home_ && id > first_;
  if (made_here && known_.insert(id).second) made_.emplace_back(t);
  if (made_here || !to_.outside.insert(id).second) return;
  // A handle of a gradient would be counted where the tape asks whether it may add to it in place.
  if (start_gradients_.contains(storage.data())) return read_gradients_.insert(storage.data()), void();
  to_.held.push_back(t.impl()->storage);
  versions_.emplace(id, storage.version());
}

void StepRecorder::finish() {
  for (Leaf& leaf : to_.leaves) {
    leaf.read = read_gradients_.contains(leaf.start);
    leaf.end = Leaf::gradient_of(leaf.tensor);
    if (!leaf.end || leaf.end == leaf.start) continue;
    leaf.made = leaf.tensor.grad();
    leaf.tensor.set_grad({});
    leaf.leave();
  }
  for (const Ref<Storage>& storage : to_.held)
    if (const std::uint32_t more = storage->version() - versions_.at(storage->id()))
      to_.written.push_back({storage, more});
  to_.calls = std::move(calls);
  find_passing();
}

// A storage is gone where its block is not handed out, or was handed out again.
void StepRecorder::find_passing() {
  std::map<const char*, const char*> later;  // ranges, apart from each other: begin and end
  for (auto at = made_.rbegin(); at != made_.rend(); ++at) {
    const Place& p = *at;
    const char *const begin = static_cast<const char*>(p.data), *const end = begin + p.bytes;
    auto next = later.lower_bound(begin);
    if (next != later.begin() && std::prev(next)->second > begin) --next;
    const bool again = next != later.end() && next->first < end;
    if (again || !is_taken(stream_.device, to_.pool, p.data)) to_.passing.insert(p.storage);
    const char *first = begin, *last = end;
    while (next != later.end() && next->first < end) {
      first = std::min(first, next->first), last = std::max(last, next->second);
      next = later.erase(next);
    }
    later.emplace(first, last);
  }
}

// ---- Recorded -------------------------------------------------------------------------------------------

Recorded::~Recorded() {
  if (executable) runtime::executable_destroy(executable);
  if (graph) runtime::graph_destroy(graph);
  for (const MemoryPoolId id : {pool, scratch})
    if (id != 0) release_memory_pool(device, id);
}

// Kernels of the list that allocate find memory that no value of the step has: its own pool thinks that memory free which values
// between use.
void Recorded::make_list(const std::optional<Worth>& worth, const Stream& stream) {
  auto plan = worth ? std::make_shared<FusionPlan>(plan_fusion(calls, passing, *worth)) : nullptr;
  list = std::make_unique<CallList>(device, calls, std::move(plan));
  if (!graph || !worth || !list->plan()->any()) return;
  const DeviceGuard guard(device);
  void* again = nullptr;
  {
    const NoGrad off;
    const MemoryPoolGuard memory(device, scratch = make_memory_pool(device));
    const StreamGuard on(stream);
    runtime::capture_begin(stream.native);
    struct End {
      void *stream, *&graph;
      ~End() { graph = runtime::capture_end(stream); }
    } end{stream.native, again};
    for (std::size_t i = 0; i < list->size(); ++i) list->run(i);
  }
  CT_CHECK(again, CaptureError, "capture",
           "a fused step can't be made a graph; CaptureOptions::fuse = false does without");
  std::swap(graph, again);
  runtime::graph_destroy(again);
}

Recorded::Guard Recorded::obstacle() const {
  for (const Leaf& leaf : leaves) {
    const TensorImpl& impl = *leaf.tensor.impl();
    if (impl.storage.get() != leaf.storage) return {"another memory of a parameter", {}};
    if (impl.requires_grad != leaf.requires_grad) return {"another requires_grad of a parameter", {}};
    if (leaf.start && !leaf.read) continue;  // the step lets go of it
    if (Leaf::gradient_of(leaf.tensor) != leaf.start) return {"other gradients at its start", {}};
  }
  for (const Guard& guard : guards)
    if (!guard.holds()) return {guard.what, {}, guard.returns};
  return {};
}

std::string difference(const Recorded& a, const Recorded& b) {
  const std::size_t n = std::min(a.calls.size(), b.calls.size());
  std::unordered_map<std::uint64_t, std::uint64_t> pairs;
  for (std::size_t i = 0; i < n; ++i) {
    const RecordedCall &x = a.calls[i], &y = b.calls[i];
    const auto at = [&] { return cat("call ", i, ", ", y.name(), ", "); };
    if (x.op != y.op || x.backward != y.backward) return cat(at(), "was ", x.name(), " in the step before");
    const char* field = nullptr;
    if (!same_attributes(*x.op, x.attrs, y.attrs, &field))
      return cat(
          at(), "has another '", field,
          "' than in the step before; a number that changes belongs in a tensor, which is changed in place");
    if (x.flags != y.flags || x.last != y.last)
      return cat(at(), "is asked for other gradients than in the step before");
    std::vector<const Place*> before;
    x.for_each_place([&](const Place& p) { before.push_back(&p); });
    std::size_t k = 0;
    std::string found;
    y.for_each_place([&](const Place& q) {
      if (k >= before.size() || !found.empty()) return;
      const Place& p = *before[k++];
      if (!p.laid_out_as(q)) {
        found = cat(at(), "has a tensor of shape ", q.shape, " where the step before had ", p.shape);
        return;
      }
      if (p.storage == 0 || q.storage == 0) return;
      const bool was = a.outside.contains(p.storage), is = b.outside.contains(q.storage);
      const bool same = was || is ? p.data == q.data && was == is
                                  : pairs.try_emplace(p.storage, q.storage).first->second == q.storage;
      if (!same)
        found = cat(at(), "uses a tensor of shape ", q.shape,
                    " that lies elsewhere than in the step before; what goes from one step to the next is an "
                    "argument, or "
                    "is changed in place (copy_), not by assignment");
    });
    if (!found.empty()) return found;
    if (k != before.size()) return cat(at(), "has another number of tensors than in the step before");
  }
  if (a.calls.size() != b.calls.size())
    return cat("it made ", b.calls.size(), " calls of ops, the step before ", a.calls.size());
  if (a.effects.size() != b.effects.size()) return "its effects on the host differ from the step before";
  return {};
}

}  // namespace ct::detail
