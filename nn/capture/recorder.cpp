#include <algorithm>

#include <cotangent/autograd/node.h>
#include <cotangent/core/device/runtime_internal.h>
#include <cotangent/nn/capture/program_internal.h>

namespace ct::capture_impl {

const void* Leaf::gradient_of(const Tensor& leaf) {
  if (!leaf.impl()->autograd) return nullptr;
  const auto& meta = static_cast<const LeafMeta&>(*leaf.impl()->autograd);
  const std::lock_guard lock(meta.lock);
  return meta.grad.defined() ? meta.grad.impl()->storage->data() : nullptr;
}

bool Leaf::has_its_hooks() const {
  const auto& meta = static_cast<const LeafMeta&>(*tensor.impl()->autograd);
  return meta.hooks.is(hooks) && meta.post_hooks.is(post_hooks);
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
  call.for_each_tensor([&](const Tensor& t, auto) { note(t); });
  return false;
}

void Watcher::note(const Tensor& t) {
  if (!t.defined()) return;
  if (device.is_cpu() && t.device().is_cuda()) {
    device = t.device();
    if (on_gpu) on_gpu();
  }
  if (t.requires_grad() && t.is_leaf() && known_.insert(t.impl()).second) leaves.push_back(t);
}

// ---- StepRecorder ---------------------------------------------------------------------------------------

StepRecorder::StepRecorder(Recorded& to, Mailbox& mailbox, const BlockPlan& plan, Watcher& watcher)
    : to_(to), mailbox_(mailbox), plan_(plan), stream_(current_stream(to.device)), watcher_(watcher) {
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
void StepRecorder::guard(const char* what, std::function<bool()> holds, bool returns, bool noted,
                         const void* key) {
  if (key && std::ranges::find(to_.guards, key, &Recorded::Guard::key) != to_.guards.end()) return;
  to_.guards.push_back({what, std::move(holds), returns, noted, key});
}
void* StepRecorder::slot(std::function<std::uint64_t()> value) {
  if (next_slot_ == Mailbox::kSlots)
    refuse("capture", "has more numbers that change from step to step than the 30 there is room for");
  const int slot = next_slot_++;
  mailbox_.set(slot, value());  // the step is run as it is recorded
  mailbox_.send();
  to_.effects.push_back({calls.size(), slot, {}, std::move(value)});
  return mailbox_.at(slot);
}

void StepRecorder::fetch_inputs() {
  const std::size_t count = to_.inputs.size();
  if (to_.device.is_cpu() || count > kMostFetched || next_slot_ + static_cast<int>(count) > Mailbox::kSlots)
    return;
  for (const Tensor& t : to_.inputs)
    if (t.defined() && t.impl()->storage->bytes() != static_cast<std::size_t>(t.nbytes())) return;
  to_.sources.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!to_.inputs[i].defined() || to_.inputs[i].numel() == 0) continue;
    const auto* const at = static_cast<std::uint64_t*>(slot([&to = to_, i] { return to.sources[i]; }));
    to_.fetched.push_back({to_.inputs[i].raw_data(), to_.inputs[i].nbytes(), at});
  }
}

void StepRecorder::refuse(const char* op, const char* why) {
  fail<CaptureError>(op, "in a captured step, behind ", calls.size(), " calls",
                     calls.empty() ? std::string() : ", the last of them " + calls.back().name(), ": ", why);
}

void StepRecorder::beginning(const KernelCall& call) {
  const OpDef& op = call.op;
  if (stream_.device.is_cuda() && !(current_stream(stream_.device) == stream_))
    refuse(op.name, "works on a stream of its own; a captured step runs on one stream");
  const AttrsView attrs = call.attrs();
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
  call.for_each_tensor([&](const Tensor& t, auto) { see(op, t); });
}

void StepRecorder::ended(const KernelCall& call) {
  if (call.forward)
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      if (call.forward->outputs[k].impl() != outputs_[k])
        refuse(call.op.name, "has a result whose size its values tell; a replay has that of the recording");
  for (const Tensor& t : call.results()) see(call.op, t);
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
  if (plan_.made(storage) || !to_.outside.insert(id).second) return;
  // A handle of a gradient would be counted where the tape asks whether it may add to it in place.
  if (start_gradients_.contains(storage.data())) return read_gradients_.insert(storage.data()), void();
  to_.held.push_back(Held::of(t.impl()->storage));
  versions_.push_back(storage.version());
}

