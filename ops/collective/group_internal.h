#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <cotangent/core/device/stream.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/collective/collective.h>
#include <cotangent/ops/collective/group.h>
#include <cotangent/ops/collective/transport_internal.h>

// A group's insides: the transport of the host, NCCL for GPUs, the log, the watch.

namespace ct::dist::detail {

class Nccl;

enum class Kind : std::uint8_t { all_reduce, broadcast, reduce_scatter, all_gather, barrier };
const char* name(Kind kind);

/// A call that a rank is about to make: ranks compare it byte by byte, so there are no gaps.
struct Intent {
  std::uint64_t number = 0;  // of the call
  std::int64_t sizes[kMaxRank] = {};
  std::int32_t rank = 0, root = 0;
  Kind kind = Kind::barrier;
  ReduceOp op = ReduceOp::sum;
  std::uint8_t dtype = 0, gpu = 0;
  char version[12] = {};
};

struct GroupState {
  /// A rank of several; meet() is next.
  GroupState(std::unique_ptr<Transport> how, int the_rank, int the_size, Device where,
             std::chrono::milliseconds limit);
  GroupState();
  ~GroupState();

  /// Runs a collective whose result is y. `later`: on a GPU it runs beside the current stream, until join().
  void run(Kind kind, const Tensor& x, const Tensor& y, ReduceOp op, int root, bool later);
  void join();
  /// Whether the group goes on, for a captured step of it that is about to be replayed.
  bool before_replay();
  void fail(const std::string& why) noexcept;
  /// Throws the failure, if there is one, as that of a call.
  void check(const std::string& what = {});
  std::vector<GroupCall> log() const;

  int rank = 0, size = 1;
  Device device;
  std::chrono::milliseconds timeout{};
  const std::uint64_t id;

  std::unique_ptr<Transport> transport;
  std::unique_ptr<Nccl> nccl;

 private:
  static constexpr std::size_t kLog = 1024;
  void exchange(std::span<const Part> give, std::span<const Part> take, const std::string& what);
  void compare(const Intent& mine, const std::string& what);
  void on_host(Kind kind, const Tensor& x, const Tensor& y, ReduceOp op, int root, const std::string& what);
  GroupCall& enter(const std::string& what, double bytes);
  double now_ms() const;

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::set<std::string> known_;  // calls that were compared
  std::vector<std::byte> room_;  // what others give of a sum
  mutable std::mutex mutex_;     // of log_ and failure_
  std::vector<GroupCall> log_;
  std::uint64_t calls_ = 0;
  std::string failure_;
  std::atomic<bool> failed_{false};
};

/// Makes a group that group_of() finds; meet() is its first call, and opens NCCL.
std::shared_ptr<GroupState> make_group(std::unique_ptr<Transport> how, int rank, int size, Device device,
                                       std::chrono::milliseconds timeout);
void meet(GroupState& group);

/// The group of that number; throws Error where it has ended.
std::shared_ptr<GroupState> group_of(const char* op, std::uint64_t id);

/// NCCL's communicator of a rank. Its calls are queued on a stream of its own.
std::unique_ptr<Nccl> open_nccl(GroupState& group);

class Nccl {
 public:
  virtual ~Nccl() = default;
  virtual void run(Kind kind, const Tensor& x, const Tensor& y, ReduceOp op, int root, bool later,
                   const std::string& what) = 0;
  virtual void join() = 0;
  /// Replays of captured calls are watched as a whole: where the host makes no call for long, and the device does not come to the end
  /// of what it was given.
  virtual void before_replay() noexcept = 0;
  /// Waits until what is under way is done, or the group has failed.
  virtual void finish() noexcept = 0;
  /// Lets kernels that wait for other ranks end.
  virtual void abort() noexcept = 0;
};

}  // namespace ct::dist::detail
