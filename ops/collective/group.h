#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/base/number.h>
#include <cotangent/core/device/device.h>

// Ranks that work together: who they are, how they find each other, and what is told when one of them fails. What they do
// together stands in collective.h, training on several of them in nn/parallel.
//
//     ct::dist::Group world = ct::dist::init();   // mpirun, srun, torchrun, or one process alone
//     ct::dist::all_reduce_(t, world);

namespace ct {

/// A rank is gone, late, or does something else than the others. The message names the rank and the call. Every rank of the
/// group gets one, and each later call of the group throws it again.
class CT_API PeerError : public Error {
 public:
  using Error::Error;
};

namespace dist {

namespace detail {
struct GroupState;
}

struct GroupOptions {
  /// The longest time that a call waits for another rank.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// A call of a group, as its log keeps it.
struct GroupCall {
  std::uint64_t number;  ///< counted from 1 on each rank
  std::string name;      ///< "all_reduce f32[1024]"
  double bytes;          ///< of the tensor that this rank gives
  double start_ms;       ///< since the group was made
  double ms;             ///< on the host; negative while it runs, and where it has failed
};

/// Ranks 0 to size() - 1, one of which is this one. A handle, copied freely; the group ends with its last handle, and the other
/// ranks are told. By default a group of this rank alone, whose collectives change nothing.
///
/// All ranks make the same calls in the same order, each from one thread at a time. What they call is compared at each call
/// between threads and over TCP, elsewhere at the first call of each kind: the version of the library, the op, shape, dtype
/// and options. PeerError says which rank differs.
class CT_API Group {
 public:
  Group();
  int rank() const;
  int size() const;
  /// Device of the tensors that the group's ranks work on. Tensors of the CPU are taken by every group.
  Device device() const;
  /// "alone", "threads", "tcp" or "mpi", with " + nccl" behind it where tensors of a GPU are taken.
  std::string backend() const;
  /// The newest calls, at most 1,024, the oldest first: what to print when a rank has failed.
  std::vector<GroupCall> log() const;
  /// Ends the group with an error on every rank; calls that wait throw it. Never throws, never waits.
  void abort(const std::string& why) const noexcept;
  /// Throws PeerError if the group has failed.
  void check() const;

  detail::GroupState& state() const { return *state_; }
  explicit Group(std::shared_ptr<detail::GroupState> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<detail::GroupState> state_;
};

struct InitOptions {
  /// Left out: the GPU whose number is this rank's among those of its host, or the CPU where there is none.
  std::optional<Device> device = {};
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// The group of all processes that were started together, by the environment:
///  * OMPI_COMM_WORLD_SIZE or PMI_SIZE (mpirun): over MPI, whose library is opened then (COTANGENT_MPI names its file).
///  * RANK and WORLD_SIZE, with MASTER_ADDR, MASTER_PORT, LOCAL_RANK (torchrun's): rank 0 listens there. On the CPU tensors
///    go through rank 0 as well, which serves tests and small models; MPI is faster.
///  * SLURM_STEP_NUM_TASKS and SLURM_PROCID (srun's; a batch script that starts the program itself has none), with SLURM_LOCALID,
///    and MASTER_ADDR, or SLURM_LAUNCH_NODE_IPADDR, for rank 0's host: as RANK and WORLD_SIZE.
///  * none of these: this process alone, for which neither MPI nor NCCL is opened.
/// Tensors of GPUs go through NCCL, which is opened then (COTANGENT_NCCL names its file).
///
/// Collective: returns when all ranks have come. Call it once in a process, in main(), so that the group ends before the
/// process does. Throws ValueError for an environment that makes no sense, IoError where the ranks don't meet, PeerError for
/// another version of the library, DeviceError.
CT_API Group init(const InitOptions& options = {});

/// Runs f(group) in `ranks` threads of this process, of which each is a rank, and returns when all have ended. `devices` names
/// the device of each rank; without it all are on the CPU. Sums are taken in the order of the ranks: the bits are the same in
/// every run. The threads share the default generator: what draws is made before, or in one rank.
/// Throws what the first rank to fail has thrown; the others' calls throw PeerError meanwhile.
CT_API void run_threads(Integer ranks, const std::function<void(Group)>& f, const GroupOptions& options = {},
                        const std::vector<Device>& devices = {});

}  // namespace dist
}  // namespace ct
