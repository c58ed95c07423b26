#include <cotangent/core/memory/block_plan_internal.h>

#include <utility>

#include <cotangent/core/memory/caching_allocator_internal.h>
#include <cotangent/core/memory/cpu_allocator_internal.h>

namespace ct::detail {

namespace {
constinit thread_local BlockPlan* t_plan = nullptr;
MemoryPoolId& pool_on(Device device) { return thread_memory_pool(device.is_cpu() ? 0 : 1 + device.index); }
}  // namespace

BlockPlan::BlockPlan(Device device, MemoryPoolId stays, MemoryPoolId goes, std::vector<Block> before)
    : device_(device), stays_(stays), goes_(goes), guard_(device, goes), before_(std::move(before)) {
  t_plan = this;
}

BlockPlan::~BlockPlan() { t_plan = nullptr; }

BlockPlan* BlockPlan::of(Device device) noexcept {
  return t_plan && t_plan->device_ == device && pool_on(device) == t_plan->goes_ ? t_plan : nullptr;
}

bool BlockPlan::next_stays(std::size_t bytes) {
  // The run before may have made something that it keeps, a cache: it does not come again.
  while (next_ < before_.size() && before_[next_].bytes != bytes && before_[next_].stays) ++next_;
  if (next_ < before_.size() && before_[next_].bytes == bytes) return before_[next_++].stays;
  next_ = before_.size();
  return true;
}

bool BlockPlan::in_use(const Block& block) const {
  if (device_.is_cuda()) return cuda_caching_allocator(device_).uses(block.address);
  return default_cpu_allocator().uses(block.stays ? stays_ : goes_, block.address);
}

bool BlockPlan::finish() {
  std::unordered_set<const void*> later;  // the last storage at an address is the one that is there
  bool strays = false;
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    Block& block = blocks_[i];
    const bool here = later.insert(block.address).second && in_use(block);
    strays |= here && !block.stays;
    block.stays = here;
  }
  return strays;
}

BlockPlan::Turn::Turn(BlockPlan& plan, std::size_t bytes) : plan_(plan), stays_(plan.next_stays(bytes)) {
  if (stays_) pool_on(plan.device_) = plan.stays_;
}
BlockPlan::Turn::~Turn() { pool_on(plan_.device_) = plan_.goes_; }

void BlockPlan::Turn::placed(const Storage& storage) {
  plan_.blocks_.push_back({storage.bytes(), storage.id(), storage.data(), stays_});
  plan_.made_.insert(storage.id());
}

}  // namespace ct::detail
