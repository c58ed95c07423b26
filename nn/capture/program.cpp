#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include <cotangent/autograd/autocast_mode.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/per_thread.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/base/step_draws_internal.h>
#include <cotangent/core/device/runtime_internal.h>
#include <cotangent/nn/capture/capture.h>
#include <cotangent/nn/capture/program_internal.h>
#include <cotangent/ops/creation/creation.h>

namespace ct::detail {
namespace {

constexpr const char* kOp = "capture";

// Everything that a recording holds for and the call shows; the rest is asked by Recorded::obstacle().
const std::string& key_of(const std::vector<Tensor>& inputs, const std::string& values) {
  struct Buffer {
    std::string text;
  };
  std::string& key = per_thread<Buffer>().text;  // keeps its memory
  key = values;
  const auto add = [&key](const auto* from, std::size_t count) {
    key.append(reinterpret_cast<const char*>(from), count * sizeof *from);
  };
  const AutocastMode& mode = autocast_mode();
  const std::int32_t modes[] = {grad_enabled(), mode.enabled, mode.enabled ? static_cast<int>(mode.dtype) : 0,
                                mode.enabled && mode.cache_weights};
  add(modes, std::size(modes));
  for (const Tensor& t : inputs) {
    if (!t.defined()) {
      constexpr std::int32_t kNone[] = {-1};
      add(kNone, 1);
      continue;
    }
    const std::int32_t layout[] = {t.dim(), static_cast<int>(t.dtype()), static_cast<int>(t.device().type),
                                   t.device().index};
    add(layout, std::size(layout));
    add(t.shape().begin(), t.shape().size());
    add(t.strides().begin(), t.strides().size());
  }
  return key;
}

// Null where calls run one by one.
std::optional<Worth> worth_fusing(bool wanted, Device device) {
  const char* const variable = std::getenv("COTANGENT_FUSION");
  const std::string_view how = variable ? variable : "";
  if (!wanted || how == "off") return {};
  return how == "all" ? Worth{} : Worth::on(device);
}

// A copy in the same layout, where elements have a place each.
Tensor like(const Tensor& t) {
  if (!t.defined()) return {};
  Tensor copy = empty_like(t);
  copy.copy_(t);
  return copy;
}

}  // namespace

struct StepProgram::Impl {
  Impl(const CaptureOptions& the_options, std::shared_ptr<StepMemory> the_memory)
      : options(the_options), memory(std::move(the_memory)) {
    check_at_least(options.warmup, "warmup");
    check_at_least(options.recordings, "recordings");
    CT_CHECK(options.check_every >= 0, ValueError, kOp, "check_every is ", options.check_every,
             "; 0 is never");
    if (const char* const every = std::getenv("COTANGENT_CHECK_CAPTURE"); every && check_every == 0)
      check_every = std::max(0, std::atoi(every));
  }
  ~Impl() { clear(); }

  static void check_at_least(int value, const char* what) {
    CT_CHECK(value >= 1, ValueError, kOp, what, " is ", value, "; it must be at least 1");
  }

  std::vector<Tensor> run(std::vector<Tensor> inputs, const std::string& values, Body body);
  Recorded* find(const std::string& key);
  std::vector<Tensor> record(const std::string& key, std::vector<Tensor> slots, Body body,
                             const Recorded* before);
  void replay(Recorded& r, const std::vector<Tensor>& inputs, Body body);
  void play(Recorded& r, bool graph, StepCheck* check);
  bool make_graph(Recorded& r);
  void drop(const Recorded& r);
  void make_room(const std::string& key, const std::vector<Tensor>& inputs, bool again);
  void place(Device device);
  void clear();
  const FusionPlan* plan() const { return last && last->list ? last->list->plan() : nullptr; }

  const CaptureOptions options;
  const std::shared_ptr<StepMemory> memory;
  std::int64_t check_every = options.check_every;
  std::atomic<bool> busy = false;
  std::string failure;  // why the next call throws
  const char* changed = nullptr;
  std::int64_t made = 0, replayed = 0, number = 0;
  int since_replay = 0;
  std::uint64_t clock = 0;
  Recorded* last = nullptr;

