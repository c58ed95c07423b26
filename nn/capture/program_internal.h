#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <cotangent/core/base/generator_state.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/core/memory/block_plan_internal.h>
#include <cotangent/nn/capture/calls_internal.h>
#include <cotangent/nn/capture/capture.h>
#include <cotangent/nn/capture/fusion_internal.h>
#include <cotangent/ops/engine/walk/fetch.h>

// Parts of a captured function.

namespace ct::capture_impl {

/// A leaf that a step uses, and its gradient: host state, which replays set as the recording left it.
struct Leaf {
  Tensor tensor;
  const Storage* storage = nullptr;  // that the step was recorded with
  bool requires_grad = true;
  // Where the gradient lies at the start and at the end; null for none.
  const void *start = nullptr, *end = nullptr;
  // The hooks that the step has run, which replays do not.
  std::shared_ptr<const void> hooks = nullptr, post_hooks = nullptr;
  bool read = false;  // the step uses the gradient that it starts with
  Tensor made{};      // the gradient of the end, where the step has made it: its memory stays the gradient's

  static const void* gradient_of(const Tensor& leaf);
  bool has_its_hooks() const;
  /// Gives the leaf the gradient that the step leaves behind, in a handle of its own: those that are kept would be counted
  /// where the tape asks whether it may add to a gradient in place.
  void leave();
};

/// Numbers that change from step to step, in the device's memory: seed and offset of the draws, then those of Recording::slot().
class Mailbox {
 public:
  static constexpr int kSlots = 32, kBytes = 8 * kSlots;

  explicit Mailbox(Device device);
  GeneratorState* draws() const { return reinterpret_cast<GeneratorState*>(memory_.raw_data()); }
  void* at(int slot) const { return static_cast<std::int64_t*>(memory_.raw_data()) + slot; }
  bool holds(const void* p) const { return p >= at(0) && p < at(kSlots); }
  void set(int slot, std::uint64_t value);
  /// Queues one copy of all that was set, if anything differs from the last one.
  void send();

 private:
  static constexpr int kPages = 64;

  Tensor memory_;
  std::uint64_t values_[kSlots] = {};
  bool changed_ = false;
  // Page-locked copies that are on their way. A page is written again behind the event of its half.
  Ref<Storage> pages_;
  Event read_[2];
  int page_ = 0;
};

/// Memory that a recording refers to, and gives up with the last of those that share it.
struct StepPools {
  explicit StepPools(Device device);
  ~StepPools();
  StepPools(const StepPools&) = delete;
  StepPools& operator=(const StepPools&) = delete;

  const Device device;
  const MemoryPoolId step;     // what a step makes and lets go of
  const MemoryPoolId kernels;  // what a kernel needs while it runs, in a graph
  Stream stream;               // CUDA: on which graphs are captured, and nothing else happens
};

/// The memory of a CapturePool.
class StepMemory {
 public:
  /// The memory is the calling thread's until the scope ends, and work on its current stream comes behind that of the turns
  /// before. Throws CaptureError for a turn within a turn.
  class Turn {
   public:
    Turn(StepMemory& memory, Device device);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    StepMemory& memory_;
  };

  // In a turn.
  const std::shared_ptr<StepPools>& pools(Device device);
  /// Leaves the pools to who refers to them now.
  void renew(Device device);
  /// Gives the pools up if no recording refers to them, and nobody has a turn.
  void trim(Device device);

 private:
  struct Place {
    std::shared_ptr<StepPools> pools;
    Stream last;
  };
  Place& place(Device device) { return places_[device.is_cpu() ? 0 : 1 + device.index]; }

  std::mutex mutex_;
  std::atomic<std::thread::id> owner_;
  Place places_[1 + kMaxCudaDevices];
};

struct Recorded;

/// A plain step beside a replay of it, from the same state.
class StepCheck final : public Recording {
 public:
  /// Keeps the state that `recorded` starts from.
  StepCheck(const Recorded& recorded, Device device);
  ~StepCheck() = default;

  void effect(std::function<void()>) override {}
  void guard(const char*, std::function<bool()>, bool, bool, const void*) override {}
  void* slot(std::function<std::uint64_t()> value) override;
  void gradient(const Tensor&) override {}
  [[noreturn]] void refuse(const char* op, const char* why) override;

  /// Keeps the state that the plain step has ended in, and brings back the one before.
  void turn_back(const std::vector<Tensor>& results);
  /// Throws CaptureError where the replay has not ended in the same bits.
  void compare(std::int64_t replays) const;

  const GeneratorState draw;
  std::vector<std::uint64_t> values;  // of the slots, in order

 private:
  const Recorded& recorded_;
  Mailbox mailbox_;
  std::vector<Tensor> memory_, before_, after_;  // bytes of what was there before the step
  std::vector<Tensor> results_, gradients_;
};

/// A storage that recordings refer to, held once for all of them: its count tells whether anybody else still does.
struct Held {
  ~Held();
  static std::shared_ptr<const Held> of(const Ref<Storage>& storage);

  const Ref<Storage> storage;
};

/// A recorded step.
struct Recorded {
  struct Effect {
    std::size_t before;  // the number of calls ahead of it
    int slot;            // -1: `run`
    std::function<void()> run;
    std::function<std::uint64_t()> value;
  };
  struct Guard {
    const char* what;
    std::function<bool()> holds;
    bool returns = true, noted = false;
    const void* key = nullptr;
  };
  struct Written {
    Storage* storage;  // held
    std::uint32_t versions;
  };

  Recorded() = default;
  ~Recorded();
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

