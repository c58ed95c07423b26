#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <cotangent/nn/capture/calls_internal.h>
#include <cotangent/ops/engine/map/chain.h>

// Groups of recorded calls that run as one pass over memory, to the bits of the calls one by one.

namespace ct::capture_impl {

/// A call that goes over rows, and the formulas behind it. On the CPU runs of rows go through the formulas before it, the call's own
/// kernel and these, while they are in the cache. A kernel that is not cut has them as its load and its store: on a GPU, and where
/// results are of all rows.
struct RowCalls {
  using Sources = std::vector<int>;  // places of tensors among inputs, outputs and scratch; -1: undefined

  const RecordedCall* call = nullptr;
  std::uint32_t shared = 0;      // of its inputs: those that all rows read whole
  int lead = 0;                  // leading axes, of which the last one is cut
  Shape shape;                   // of the tensor whose rows they are
  bool sums = false;             // some results are of all rows
  int stored = 0;                // the result that goes on to the formulas behind; -1: none
  bool stores_in_memory = true;  // which others see, too
  std::vector<Place> scratch{};  // values that only the group sees, of the rows of a run
  Sources load_inputs{}, load_outputs{}, inputs{}, outputs{}, grads{}, results{}, store_inputs{},
      store_outputs{};
  map::chain::Program store{};
  mutable std::unique_ptr<map::chain::Compiled> compiled{};
};

/// Calls that run as one, in the place of the last of them.
struct FusedCalls {
  std::vector<std::size_t> calls;  // in order
  map::chain::Program program;
  std::optional<RowCalls> rows{};
  std::vector<Place> inputs, outputs;

  std::size_t steps() const { return program.steps.size() + (rows ? 1 + rows->store.steps.size() : 0); }

  /// "fused(add, gelu, mul)"
  std::string name(const std::vector<RecordedCall>& list) const;
};

struct FusionPlan {
  static constexpr std::size_t kNone = ~std::size_t{0};

  std::vector<FusedCalls> groups;
  std::vector<std::size_t> group_of;  // of each call, or kNone
  std::vector<std::string> reasons;   // of each call: why it is in none

  /// The group that runs in the place of call i; null where there is none.
  const FusedCalls* ending_with(std::size_t i) const;
  bool any() const;
  /// Lets the calls of group k run one by one.
  void dissolve(std::size_t k, const char* why);
};

/// From which calls on a group is faster than they are.
struct Worth {
  std::int64_t elements = 1;
  bool low = true;  // of 16 bits

  static Worth on(Device device) { return device.is_cpu() ? Worth{1 << 14, false} : Worth{}; }
};

/// Groups the calls of a step. `passing` are the storages that the step makes and that nothing holds when it has ended: a value
/// in one of them that only the group reads is not written.
FusionPlan plan_fusion(const std::vector<RecordedCall>& calls,
                       const std::unordered_set<std::uint64_t>& passing, Worth worth);

/// Account of a plan for people.
std::string explain(const FusionPlan& plan, const std::vector<RecordedCall>& calls);

/// The part of run_fused() for a group with rows.
void run_rows(const FusedCalls& group, std::span<const Tensor* const> inputs,
              std::span<const Tensor> outputs);
/// The same where the kernel is not cut, or whether a GPU can. Then `outputs` are those of the group.
bool run_whole(const FusedCalls& group, std::span<const Tensor* const> inputs,
               std::span<const Tensor> outputs, detail::Around::Ask ask);

/// Runs a group on its tensors, as a call that observers see.
void run_fused(const FusedCalls& group, std::span<const Tensor* const> inputs, std::span<Tensor> outputs);

}  // namespace ct::capture_impl
