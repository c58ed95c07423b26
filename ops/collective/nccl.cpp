#include <dlfcn.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <optional>

#include <cotangent/core/device/runtime_internal.h>
#include <cotangent/ops/collective/group_internal.h>

// NCCL, opened when a group of GPUs is made. Its header is not needed: what is used of it has not changed since 2.11.

namespace ct::dist::detail {
namespace {

extern "C" {
struct NcclId {
  char bytes[128];
};
using NcclComm = void*;
}
constexpr int kSuccess = 0, kInProgress = 7;

struct NcclFunctions {
  int (*ncclGetUniqueId)(NcclId*);
  int (*ncclCommInitRank)(NcclComm*, int ranks, NcclId, int rank);
  int (*ncclCommDestroy)(NcclComm);
  int (*ncclCommAbort)(NcclComm);
  int (*ncclCommGetAsyncError)(NcclComm, int*);
  const char* (*ncclGetErrorString)(int);
  int (*ncclAllReduce)(const void*, void*, std::size_t, int type, int op, NcclComm, void* stream);
  int (*ncclBroadcast)(const void*, void*, std::size_t, int type, int root, NcclComm, void* stream);
  int (*ncclReduceScatter)(const void*, void*, std::size_t, int type, int op, NcclComm, void* stream);
  int (*ncclAllGather)(const void*, void*, std::size_t, int type, NcclComm, void* stream);
};

const NcclFunctions& nccl() {
  static const NcclFunctions loaded = [] {
    const char* const named = std::getenv("COTANGENT_NCCL");
    const std::string name = named && *named ? named : "libnccl.so.2";
    void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    CT_CHECK(library, DeviceError, "nccl", "ranks on GPUs need NCCL, which can't be loaded: ", ::dlerror(),
             "; install it (libnccl2), or name its file in COTANGENT_NCCL");
    NcclFunctions f;
#define CT_FIND(function)                                                           \
  f.function = reinterpret_cast<decltype(f.function)>(::dlsym(library, #function)); \
  CT_CHECK(f.function, DeviceError, "nccl", name, " has no " #function "; 2.11 or newer is wanted");
    CT_FIND(ncclGetUniqueId)
    CT_FIND(ncclCommInitRank)
    CT_FIND(ncclCommDestroy)
    CT_FIND(ncclCommAbort)
    CT_FIND(ncclCommGetAsyncError)
    CT_FIND(ncclGetErrorString)
    CT_FIND(ncclAllReduce)
    CT_FIND(ncclBroadcast)
    CT_FIND(ncclReduceScatter)
    CT_FIND(ncclAllGather)
#undef CT_FIND
    return f;
  }();
  return loaded;
}

void check_result(int result, const std::string& what) {
  CT_CHECK(result == kSuccess || result == kInProgress, PeerError, "nccl", what,
           " failed: ", nccl().ncclGetErrorString(result), "; NCCL_DEBUG=WARN says more");
}

int type_of(DType t) {
  switch (t) {
    case DType::u8:
    case DType::boolean: return 1;
    case DType::i32: return 2;
    case DType::i64: return 4;
    case DType::f16: return 6;
    case DType::f32: return 7;
    case DType::f64: return 8;
    case DType::bf16: return 9;
  }
  return 1;
}
int op_of(ReduceOp op) {
  constexpr int theirs[] = {0, 4, 2, 3, 1};  // sum, mean, max, min, prod
  return theirs[static_cast<int>(op)];
}

// Calls that are under way are watched by a thread: one that takes longer than the group's limit, or an error of NCCL's, fails
// the group, and abort() lets the kernels end that wait for other ranks.
class NcclRank final : public Nccl {
 public:
  explicit NcclRank(GroupState& group)
      : group_(group), device_(group.device), stream_(new_stream(group.device, -1)) {
    const DeviceGuard guard(device_);
    NcclId id{};
    if (group.rank == 0) check_result(nccl().ncclGetUniqueId(&id), "ncclGetUniqueId");
    const Tensor bytes = Tensor::allocate({sizeof id}, DType::u8, cpu);
    std::memcpy(bytes.raw_data(), &id, sizeof id);
    group.run(Kind::broadcast, bytes, bytes, ReduceOp::sum, 0, false);
    std::memcpy(&id, bytes.raw_data(), sizeof id);
    check_result(nccl().ncclCommInitRank(&comm_, group.size, id, group.rank),
                 "ncclCommInitRank of rank " + std::to_string(group.rank) + " on " + to_string(device_) +
                     ", a GPU that no other rank may have,");
    watch_ = std::thread([this] { watch(); });
  }

  ~NcclRank() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_.notify_all();
    watch_.join();
    // Destroying one waits for the other ranks, aborting does not.
    if (NcclComm comm = std::exchange(comm_, nullptr)) nccl().ncclCommAbort(comm);
  }

  void run(Kind kind, const Tensor& x, const Tensor& y, ReduceOp op, int root, bool later,
           const std::string& what) override {
    if (x.nbytes() == 0) return;
    const Stream current = current_stream(device_);
    const std::lock_guard lock(mutex_);
    CT_CHECK(comm_, PeerError, "nccl", what, " of a group that has failed; Group::check() says why");
    active_ = Clock::now(), probed_ = false;
    before_.record(current);
    before_.wait(stream_);
    const int type = type_of(x.dtype());
    const auto n = static_cast<std::size_t>(x.numel());
    const NcclFunctions& f = nccl();
    const auto call = [&] {
      switch (kind) {
        case Kind::all_reduce:
          return f.ncclAllReduce(x.raw_data(), y.raw_data(), n, type, op_of(op), comm_, stream_.native);
        case Kind::broadcast:
          return f.ncclBroadcast(x.raw_data(), y.raw_data(), n, type, root, comm_, stream_.native);
        case Kind::reduce_scatter:
          return f.ncclReduceScatter(x.raw_data(), y.raw_data(), static_cast<std::size_t>(y.numel()), type,
                                     op_of(op), comm_, stream_.native);
        case Kind::all_gather:
          return f.ncclAllGather(x.raw_data(), y.raw_data(), n, type, comm_, stream_.native);
        case Kind::barrier: break;
      }
      return kSuccess;
    };
    check_result(call(), what);
    after_.record(stream_);
    if (!later) after_.wait(current);
    if (ct::detail::runtime::is_capturing(current.native)) return;  // a graph's events can't be asked
    if (later) x.impl()->storage->record_stream(stream_);           // it may be let go of before join()
    watch_for(stream_, what);
  }

  void join() override {
    const std::lock_guard lock(mutex_);
    const Stream current = current_stream(device_);
    // In a capture only what was captured can be waited for; the calls before it are under way since before.
    if (ct::detail::runtime::is_capturing(current.native) &&
        !ct::detail::runtime::is_capturing(stream_.native))
      return;
    after_.record(stream_);
    after_.wait(current);
  }

  void before_replay() noexcept override {
    const std::lock_guard lock(mutex_);
    replays_on_ = current_stream(device_);
    active_ = Clock::now(), probed_ = false;
  }

  void finish() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      probe();
    }
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (under_way_.empty()) return;
      }
      wake_.notify_all();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void abort() noexcept override {
    NcclComm comm = nullptr;
    {
      const std::lock_guard lock(mutex_);
      comm = std::exchange(comm_, nullptr);
      under_way_.clear();
    }
    if (comm)
      nccl().ncclCommAbort(comm);  // it lets kernels end, and returns when no graph has calls of it any more
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct UnderWay {
    Event done;
    std::string what;
    Clock::time_point since;
  };

  void watch_for(const Stream& stream, const std::string& what) {
    Event done;
    done.record(stream);
    under_way_.push_back({std::move(done), what, Clock::now()});
  }
  // The end of the replays that the device has been given, once after the last of them.
  void probe() noexcept {
    if (!replays_on_ || probed_ || !comm_ || ct::detail::runtime::is_capturing(replays_on_->native)) return;
    probed_ = true;
    try {
      watch_for(*replays_on_, "the collectives of a captured step");
    } catch (const Error&) {  // NOLINT: the device's error comes to whoever waits for it
    }
  }

  void watch() {
    const DeviceGuard guard(device_);
    std::unique_lock lock(mutex_);
    while (!ended_) {
      wake_.wait_for(lock, std::chrono::milliseconds(100));
      std::string why = group_.transport->failure();
      int error = kSuccess;
      if (comm_ && nccl().ncclCommGetAsyncError(comm_, &error) == kSuccess && error != kSuccess &&
          error != kInProgress)
        why = ct::detail::cat("NCCL's error on rank ", group_.rank, ": ", nccl().ncclGetErrorString(error));
      try {
        while (!under_way_.empty() && under_way_.front().done.query()) under_way_.pop_front();
      } catch (const std::exception& e) {
        why = ct::detail::cat("rank ", group_.rank, "'s GPU has failed: ", e.what());
      }
      if (Clock::now() - active_ > group_.timeout / 2) probe();
      if (why.empty() && !under_way_.empty() && Clock::now() - under_way_.front().since > group_.timeout)
        why = ct::detail::cat("a rank did not come to ", under_way_.front().what, " of rank ", group_.rank,
                              " within ", static_cast<double>(group_.timeout.count()) / 1000, " s");
      if (why.empty()) continue;
      lock.unlock();
      group_.fail(why);
      lock.lock();
    }
  }

  GroupState& group_;
  const Device device_;
  const Stream stream_;
  NcclComm comm_ = nullptr;
  Event before_, after_;
  std::optional<Stream> replays_on_;         // where captured calls are replayed
  Clock::time_point active_ = Clock::now();  // of the last call or replay
  bool probed_ = false;                      // since then
  std::deque<UnderWay> under_way_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread watch_;
};

}  // namespace

std::unique_ptr<Nccl> open_nccl(GroupState& group) { return std::make_unique<NcclRank>(group); }

}  // namespace ct::dist::detail