void StepRecorder::finish() {
  for (Leaf& leaf : to_.leaves) {
    leaf.read = read_gradients_.contains(leaf.start);
    leaf.end = Leaf::gradient_of(leaf.tensor);
    const LeafMeta& meta = leaf_meta(*leaf.tensor.impl());
    leaf.hooks = meta.hooks.list(), leaf.post_hooks = meta.post_hooks.list();
    if (!leaf.end || leaf.end == leaf.start) continue;
    leaf.made = leaf.tensor.grad();
    leaf.tensor.set_grad({});
    leaf.leave();
  }
  for (std::size_t i = 0; i < versions_.size(); ++i) {
    const Held& held = *to_.held[i];
    if (const std::uint32_t more = held.storage->version() - versions_[i])
      to_.written.push_back({held.storage.get(), more});
    const auto is_its = [&](const Leaf& leaf) { return leaf.storage == held.storage.get(); };
    if (held.storage->use_count() > 1 && std::ranges::none_of(to_.leaves, is_its))
      to_.others.push_back(held.storage.get());
  }
  to_.calls = std::move(calls);
}

// ---- Held -----------------------------------------------------------------------------------------------

namespace {
struct AllHeld {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::weak_ptr<const Held>> by_id;
  static AllHeld& get() {
    static AllHeld& all = *new AllHeld;  // recordings may outlive everything else
    return all;
  }
};
}  // namespace

std::shared_ptr<const Held> Held::of(const Ref<Storage>& storage) {
  AllHeld& all = AllHeld::get();
  const std::lock_guard lock(all.mutex);
  std::weak_ptr<const Held>& known = all.by_id[storage->id()];
  std::shared_ptr<const Held> held = known.lock();
  if (!held) known = held = std::shared_ptr<const Held>(new Held{storage});
  return held;
}

Held::~Held() {
  AllHeld& all = AllHeld::get();
  const std::lock_guard lock(all.mutex);
  const auto at = all.by_id.find(storage->id());
  if (at != all.by_id.end() && at->second.expired()) all.by_id.erase(at);
}

// ---- Recorded -------------------------------------------------------------------------------------------

Recorded::~Recorded() {
  if (executable) runtime::executable_destroy(executable);
  if (pool != 0) release_memory_pool(device, pool);
}

bool Recorded::send_inputs(StepProgram::Inputs from) {
  if (fetched.empty()) return false;
  const auto address = [](const Tensor& t) {
    return t.defined() ? static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(t.raw_data())) : 0;
  };
  bool apart = !from.empty();
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Tensor& given = *from[i];
    if (!given.defined()) continue;
    apart = apart && given.strides() == inputs[i].strides();
    // A result that is an argument again may lie in another's place: one copy comes before the other.
    for (const Tensor& to : inputs)
      apart = apart && !(to.defined() && to.impl()->storage == given.impl()->storage);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) sources[i] = address(apart ? *from[i] : inputs[i]);
  return apart;
}

void Recorded::make_list(const std::optional<Worth>& worth) {
  if (worth) own = merge_calls(calls, passing);
  auto plan = worth ? std::make_shared<FusionPlan>(plan_fusion(calls, passing, *worth)) : nullptr;
  list = std::make_unique<CallList>(calls, std::move(plan));
}

// Most replays find the epoch as it was. The first in which a guard does not hold is asked for all of them.
Recorded::Obstacle Recorded::obstacle() {
  const std::uint64_t epoch = state_epoch();
  if (const Obstacle found = epoch == asked ? Obstacle{} : changed(); found.what) return found;
  asked = epoch;
  bool alone = false;  // without a branch for each: their misses of the cache overlap
  for (const Storage* storage : others) alone |= storage->use_count() == 1;
  if (alone) return {"a tensor that its program has let go of since", false};
  for (const Guard& guard : guards)
    if (!guard.noted && !guard.holds()) return {guard.what, guard.returns};
  return {};
}

Recorded::Obstacle Recorded::changed() const {
  for (const Leaf& leaf : leaves) {
    const TensorImpl& impl = *leaf.tensor.impl();
    if (impl.storage.get() != leaf.storage) return {"another memory of a parameter"};
    if (impl.requires_grad != leaf.requires_grad) return {"another requires_grad of a parameter"};
    if (!leaf.has_its_hooks()) return {"other hooks of a parameter", false};
    if (leaf.start && !leaf.read) continue;  // the step lets go of it
    if (Leaf::gradient_of(leaf.tensor) != leaf.start) return {"other gradients at its start"};
  }
  for (const Guard& guard : guards)
    if (guard.noted && !guard.holds()) return {guard.what, guard.returns};
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

}  // namespace ct::capture_impl
