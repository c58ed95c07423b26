#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <cotangent/core/base/generator_state.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/nn/capture/calls_internal.h>
#include <cotangent/nn/capture/fusion_internal.h>

// Parts of a captured function (program.cpp).

namespace ct::detail {

/// A leaf that a step uses, and its gradient: host state, which replays set as the recording left it.
struct Leaf {
  Tensor tensor;
  const Storage* storage = nullptr;  // that the step was recorded with
  bool requires_grad = true;
  // Where the gradient lies at the start and at the end; null for none.
  const void *start = nullptr, *end = nullptr;
  bool read = false;  // the step uses the gradient that it starts with
  Tensor made{};      // the gradient of the end, where the step has made it: its memory stays the gradient's

  static const void* gradient_of(const Tensor& leaf);
  /// Gives the leaf the gradient that the step leaves behind, in a handle of its own: those that are kept would be counted
  /// where the tape asks whether it may add to a gradient in place.
  void leave();
};

/// Numbers that change from step to step, in the device's memory: seed and offset of the draws, then those of Recording::slot().
class Mailbox {
 public:
  static constexpr int kSlots = 32;  // 256 bytes

  explicit Mailbox(Device device);
  GeneratorState* draws() const { return reinterpret_cast<GeneratorState*>(memory_.raw_data()); }
  void* at(int slot) const { return static_cast<std::int64_t*>(memory_.raw_data()) + slot; }
  bool holds(const void* p) const { return p >= at(0) && p < at(kSlots); }
  /// Queues a write of what is not there already.
  void send(int slot, std::uint64_t value);

 private:
  Tensor memory_;
  std::uint64_t sent_[kSlots] = {};
};

struct Recorded;

/// A plain step beside a replay of it, from the same state.
class StepCheck final : public Recording {
 public:
  /// Keeps the state that `recorded` starts from.
  StepCheck(const Recorded& recorded, Device device);
  ~StepCheck() = default;

  void effect(std::function<void()>) override {}
  void guard(const char*, std::function<bool()>, bool) override {}
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

/// A recorded step.
struct Recorded {
  struct Effect {
    std::size_t before;  // the number of calls ahead of it
    int slot;            // -1: `run`
    std::function<void()> run;
    std::function<std::uint64_t()> value;
    std::uint64_t first = 0;  // the value in the recording
  };
  struct Guard {
    const char* what;
    std::function<bool()> holds;
    bool returns = true;
  };
  struct Written {
    Ref<Storage> storage;
    std::uint32_t versions;
  };

  Recorded() = default;
  ~Recorded();
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

  /// A guard that does not hold; `what` is null where all do.
  Guard obstacle() const;
  /// Makes the list of the calls, grouped where that is of worth, and on a GPU the graph of it where there are groups.
  void make_list(const std::optional<Worth>& worth, const Stream& stream);

  std::string key;
  Device device;
  MemoryPoolId pool = 0, scratch = 0;  // of the step; of kernels in a graph that is made of the list
  std::vector<Tensor> inputs, results;
  std::vector<RecordedCall> calls;
  std::unordered_set<std::uint64_t> outside;  // storages that were there before
  std::unordered_set<std::uint64_t> passing;  // made in the step, and gone at its end
  std::vector<Ref<Storage>> held;
  std::vector<Written> written;
  std::vector<Effect> effects;
  std::vector<Guard> guards;
  std::vector<Leaf> leaves;
  std::unique_ptr<CallList> list;
  void *graph = nullptr, *executable = nullptr;  // CUDA
  bool confirmed = false;
  std::int64_t number = 0;
  std::uint64_t used = 0;  // when, for the least recently used
};

/// The difference between two recordings of a step in a row, as a sentence; empty if there is none.
std::string difference(const Recorded& a, const Recorded& b);

/// The leaves and devices of a plain step.
class Watcher final : public Tracer {
 public:
  bool begin(const KernelCall& call) override;
  void end(const KernelCall&) override {}
  void note(const Tensor& t);

  Device device;
  std::vector<Tensor> leaves;

 private:
  std::unordered_set<const TensorImpl*> known_;
};

/// Records a step into `to`.
class StepRecorder final : public CallRecorder, public Recording {
 public:
  StepRecorder(Recorded& to, Mailbox& mailbox, const Stream& stream, std::uint64_t home, Watcher& watcher);

  void effect(std::function<void()> effect) override;
  void guard(const char* what, std::function<bool()> holds, bool returns) override;
  void* slot(std::function<std::uint64_t()> value) override;
  void gradient(const Tensor& leaf) override;
  [[noreturn]] void refuse(const char* op, const char* why) override;

  /// Completes the recording.
  void finish();

 protected:
  void beginning(const KernelCall& call) override;
  void ended(const KernelCall& call) override;

 private:
  void see(const OpDef& op, const Tensor& t);
  void find_passing();
  void add_leaf(const Tensor& leaf);

  Recorded& to_;
  Mailbox& mailbox_;
  const Stream stream_;
  const std::uint64_t home_;   // Storage::stream() of memory of the step's own
  const std::uint64_t first_;  // the number of the first storage that can be made in it
  Watcher& watcher_;
  int next_slot_ = 2;
  std::unordered_map<std::uint64_t, std::uint32_t>
      versions_;             // of what was there before, when it was seen first
  std::vector<Place> made_;  // memory of the step's own, in the order in which it was seen
  std::unordered_set<std::uint64_t> known_;
  std::unordered_set<const void*> start_gradients_;
  std::unordered_set<const void*> read_gradients_;
  std::vector<const TensorImpl*> outputs_;  // of the call that runs
};

}  // namespace ct::detail