  Watcher watcher;
  std::map<std::string, int> warm;
  std::map<std::string, std::vector<Shape>> shapes;
  std::vector<std::unique_ptr<Recorded>> recorded;

  Device device;
  std::optional<Mailbox> mailbox;
};

void StepProgram::Impl::clear() {
  if (device.is_cuda() && mailbox) {
    try {
      synchronize(device);
    } catch (...) {  // NOLINT: a kernel's bad index is told by the next call that waits
    }
  }
  recorded.clear();
  last = nullptr;
  mailbox.reset();
  memory->trim(device);
  warm.clear(), shapes.clear(), failure.clear();
  since_replay = 0;
}

void StepProgram::Impl::place(Device where) {
  if (mailbox) {
    CT_CHECK(device == where, CaptureError, kOp, "the step was recorded on ", device, " and works on ", where,
             " now; reset() forgets what was recorded");
    return;
  }
  device = where;
  mailbox.emplace(device);
}

Recorded* StepProgram::Impl::find(const std::string& key) {
  changed = nullptr;
  for (std::size_t i = 0; i < recorded.size();) {
    Recorded& r = *recorded[i];
    if (r.shared && !r.alone && r.shared != memory->pools(device)) {  // something lies in it that stays
      warm[r.key] = 0;
      drop(r);
      continue;
    }
    const Recorded::Obstacle obstacle = r.key == key ? r.obstacle() : Recorded::Obstacle{""};
    if (!obstacle.what) return &r;
    if (r.key == key) changed = obstacle.what;
    if (obstacle.returns) {
      ++i;
    } else {
      drop(r);
      warm[key] = 0;
    }
  }
  return nullptr;
}

void StepProgram::Impl::drop(const Recorded& r) {
  if (last == &r) last = nullptr;
  if (device.is_cuda()) synchronize(device);  // its last replay may still run
  std::erase_if(recorded, [&](const auto& other) { return other.get() == &r; });
}

// Throws where arguments or the state at the start keep changing.
void StepProgram::Impl::make_room(const std::string& key, const std::vector<Tensor>& inputs, bool again) {
  const auto limit = static_cast<std::size_t>(options.recordings);
  if (!shapes.contains(key)) {
    std::string varying;
    if (shapes.size() >= limit)
      for (std::size_t i = 0; i < inputs.size() && varying.empty(); ++i) {
        if (!inputs[i].defined()) continue;
        for (const auto& [other, sizes] : shapes) {
          if (i >= sizes.size() || sizes[i].size() != inputs[i].dim()) continue;
          for (int d = 0; d < inputs[i].dim() && varying.empty(); ++d)
            if (sizes[i][d] != inputs[i].size(d))
              varying = cat("axis ", d, " of argument ", i, " has sizes ", sizes[i][d], ", ",
                            inputs[i].size(d), ", ...");
        }
      }
    CT_CHECK(shapes.size() < limit, CaptureError, kOp, "there are recordings for ", limit,
             " kinds of arguments: ",
             varying.empty() ? std::string("their layouts, numbers or modes vary") : varying,
             "; pad them to a few sizes (drop_last of a loader), or raise CaptureOptions::recordings");
    std::vector<Shape>& list = shapes[key];
    for (const Tensor& t : inputs) list.push_back(t.defined() ? t.shape() : Shape());
  }
  CT_CHECK(since_replay < 2 * options.recordings + 4, CaptureError, kOp, "the step was recorded ",
           since_replay, " times without a replay, the last time since it was recorded with ",
           changed ? changed : "other arguments", "; let each step begin as the one before");
  while (!again && recorded.size() >= 2 * limit) {
    const auto oldest = std::ranges::min_element(recorded, {}, [](const auto& r) { return r->used; });
    drop(**oldest);
  }
}

// The step runs as it is recorded, on both devices.
std::vector<Tensor> StepProgram::Impl::record(const std::string& key, std::vector<Tensor> slots, Body body,
                                              const Recorded* before) {
  auto fresh = std::make_unique<Recorded>();
  fresh->key = key, fresh->device = device, fresh->inputs = std::move(slots);
  fresh->pool = make_memory_pool(device);
  if (before) fresh->shared = memory->pools(device);
  std::vector<std::uint32_t> versions;
  for (const Tensor& t : fresh->inputs) versions.push_back(t.defined() ? t.impl()->storage->version() : 0);

  const GeneratorState start = default_generator().state();
  mailbox->set(0, start.seed), mailbox->set(1, start.offset);
  mailbox->send();
  std::uint64_t draws = 0;
  {
    // The first recording tells what outlives a step: it shares nothing.
    BlockPlan plan(device, fresh->pool, before ? fresh->shared->step : fresh->pool,
                   before ? before->blocks : std::vector<BlockPlan::Block>());
    struct Finish {  // also where the step fails
      BlockPlan& plan;
      Impl& self;
      Recorded& recorded;
      ~Finish() {
        const bool strays = plan.finish();
        recorded.blocks = std::move(plan.blocks());
        for (const BlockPlan::Block& block : recorded.blocks)
          if (!block.stays) recorded.passing.insert(block.id);
        if (!strays || !recorded.shared) return;
        recorded.alone = true;
        self.memory->renew(self.device);
      }
    } finish{plan, *this, *fresh};
    StepRecorder recorder(*fresh, *mailbox, plan, watcher);
    struct Taken {
      std::uint64_t& count;
      std::optional<StepDraws> step;
      ~Taken() {
        count = step->state.offset;
        step.reset();
        default_generator().reserve(count);
      }
    };
    {
      Taken taken{draws, {}};
      taken.step.emplace(mailbox->draws());
      const RecordingScope scope(&recorder);
      const TracerScope tracer(recorder);
      fresh->results = body(fresh->inputs);
      CT_CHECK(
          taken.step->state.live, CaptureError, kOp,
          "the step sets the state of default_generator(): a replay would repeat its draws; seed it before");
    }
    recorder.fetch_inputs();
    recorder.finish();
  }
  if (draws > 0) {
    Recorded::Effect reserve{0, -1, [draws] { default_generator().reserve(draws); }, {}};
    fresh->effects.insert(fresh->effects.begin(), std::move(reserve));
  }
  for (std::size_t i = 0; i < versions.size(); ++i)
    CT_CHECK(!fresh->inputs[i].defined() || fresh->inputs[i].impl()->storage->version() == versions[i],
             CaptureError, kOp, "the step changes its argument ", i,
             " in place: calls give it copies; return the changed tensor");
  fresh->number = number = ++made, ++since_replay;
  fresh->used = ++clock;
  if (before) {
    const std::string differing = difference(*before, *fresh);
    fresh->confirmed = differing.empty();
    if (fresh->confirmed) fresh->make_list(worth_fusing(options.fuse, device));
    if (!fresh->confirmed && before->used + 1 == clock) failure = differing;
  }
  std::vector<Tensor> results = fresh->results;
  last = fresh.get();
  if (before) drop(*before);
  recorded.push_back(std::move(fresh));
  return results;
}

// Captures the recorded calls as they are queued once more: none of them runs, and where the capture fails nothing has changed.
// Work of another thread on the same device can make it invalid; then the next replay tries again.
bool StepProgram::Impl::make_graph(Recorded& r) {
  constexpr int kAttempts = 16;
  if (r.executable) return true;
  CT_CHECK(
      r.attempts < kAttempts, CaptureError, kOp, "the recording could not be made a graph in ", kAttempts,
      " replays: each time a call of CUDA that a graph can't hold came between, of an op of the step or of "
      "another thread; let other threads work on streams of their own, without a wait for the whole device");
  ++r.attempts;
  const Stream& stream = r.shared->stream;
  const StreamGuard on(stream);
  const MemoryPoolGuard temporary(device, r.shared->kernels);
  void* graph = nullptr;
  try {
    runtime::capture_begin(stream.native, r.attempts <= kAttempts / 2);
    struct End {
      void*& graph;
      void* stream;
      ~End() { graph = runtime::capture_end(stream); }
    } end{graph, stream.native};
    if (!r.fetched.empty()) {
      const InCall inside;
      functions_of(kernel_tables::fetching, device).fetch(r.fetched);
    }
    for (std::size_t i = 0; i < r.list->size(); ++i) r.list->run(i);
  } catch (const CudaError&) {
    if (graph) runtime::graph_destroy(std::exchange(graph, nullptr));
  }
  if (!graph) return false;
  struct Destroy {
    void* graph;
    ~Destroy() { runtime::graph_destroy(graph); }
  } destroy{graph};
  r.executable = runtime::graph_instantiate(graph);
  r.launches = runtime::graph_size(graph);
  return true;
}

// Effects and kernels, in the order of the step where the host runs the kernels.
void StepProgram::Impl::play(Recorded& r, bool graph, StepCheck* check) {
  const auto apply = [&](Recorded::Effect& e) {
    if (const auto slot = static_cast<std::size_t>(e.slot - 2);
        e.slot >= 0)  // the plain step has none for inputs
      mailbox->set(e.slot, check && slot < check->values.size() ? check->values[slot] : e.value());
    else if (!check)  // the plain step has had its effects
      e.run();
  };
  const GeneratorState draw = check ? check->draw : default_generator().state();
  mailbox->set(0, draw.seed), mailbox->set(1, draw.offset);
  std::size_t next = 0;
  const auto apply_until = [&](std::size_t call) {
    while (next < r.effects.size() && r.effects[next].before <= call) apply(r.effects[next++]);
  };
  if (device.is_cuda()) {
    apply_until(r.list->size());
    mailbox->send();
    if (graph) return runtime::graph_launch(r.executable, current_stream(device).native);
  }
  for (std::size_t i = 0; i < r.list->size(); ++i) {
    apply_until(i);
    r.list->run(i);
  }
  apply_until(r.list->size());
}

void StepProgram::Impl::replay(Recorded& r, const std::vector<Tensor>& inputs, Body body) {
  const DeviceGuard guard(device);
  // A graph is one piece of work: who watches calls sees the same kernels one by one.
  const bool graph = device.is_cuda() && !traced() && make_graph(r);
  const bool checked = check_every > 0 && (replayed + 1) % check_every == 0;
  if (!r.send_inputs(graph && !checked ? inputs : r.inputs)) {
    const NoGrad off;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].defined()) r.inputs[i].copy_(inputs[i]);
  }
  std::optional<StepCheck> check;
  if (checked) {
    check.emplace(r, device);
    const RecordingScope scope(&*check);
    check->turn_back(body(inputs));
  }
  const NoGrad off;
  play(r, graph, check ? &*check : nullptr);
  if (!check)
    for (const Recorded::Written& w : r.written)
      for (std::uint32_t n = 0; n < w.versions; ++n) w.storage->bump_version();
  for (Leaf& leaf : r.leaves) leaf.leave();
  if (check) check->compare(replayed + 1);
  ++replayed, since_replay = 0, number = r.number;
  r.used = ++clock;
  last = &r;
}

