#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/core/memory/storage.h>

// Two memory pools for a step that is done again. What outlives the step has one of its own; the rest may lie where other
// steps have theirs, as long as they take turns. Internal.

namespace ct::detail {

/// Until the end of the scope, sends each storage that the calling thread allocates on a device to one of two memory pools.
/// Which storages outlive the step, the run before tells, by their order and sizes; where this run is another one than
/// that, all that follows counts as outliving it.
class CT_API BlockPlan {
 public:
  /// A storage of the step, in the order of their births.
  struct Block {
    std::size_t bytes = 0;
    std::uint64_t id = 0;
    const void* address = nullptr;
    bool stays = false;
  };

  /// `before` are the blocks() of the run before, or none.
  BlockPlan(Device device, MemoryPoolId stays, MemoryPoolId goes, std::vector<Block> before);
  ~BlockPlan();
  BlockPlan(const BlockPlan&) = delete;
  BlockPlan& operator=(const BlockPlan&) = delete;

  /// Whether the storage was allocated in the scope.
  bool made(const Storage& storage) const { return made_.contains(storage.id()); }
  /// Finds out which storages are still in use. True if one of them lies in the pool of those that go.
  bool finish();
  std::vector<Block>& blocks() { return blocks_; }

  /// The calling thread's plan for `device` where it applies: not in the scope of a memory pool within its own. Or null.
  static BlockPlan* of(Device device) noexcept;
  /// The pool of one storage of `bytes`, until the end of the scope.
  class CT_API Turn {
   public:
    Turn(BlockPlan& plan, std::size_t bytes);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    void placed(const Storage& storage);

   private:
    BlockPlan& plan_;
    const bool stays_;
  };

 private:
  bool next_stays(std::size_t bytes);
  bool in_use(const Block& block) const;

  const Device device_;
  const MemoryPoolId stays_, goes_;
  const MemoryPoolGuard guard_;
  const std::vector<Block> before_;
  std::size_t next_ = 0;
  std::vector<Block> blocks_;
  std::unordered_set<std::uint64_t> made_;
};

}  // namespace ct::detail
