#include <cstring>

#include <cotangent/core/device/runtime_internal.h>
#include <cotangent/nn/capture/capture.h>
#include <cotangent/nn/capture/program_internal.h>
#include <cotangent/ops/creation/creation.h>

// Memory of recordings: what they share, and what changes from step to step.

namespace ct {

CapturePool::CapturePool() : memory_(std::make_shared<capture_impl::StepMemory>()) {}

namespace capture_impl {
namespace {
Stream own_stream(Device device) {
  if (device.is_cpu()) return {};
  static std::atomic<std::int32_t> next{1 << 20};  // beyond those of new_stream()
  const DeviceGuard guard(device);
  return {runtime::stream_create(0), device, next.fetch_add(1)};
}
}  // namespace

StepPools::StepPools(Device of)
    : device(of), step(make_memory_pool(of)), kernels(make_memory_pool(of)), stream(own_stream(of)) {}

StepPools::~StepPools() {
  release_memory_pool(device, step), release_memory_pool(device, kernels);
  if (!stream.native) return;
  try {
    const DeviceGuard guard(device);
    runtime::stream_destroy(stream.native);
  } catch (...) {  // NOLINT: the driver may be shutting down
  }
}

StepMemory::Turn::Turn(StepMemory& memory, Device device) : memory_(memory) {
  CT_CHECK(
      memory.owner_.load(std::memory_order_relaxed) != std::this_thread::get_id(), CaptureError, "capture",
      "called by an effect of a step that shares its memory; give the captured function a CapturePool of its "
      "own");
  memory.mutex_.lock();
  memory.owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  if (device.is_cpu()) return;
  Stream& last = memory.place(device).last;
  const Stream now = current_stream(device);
  if (last.device.is_cuda() && !(last == now)) {
    try {
      Event done;
      done.record(last);
      now.wait(done);
    } catch (...) {
      memory.owner_.store({}, std::memory_order_relaxed);
      memory.mutex_.unlock();
      throw;
    }
  }
  last = now;
}

StepMemory::Turn::~Turn() {
  memory_.owner_.store({}, std::memory_order_relaxed);
  memory_.mutex_.unlock();
}

const std::shared_ptr<StepPools>& StepMemory::pools(Device device) {
  std::shared_ptr<StepPools>& pools = place(device).pools;
  if (!pools) pools = std::make_shared<StepPools>(device);
  return pools;
}

void StepMemory::renew(Device device) { place(device).pools = nullptr; }

void StepMemory::trim(Device device) {
  if (owner_.load(std::memory_order_relaxed) == std::this_thread::get_id()) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);  // who has the turn uses them
  if (lock && place(device).pools.use_count() == 1) renew(device);
}

Mailbox::Mailbox(Device device) : memory_(zeros({kSlots}, {.dtype = DType::i64, .device = device})) {
  if (device.is_cuda()) pages_ = Storage::allocate_pinned(std::size_t{kPages} * kBytes);
}

void Mailbox::set(int slot, std::uint64_t value) {
  if (values_[slot] == value) return;
  values_[slot] = value;
  changed_ = true;
  if (!pages_) std::memcpy(at(slot), &value, sizeof value);
}

void Mailbox::send() {
  if (!changed_ || !pages_) return;
  constexpr int kHalf = kPages / 2;
  const Stream stream = current_stream(memory_.device());
  if (page_ % kHalf == 0)
    while (!read_[page_ / kHalf].query()) std::this_thread::yield();
  std::byte* const page = static_cast<std::byte*>(pages_->data()) + page_ * kBytes;
  std::memcpy(page, values_, kBytes);
  runtime::copy(at(0), page, kBytes, stream.native);
  if (page_ % kHalf == kHalf - 1) read_[page_ / kHalf].record(stream);
  page_ = (page_ + 1) % kPages;
  changed_ = false;
}

}  // namespace capture_impl
}  // namespace ct