std::vector<Tensor> StepProgram::Impl::run(std::vector<Tensor> inputs, const std::string& values, Body body) {
  if (Recording* const outer = recording())
    outer->refuse(kOp, "is a captured step within another; capture the outer one alone");
  CT_CHECK(!busy.exchange(true), CaptureError, kOp,
           "called while a call of the same captured step runs, by itself or by another thread; give each "
           "thread its own");
  struct Free {
    std::atomic<bool>& busy;
    ~Free() { busy = false; }
  } free{busy};
  if (!failure.empty())
    fail<CaptureError>(kOp, "two steps in a row were not the same: ", std::exchange(failure, {}));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    CT_CHECK(
        !inputs[i].defined() || !inputs[i].requires_grad(), CaptureError, kOp, "argument ", i, ", ",
        inputs[i].defined() ? describe(inputs[i]) : std::string(),
        ", requires a gradient, which would be that of a copy; make the leaf in the step, or detach() it");
  const auto detached = [&](const std::vector<Tensor>& with) {
    std::vector<Tensor> results = body(with);
    for (Tensor& t : results)
      if (t.defined()) t = t.detach();
    return results;
  };

  number = 0;
  if (!options.enabled) return detached(inputs);
  std::optional<StepMemory::Turn> turn;
  if (mailbox) turn.emplace(*memory, device);
  Recorded* const found = find(key_of(inputs, values));
  if (found && found->confirmed) {
    replay(*found, inputs, detached);
    return found->results;
  }
  const std::string key = key_of(inputs, values);
  make_room(key, inputs, found != nullptr);
  if (warm[key] < options.warmup) {
    turn.reset();
    std::vector<Tensor> results;
    {
      const TracerScope scope(watcher);
      results = detached(inputs);
    }
    ++warm[key];
    return results;
  }
  place(watcher.device);
  if (!turn) turn.emplace(*memory, device);
  std::vector<Tensor> slots;
  {
    const NoGrad off;
    if (found) {
      slots = found->inputs;
      found->results.clear();
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i].defined()) slots[i].copy_(inputs[i]);
    } else {
      for (const Tensor& t : inputs) {
        CT_CHECK(!t.defined() || t.device() == device, CaptureError, kOp, "an argument is on ", t.device(),
                 ", the step works on ", device, "; move it before the step");
        slots.push_back(like(t));
      }
    }
  }
  return record(key, std::move(slots), detached, found);
}

