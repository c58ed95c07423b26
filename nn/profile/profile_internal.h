#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <cotangent/core/base/function_ref.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/profile/profile.h>

// Shared declarations of this folder's files.

namespace ct::profile_impl {

/// Nanoseconds of the steady clock.
std::int64_t host_ns();
/// Waits for every GPU that this process has memory of.
void wait_for_devices();
/// The times that time_of() takes the median of, from the shortest.
std::vector<double> times_of(FunctionRef<void()> fn, const TimeOptions& options);
inline const char* direction(bool backward) { return backward ? "bwd" : "fwd"; }

/// Costs of calls. While they run the shapes are noted, in a row of words; OpDef::cost is asked afterwards.
class CallCosts {
 public:
  CallCosts() : words_(1 << 17) { words_.clear(); }  // pages that are there already: a first touch takes time
  /// Notes a call that has run; returns its place.
  std::size_t note(const KernelCall& call);
  /// Cost of the call of `op` noted there, but no more bytes than its tensors have in memory: what a gather reads twice comes
  /// from a cache. In backward a product's gradient by one of its factors takes as many operations as the product.
  Cost cost(const OpDef& op, std::size_t place) const;

 private:
  void note(const Tensor& t, std::int64_t flags = 0);
  std::vector<std::int64_t> words_;
};

/// Kernels, copies and memsets that GPUs ran, as CUPTI records them, each with the call that launched it. One at a time.
class KernelRecords {
 public:
  struct Work {
    std::int32_t call = -1;  // the innermost; -1: launched outside of calls
    bool kernel = false;
    int device = 0;
    double start_ns = 0, ns = 0;  // on the host's clock
  };
  /// Null without CUPTI (COTANGENT_CUPTI names its library; 0: none), without a GPU in use, or while another records, a tool of
  /// NVIDIA's as well.
  static std::unique_ptr<KernelRecords> begin();
  KernelRecords() = default;
  ~KernelRecords();
  KernelRecords(const KernelRecords&) = delete;
  KernelRecords& operator=(const KernelRecords&) = delete;
  /// The calling thread's launches are `call`'s until leave().
  void enter(std::int32_t call);
  void leave();
  /// Ends the recording. The devices must be done.
  std::vector<Work> finish();

 private:
  double offset_ = 0;  // of the host's clock to CUPTI's
};

/// When calls began and ended on GPUs, where there are no KernelRecords: events in their streams, read after a wait.
class GpuClock {
 public:
  GpuClock() = default;
  ~GpuClock();
  GpuClock(const GpuClock&) = delete;
  GpuClock& operator=(const GpuClock&) = delete;
  /// Marks the point in `stream` behind the work queued so far; returns the mark's number.
  std::int32_t mark(const Stream& stream);
  /// Nanoseconds on the host's clock at which the mark was reached, if the device was idle at the first mark. Waits.
  double ns(std::int32_t mark) const;
  double ns_between(std::int32_t from, std::int32_t to) const;

 private:
  struct First {
    std::int32_t mark = -1;
    std::int64_t host = 0;
  };
  std::vector<Event> events_;
  std::vector<std::size_t> devices_;  // of each event: 1 + its number
  std::vector<First> first_;          // by device
};

/// Follows the blocks of memory of the devices in use while it lives, of all threads: allocators of its own stand before
/// theirs. One at a time: the constructor throws Error.
class MemoryWatch {
 public:
  static constexpr std::int32_t kOutside = -1, kOthers = -2, kBefore = -3;

  /// `open` holds the number of the innermost call of the calling thread, or -1.
  explicit MemoryWatch(const std::int32_t& open);
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;
  /// Says that `t` is a result of the open call: if nobody's, its block is that call's.
  void claim(const Tensor& t);
  /// Profile::Peak with the calls' numbers, or kBefore, kOutside, kOthers, in the place of names.
  struct Peak {
    Device device;
    std::size_t bytes = 0;
    std::int32_t call = kOutside;
    std::vector<std::pair<std::int32_t, std::size_t>> owners;
  };
  std::vector<Peak> peaks() const;

  struct Entry;

 private:
  struct Log;
  std::unique_ptr<Log> log_;
};

}  // namespace ct::profile_impl
