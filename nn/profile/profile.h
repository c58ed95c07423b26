#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/base/function_ref.h>
#include <cotangent/core/device/device.h>
#include <cotangent/core/op/device_limits.h>

// Where a program's time and memory go: a table by op and direction, each held against the limit of its device, and a trace. In
// Cotangent::io.
//
//     ct::Profile profile = ct::profile([&] { for (int i = 0; i < 5; ++i) step(x, y); }, {.memory = true});
//     profile.table(std::cout);
//     profile.trace("step.json");  // for https://ui.perfetto.dev

namespace ct {

struct ProfileOptions {
  /// Follows each block of memory, for Profile::peaks and ProfileRow::kept.
  bool memory = false;
};

/// One line of the table: the calls of an op, forward or backward, on a device.
struct ProfileRow {
  std::string op;
  bool backward = false;
  Device device;
  std::int64_t calls = 0;
  std::int64_t kernels = 0;  ///< with copies and memsets; 0: not known
  double self_us = 0;        ///< microseconds, without calls of other ops that its kernels make
  double total_us = 0;       ///< with them
  double share = 0;          ///< self_us of the time of the whole
  double flops = 0;          ///< of OpDef::cost; of backward as many for each gradient, at most of two inputs
  double bytes = 0;          ///< that have to be moved: of each tensor the memory that it covers, once
  double limit = 0;          ///< least time by device_limits(), over total_us; 0: not known, or it did less
  bool memory_bound = false;  ///< the limit is that of memory, else that of products
  std::int64_t kept = 0;      ///< bytes that it made and that were alive at the peak
};

/// Calls that profile() saw, to print, to write, and for programs to read.
class CT_API Profile {
 public:
  /// One call of an op. Times are microseconds since the profile began; on a GPU `start_us` and `us` are the device's: the sum
  /// of its kernels' times as CUPTI tells them, else what events around the call tell. What is launched outside of calls
  /// has the name "(no op)".
  struct Call {
    std::uint32_t op = 0;  ///< place in `ops`
    bool backward = false;
    DType dtype = DType::f32;  ///< of what it computes on
    Device device;
    std::int32_t parent = -1;  ///< the call that it is a part of; -1: none
    double start_us = 0, us = 0;
    double host_start_us = 0, host_us = 0;
    std::int64_t kernels = 0;  ///< that it launched itself; 0 where events tell the times
    double flops = 0, bytes = 0;
  };
  /// Bytes alive at a peak, by the calls that made them. Without an op: from before, of code outside of ops, or of other threads.
  struct Owner {
    std::string op, direction;
    std::size_t bytes = 0;
  };
  struct Peak {
    Device device;
    std::size_t bytes = 0;
    std::string op, direction;  ///< of the call that asked for the last of them
    std::vector<Owner> owners;  ///< the largest first
  };

  std::vector<std::string> ops;
  std::vector<Call> calls;  ///< in the order in which they began
  double seconds = 0;       ///< by the host's clock, until devices had done their work
  std::uint64_t waits = 0;  ///< implicit waits of the host for a device (sync_count())
  std::vector<Peak> peaks;  ///< with ProfileOptions::memory, of each device that memory was asked of

  /// The table's lines, the largest self_us first. Measures device_limits() at the first time: some seconds.
  std::vector<ProfileRow> rows() const;
  /// Seconds that the calls would take at their limits.
  double least_seconds() const;
  /// Prints rows(), gaps between calls, the share of the limit of the whole, and the peaks of memory.
  void table(std::ostream& out) const;
  /// Writes the calls as Chrome's trace events, which Perfetto opens, through io::AtomicFile. Throws IoError.
  void trace(const std::string& path) const;
};
/// Prints the table.
CT_API std::ostream& operator<<(std::ostream& out, const Profile& profile);

/// Records the calls of ops that the calling thread makes, until stop(): for loops that profile() can't hold. Those of other
/// threads are not seen; their time is a gap. On a GPU the times are CUPTI's where its library is found, else those of two events
/// around each call (some microseconds of the device's time); nothing waits before stop(). Recording keeps no tensor and changes
/// no bit. Profilers nest like scopes.
class CT_API Profiler {
 public:
  /// Waits for the devices in use. Throws Error with `memory` while another follows memory already, on whichever thread.
  explicit Profiler(const ProfileOptions& options = {});
  /// Without stop(): forgets what was recorded.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;
  /// Waits for the devices in use; nothing is recorded afterwards. Throws Error at the second time and on another thread, and
  /// what synchronize() throws.
  Profile stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Calls `fn` with a Profiler around it. An exception of fn's passes through.
CT_API Profile profile(FunctionRef<void()> fn, const ProfileOptions& options = {});

struct TimeOptions {
  int warmup = 3;     ///< calls before the clock runs
  int runs = 20;      ///< calls of which each is timed
  bool flush = true;  ///< before each, fill the caches with other data
  /// The device that works; by default a GPU where the first call ran an op on one, else the CPU.
  std::optional<Device> device = {};
};
/// The median of the times of fn(), in seconds: by events on a GPU's current stream, which is waited for once at the end, by
/// the steady clock on the CPU. Throws ValueError for counts that are too small, and what fn throws.
CT_API double time_of(FunctionRef<void()> fn, const TimeOptions& options = {});

/// The fastest products of `dtype`, and the fastest copies, sums and additions at each size, that the library's ops reach on
/// `device`: measured at the first call, in a second or two, and remembered, for as many threads as there are. Throws
/// DeviceError, and DTypeError unless `dtype` is a floating one.
CT_API DeviceLimits device_limits(Device device, DType dtype = DType::f32);

}  // namespace ct
