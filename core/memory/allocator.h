#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <cotangent/core/base/export.h>
#include <cotangent/core/device/device.h>
#include <cotangent/core/device/stream.h>

// Where the bytes of tensors come from.
//
// Each device has one current allocator: by default a pooled one on the CPU and a caching one on a GPU.
// Both keep freed blocks, so that after warm-up a training step asks the system for nothing.
//
// Lifetime. An allocator that was ever installed lives until the process ends: the registry keeps every
// one of them. A storage may therefore keep a plain Allocator* and give its block back to where it came
// from at any time, also after set_allocator() and also from static destructors, at no cost per tensor.
// The default allocators are never destroyed either.

namespace ct {

/// Bytes and counts of an allocator, since the start or the last reset_peak().
struct MemoryStats {
  std::size_t in_use = 0;         ///< bytes of blocks handed out and not given back
  std::size_t cached = 0;         ///< bytes of free blocks kept for reuse
  std::size_t reserved = 0;       ///< bytes held from the system
  std::size_t peak_in_use = 0;    ///< highest in_use; on the CPU exact to 64 KiB per thread
  std::size_t peak_reserved = 0;  ///< highest reserved
  std::uint64_t requests = 0;     ///< allocate() calls served (those of zero bytes not counted)
  std::uint64_t releases = 0;     ///< deallocate() calls
  std::uint64_t allocations = 0;  ///< blocks asked from the system: constant after warm-up
  std::uint64_t frees = 0;        ///< blocks given back to the system
};

/// A source of memory on one device. Implementations are thread-safe.
class CT_API Allocator {
 public:
  virtual ~Allocator() = default;

  /// A block of at least `bytes` > 0, aligned to 64 bytes on the CPU and 512 on a GPU, whose content is
  /// undefined. It may be used at once by work queued on `stream`, and by other streams only after
  /// record_stream(). On the CPU `stream` says which memory pool the block is for: an allocator that wraps
  /// another passes it on. Throws OutOfMemoryError and then has changed nothing.
  virtual void* allocate(std::size_t bytes, const Stream& stream) = 0;
  /// Takes a block back: `bytes` and `stream` as they were at allocate(). May be called from any thread,
  /// and while work that uses the block is still queued on `stream`.
  virtual void deallocate(void* block, std::size_t bytes, const Stream& stream) noexcept = 0;
  /// Says that work queued on `user` so far reads or writes the block: after deallocate() it is not
  /// reused before that work is done. `block` is the address that allocate() returned.
  virtual void record_stream(void* block, std::size_t bytes, const Stream& user);
  /// Gives every cached block that can be freed back to the system.
  virtual void empty_cache();
  virtual MemoryStats stats() const;
  /// Sets the peaks to the present values.
  virtual void reset_peak();
  /// Allows at most `bytes` to be held from the system (0: no limit). Blocks already out stay valid.
  /// An allocator without such a limit throws ValueError.
  virtual void set_limit(std::size_t bytes);
};

namespace detail {
CT_API extern std::atomic<Allocator*> g_current_allocators[1 + kMaxCudaDevices];
CT_API Allocator& install_default_allocator(Device device);
}  // namespace detail

/// The allocator of `device`, for hot paths. The reference stays valid for the life of the process.
/// Throws DeviceError when the device is not there.
inline Allocator& current_allocator(Device device) {
  const int slot = device.is_cpu() ? 0 : 1 + device.index;
  if (slot <= kMaxCudaDevices) [[likely]] {
    Allocator* found = detail::g_current_allocators[slot].load(std::memory_order_acquire);
    if (found) [[likely]]
      return *found;
  }
  return detail::install_default_allocator(device);
}

/// The allocator of `device`, to wrap it or put it back later.
CT_API std::shared_ptr<Allocator> allocator(Device device);
/// Makes `replacement` the allocator of `device` for all threads. Blocks that are out go back to the
/// allocator they came from. Throws ValueError when `replacement` is null.
CT_API void set_allocator(Device device, std::shared_ptr<Allocator> replacement);

/// Replaces the allocator of `device` until the end of the scope.
class AllocatorGuard {
 public:
  [[nodiscard]] AllocatorGuard(Device device, std::shared_ptr<Allocator> replacement)
      : device_(device), previous_(allocator(device)) {
    set_allocator(device, std::move(replacement));
  }
  ~AllocatorGuard() { set_allocator(device_, std::move(previous_)); }
  AllocatorGuard(const AllocatorGuard&) = delete;
  AllocatorGuard& operator=(const AllocatorGuard&) = delete;

 private:
  Device device_;
  std::shared_ptr<Allocator> previous_;
};

/// Page-locked host memory, cached: copies from and to it run asynchronously. Give record_stream() the
/// stream of such a copy, so that the block is not reused before the copy is done. Without a usable GPU
/// this is plain CPU memory.
CT_API Allocator& pinned_allocator();

/// The statistics of the current allocator of `device`; a device that is not there has none.
CT_API MemoryStats memory_stats(Device device);
/// A small table of memory_stats(device) for people.
CT_API std::string memory_summary(Device device);
/// Sets the peaks of memory_stats(device) to the present values.
CT_API void reset_peak_stats(Device device);
/// Gives cached memory of `device` back to the system; the overload without a device does so for all.
CT_API void empty_cache(Device device);
CT_API void empty_cache();

/// A separate set of blocks of `device`. Between begin and end of a MemoryPoolGuard, blocks that the calling
/// thread allocates there come from this pool alone (on the CPU those of tensors), and they return to it,
/// whichever thread gives them back and whenever. Nobody else gets its memory, so that a recorded step owns
/// the addresses that it was recorded with. Where the same blocks are out, the same requests find the same
/// addresses, so a step that is repeated in its pool does, and takes nothing from the system. The memory
/// counts in memory_stats(), and stays when a cache is emptied. Throws DeviceError when the device is not
/// there.
using MemoryPoolId = std::uint64_t;
CT_API MemoryPoolId make_memory_pool(Device device);
/// Gives the memory of a pool back: what is free at once, the rest as its last blocks return (on a GPU at the
/// next empty_cache() after that). Another number than that of a pool does nothing.
CT_API void release_memory_pool(Device device, MemoryPoolId pool) noexcept;
/// Bytes that a pool holds from the system. Throws DeviceError.
CT_API std::size_t memory_pool_bytes(Device device, MemoryPoolId pool);

/// Sends the calling thread's allocations on `device` to `pool` until the end of the scope; 0 is the common memory, for a
/// scope within another. Throws ValueError unless make_memory_pool(device) made the pool and it is not released, and
/// DeviceError.
class CT_API MemoryPoolGuard {
 public:
  [[nodiscard]] MemoryPoolGuard(Device device, MemoryPoolId pool);
  ~MemoryPoolGuard();
  MemoryPoolGuard(const MemoryPoolGuard&) = delete;
  MemoryPoolGuard& operator=(const MemoryPoolGuard&) = delete;

 private:
  Device device_;
  MemoryPoolId pool_, previous_ = 0;
};

}  // namespace ct
