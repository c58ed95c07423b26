#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/ref.h>
#include <cotangent/core/device/device.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/core/memory/pool.h>

namespace ct {

/// Counted bytes on a device. Tensors that are views of one another share one Storage.
///
/// The version counter goes up with every in-place change, by whichever view. Backward compares it with
/// the version at the time a tensor was saved, so that an in-place change of a saved value is an error
/// that is reported rather than a gradient that is silently wrong.
class CT_API Storage final : public RefCounted, public Pooled {
 public:
  /// `bytes` of uninitialised memory from the device's current allocator, on its current stream.
  static Ref<Storage> allocate(std::size_t bytes, Device device);
  /// Memory that somebody else owns; `release` is called when the last view is gone (may be empty).
  static Ref<Storage> wrap(void* data, std::size_t bytes, Device device, std::function<void()> release);
  /// Page-locked host memory (plain host memory without CUDA), from which copies to a GPU are asynchronous.
  static Ref<Storage> allocate_pinned(std::size_t bytes);
  ~Storage() override;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool is_pinned() const { return pinned_; }
  /// False for memory that somebody else owns, and may look at (wrap()).
  bool is_owned() const { return allocator_ != nullptr; }
  /// A number that no other storage of the process has, before or after, given at the first call. Tracers remember memory
  /// by it: a handle that they kept would be counted where the tape asks whether it may write over a value, an address
  /// comes again.
  std::uint64_t id() const;
  /// The stream that the bytes were allocated on; on the CPU `native` is the memory pool.
  const Stream& stream() const { return stream_; }

  std::uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { detail::count(version_, 1u, std::memory_order_relaxed); }

  /// Counts the in-place changes that were recorded on a tape. A view remembers the count at its birth:
  /// a difference means that the view's place in the tape is out of date.
  std::uint32_t history_version() const { return history_version_.load(std::memory_order_relaxed); }
  void bump_history_version() { detail::count(history_version_, 1u, std::memory_order_relaxed); }

  /// Counts the in-place changes that were made while recording and are not on the tape, by a view made under NoGrad or a
  /// detached handle: a result on the tape that was there before has other values than the tape says.
  std::uint32_t unrecorded_version() const { return unrecorded_version_.load(std::memory_order_relaxed); }
  void bump_unrecorded_version() { detail::count(unrecorded_version_, 1u, std::memory_order_relaxed); }

  /// Tells the allocator that work on `stream` uses these bytes, so that they are not handed out again
  /// before that work is done.
  void record_stream(const Stream& stream);

 private:
  Storage() = default;

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Allocator* allocator_ = nullptr;  // null for wrapped memory
  Device device_;
  bool pinned_ = false;
  std::atomic<std::uint32_t> version_{0};
  std::atomic<std::uint32_t> history_version_{0};
  std::atomic<std::uint32_t> unrecorded_version_{0};
  Stream stream_;  // the stream the bytes were allocated on; on the CPU the memory pool
  std::function<void()> release_;
  mutable std::atomic<std::uint64_t> id_{0};
};

}  // namespace ct
