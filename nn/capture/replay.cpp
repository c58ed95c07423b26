#include <optional>
#include <utility>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/base/step_draws_internal.h>
#include <cotangent/core/device/runtime_internal.h>
#include <cotangent/nn/capture/program_internal.h>

// A step as it is recorded, and as it is replayed.

namespace ct::capture_impl {
// Calls of the driver that a recording makes can wait for the device, on which a collective may wait for another rank of this
// process, and that rank for the driver. None waits where the device is idle.
void StepProgram::Impl::settle() const {
  const DeviceGuard guard(device);
  if (device.is_cuda()) runtime::device_synchronize();
}

// The step runs as it is recorded, on both devices.
std::vector<Tensor> StepProgram::Impl::record(const Recorded::Key& key, std::vector<Tensor> slots, Body body,
                                              const Recorded* before) {
  settle();
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
  settle();
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

void StepProgram::Impl::replay(Recorded& r, Inputs inputs, Body body) {
  const DeviceGuard guard(device);
  // A graph is one piece of work: who watches calls sees the same kernels one by one.
  const bool graph = device.is_cuda() && !traced() && make_graph(r);
  const bool checked = check_every > 0 && (replayed + 1) % check_every == 0;
  if (!r.send_inputs(graph && !checked ? inputs : Inputs())) {
    const NoGrad off;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i]->defined()) r.inputs[i].copy_(*inputs[i]);
  }
  std::optional<StepCheck> check;
  if (checked) {
    check.emplace(r, device);
    const RecordingScope scope(&*check);
    check->turn_back(body(tensors_of(inputs)));
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

}  // namespace ct::capture_impl