StepProgram::StepProgram(const CaptureOptions& options)
    : impl_(std::make_unique<Impl>(options, options.pool.memory_)) {}
StepProgram::~StepProgram() = default;

std::vector<Tensor> StepProgram::run(std::vector<Tensor> inputs, const std::string& values, Body body) {
  return impl_->run(std::move(inputs), values, body);
}

bool StepProgram::ready(const std::vector<Tensor>& inputs, const std::string& values) const {
  const std::string& key = key_of(inputs, values);
  return impl_->options.enabled && std::ranges::any_of(impl_->recorded, [&](const auto& r) {
           return r->confirmed && r->key == key && !r->obstacle().what;
         });
}

std::int64_t StepProgram::number() const { return impl_->number; }
bool StepProgram::captured() const {
  return std::ranges::any_of(impl_->recorded, [](const auto& r) { return r->confirmed; });
}
std::int64_t StepProgram::replays() const { return impl_->replayed; }
std::int64_t StepProgram::recordings() const { return impl_->made; }
void StepProgram::reset() { impl_->clear(); }

std::vector<std::string> StepProgram::kernels() const {
  std::vector<std::string> names;
  if (!impl_->last) return names;
  const FusionPlan* const plan = impl_->plan();
  for (std::size_t i = 0; i < impl_->last->calls.size(); ++i) {
    if (impl_->last->calls[i].runs != RecordedCall::Runs::each) continue;
    if (!plan || plan->group_of[i] == FusionPlan::kNone)
      names.push_back(impl_->last->calls[i].name());
    else if (const FusedCalls* const group = plan->ending_with(i))
      names.push_back(group->name(impl_->last->calls));
  }
  return names;
}