  /// A guard that does not hold; `what` is null where all do.
  struct Obstacle {
    const char* what = nullptr;
    bool returns = true;
  };
  Obstacle obstacle();
  /// The same of those guards that change with the epoch alone.
  Obstacle changed() const;
  /// Tells the graph where the inputs of a call lie, none for its own; false where they are to be copied before it, as its own are.
  bool send_inputs(StepProgram::Inputs from);
  /// Makes the list of the calls, grouped where that is of worth.
  void make_list(const std::optional<Worth>& worth);

  using Key = std::vector<std::uint64_t>;
  Key key;
  std::uint64_t asked = 0;  // the state_epoch() for which what changes with it was found to hold
  Device device;
  MemoryPoolId pool = 0;  // of what outlives a step: results, gradients
  std::shared_ptr<StepPools> shared;
  bool alone = false;  // something outlives the step in `shared`, which nobody else may use then
  std::vector<BlockPlan::Block> blocks;
  std::vector<Tensor> inputs, results, own;
  // CUDA: inputs that the graph itself copies, from addresses in the mailbox; of the next call's.
  std::vector<Fetch> fetched;
  std::vector<std::uint64_t> sources;
  std::vector<RecordedCall> calls;
  std::unordered_set<std::uint64_t> outside;  // storages that were there before
  std::unordered_set<std::uint64_t> passing;  // made in the step, and gone at its end
  std::vector<std::shared_ptr<const Held>> held;
  std::vector<const Storage*> others;  // of `held`, those that somebody else has to hold
  std::vector<Written> written;
  std::vector<Effect> effects;
  std::vector<Guard> guards;
  std::vector<Leaf> leaves;
  std::unique_ptr<CallList> list;
  void* executable = nullptr;  // CUDA
  std::size_t launches = 0;    // of it
  int attempts = 0;            // that failed to make it
  bool confirmed = false;
  std::int64_t number = 0;
  std::uint64_t used = 0;  // when, for the least recently used
};

/// Lets calls run as parts of others, or once; `passing` as for plan_fusion(). Returns memory that the calls need of their own.
std::vector<Tensor> merge_calls(std::vector<RecordedCall>& calls,
                                const std::unordered_set<std::uint64_t>& passing);
std::vector<Tensor> tensors_of(StepProgram::Inputs inputs);
/// From when on fusion is of worth; null where calls run one by one.
std::optional<Worth> worth_fusing(bool wanted, Device device);

/// The difference between two recordings of a step in a row, as a sentence; empty if there is none.
std::string difference(const Recorded& a, const Recorded& b);

/// The leaves and devices of a plain step.
class Watcher final : public Tracer {
 public:
  bool begin(const KernelCall& call) override;
  void end(const KernelCall&) override {}
  void note(const Tensor& t);

  Device device;
  std::function<void()> on_gpu;  // called once, where there is one
  std::vector<Tensor> leaves;

 private:
  std::unordered_set<const TensorImpl*> known_;
};

/// Records a step into `to`.
class StepRecorder final : public CallRecorder, public Recording {
 public:
  StepRecorder(Recorded& to, Mailbox& mailbox, const BlockPlan& plan, Watcher& watcher);

  void effect(std::function<void()> effect) override;
  void guard(const char* what, std::function<bool()> holds, bool returns, bool noted,
             const void* key) override;
  void* slot(std::function<std::uint64_t()> value) override;
  void gradient(const Tensor& leaf) override;
  [[noreturn]] void refuse(const char* op, const char* why) override;

  /// Gives each input a slot for the address that it is copied from, where a graph may do that.
  void fetch_inputs();
  /// Completes the recording.
  void finish();

 protected:
  void beginning(const KernelCall& call) override;
  void ended(const KernelCall& call) override;

 private:
  void see(const OpDef& op, const Tensor& t);
  void add_leaf(const Tensor& leaf);

  Recorded& to_;
  Mailbox& mailbox_;
  const BlockPlan& plan_;
  const Stream stream_;
  Watcher& watcher_;
  int next_slot_ = 2;
  std::vector<std::uint32_t> versions_;  // of to_.held, when each was seen first
  std::unordered_set<const void*> start_gradients_;
  std::unordered_set<const void*> read_gradients_;
  std::vector<const TensorImpl*> outputs_;  // of the call that runs
};

struct StepProgram::Impl {
  static constexpr const char* kOp = "capture";

  Impl(const CaptureOptions& options, std::shared_ptr<StepMemory> memory);
  ~Impl() { clear(); }

  // In program.cpp.
  std::vector<Tensor> run(Inputs inputs, const std::string& values, Body body);
  Recorded* find(const Recorded::Key& key);
  void drop(const Recorded& r);
  void make_room(const Recorded::Key& key, Inputs inputs, bool again);
  void place(Device device);
  void clear();
  // In replay.cpp.
  std::vector<Tensor> record(const Recorded::Key& key, std::vector<Tensor> slots, Body body,
                             const Recorded* before);
  void settle() const;
  void replay(Recorded& r, Inputs inputs, Body body);
  void play(Recorded& r, bool graph, StepCheck* check);
  bool make_graph(Recorded& r);
  const FusionPlan* plan() const { return last && last->list ? last->list->plan() : nullptr; }

  const CaptureOptions options;
  const std::shared_ptr<StepMemory> memory;
  std::int64_t check_every;
  std::atomic<bool> busy = false;
  std::string failure;  // why the next call throws
  const char* changed = nullptr;
  std::int64_t made = 0, replayed = 0, number = 0;
  int since_replay = 0;
  std::uint64_t clock = 0;
  Recorded* last = nullptr;

  Watcher watcher;
  std::map<Recorded::Key, int> warm;
  std::map<Recorded::Key, std::vector<Shape>> shapes;
  std::vector<std::unique_ptr<Recorded>> recorded;

  Device device;
  std::optional<Mailbox> mailbox;
  std::jthread compiler;  // that loads it beside the first steps
};

}  // namespace ct::capture_impl