std::size_t StepProgram::launches() const { return impl_->last ? impl_->last->launches : 0; }

std::string StepProgram::explain_fusion() const {
  const FusionPlan* const plan = impl_->plan();
  if (plan) return explain(*plan, impl_->last->calls);
  return impl_->last && impl_->last->confirmed ? "fusion is off\n" : "not captured yet\n";
}

std::string StepProgram::dot() const {
  std::string text = "digraph step {\n  node [shape=box];\n";
  std::unordered_map<std::uint64_t, std::size_t> writers;
  for (std::size_t i = 0; impl_->last && i < impl_->last->calls.size(); ++i) {
    const RecordedCall& call = impl_->last->calls[i];
    if (call.runs != RecordedCall::Runs::each) continue;
    text += cat("  c", i, " [label=\"", call.name(), "\"];\n");
    std::set<std::size_t> from;
    for (const auto* list : {&call.inputs, &call.outputs, &call.grads})
      for (const Place& p : *list)
        if (const auto writer = writers.find(p.storage); writer != writers.end()) from.insert(writer->second);
    for (const std::size_t w : from) text += cat("  c", w, " -> c", i, ";\n");
    for (const Place& p : call.results)
      if (p.storage != 0) writers[p.storage] = i;
  }
  return text + "}\n";
}

std::size_t StepProgram::memory() const {
  std::size_t bytes = 0;
  std::set<MemoryPoolId> pools;
  for (const auto& r : impl_->recorded) {
    pools.insert(r->pool);
    if (r->shared) pools.insert({r->shared->step, r->shared->kernels});
  }
  for (const MemoryPoolId pool : pools) bytes += memory_pool_bytes(impl_->device, pool);
  return bytes;
}

}  // namespace ct::detail
