#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include <cotangent/ops/collective/group.h>
#include <cotangent/ops/collective/transport_internal.h>

// MPI, opened where mpirun has started this process. Open MPI and MPICH differ in their handles, pointers here and numbers
// there; both go through registers as 64 bits, and what is written through a pointer has room for either.

namespace ct::dist::detail {
namespace {

using Handle = std::uintptr_t;
constexpr int kTag = 0x0C7, kSerialized = 2, kPiece = 1 << 30;

struct MpiFunctions {
  int (*MPI_Init_thread)(int*, char***, int wanted, int* got);
  int (*MPI_Initialized)(int*);
  int (*MPI_Finalized)(int*);
  int (*MPI_Comm_rank)(Handle, int*);
  int (*MPI_Comm_size)(Handle, int*);
  int (*MPI_Isend)(const void*, int count, Handle type, int to, int tag, Handle comm, Handle* request);
  int (*MPI_Irecv)(void*, int count, Handle type, int from, int tag, Handle comm, Handle* request);
  int (*MPI_Test)(Handle* request, int* done, void* status);
  int (*MPI_Abort)(Handle comm, int code);
  int (*MPI_Finalize)();
  Handle world, byte;
  void* no_status;
};

MpiFunctions open_mpi() {
  const char* const named = std::getenv("COTANGENT_MPI");
  // A machine may have both: the library is the starter's.
  const bool ompi = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  void* library = nullptr;
  for (const char* name : {named && *named ? named
                           : ompi          ? "libmpi.so.40"
                                           : "libmpich.so.12",
                           ompi ? "libmpi.so" : "libmpi.so.12", "libmpi.so"})
    if (!library) library = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL);  // its plugins look for its symbols
  CT_CHECK(library, IoError, "mpi", "mpirun has started this process, and MPI can't be loaded: ", ::dlerror(),
           "; install it (libopenmpi3), or name its file in COTANGENT_MPI");
  MpiFunctions f;
#define CT_FIND(function)                                                           \
  f.function = reinterpret_cast<decltype(f.function)>(::dlsym(library, #function)); \
  CT_CHECK(f.function, IoError, "mpi", "the library has no " #function "; it is none of MPI's");
  CT_FIND(MPI_Init_thread)
  CT_FIND(MPI_Initialized)
  CT_FIND(MPI_Finalized)
  CT_FIND(MPI_Comm_rank)
  CT_FIND(MPI_Comm_size)
  CT_FIND(MPI_Isend)
  CT_FIND(MPI_Irecv)
  CT_FIND(MPI_Test)
  CT_FIND(MPI_Abort)
  CT_FIND(MPI_Finalize)
#undef CT_FIND
  if (void* const world = ::dlsym(library, "ompi_mpi_comm_world")) {  // Open MPI
    f.world = reinterpret_cast<Handle>(world);
    f.byte = reinterpret_cast<Handle>(::dlsym(library, "ompi_mpi_byte"));
    f.no_status = nullptr;
  } else {  // MPICH's ABI
    f.world = 0x44000000, f.byte = 0x4c00010d;
    f.no_status = reinterpret_cast<void*>(1);
  }
  return f;
}

class Mpi final : public Transport {
 public:
  Mpi(int& rank, int& size) : mpi_(open_mpi()) {
    int started = 0, got = 0;
    mpi_.MPI_Initialized(&started);
    if (!started) mpi_.MPI_Init_thread(nullptr, nullptr, kSerialized, &got);
    ours_ = !started;
    mpi_.MPI_Comm_rank(mpi_.world, &rank_);
    mpi_.MPI_Comm_size(mpi_.world, &size_);
    rank = rank_, size = size_;
  }

  const char* name() const override { return "mpi"; }
  bool compares() const override { return false; }

  std::vector<int> exchange(std::span<const Part> give, std::span<const Part> take,
                            Deadline deadline) override {
    struct Waiting {
      int peer;
      Handle request;
    };
    std::vector<Waiting> open;
    static char nothing;
    const auto each_piece = [&](const Part& part, const auto& f) {
      auto* at = static_cast<char*>(part.data);
      std::size_t left = part.bytes;
      do {  // an empty part is a message, too: ranks meet
        const auto n = static_cast<int>(std::min<std::size_t>(left, kPiece));
        f(n > 0 ? at : &nothing, n);
        at += n, left -= static_cast<std::size_t>(n);
      } while (left > 0);
    };
    for (int q = 0; q < size_; ++q) {
      const Part &in = take[static_cast<std::size_t>(q)], &out = give[static_cast<std::size_t>(q)];
      if (q == rank_) continue;
      each_piece(in, [&](char* at, int n) {
        open.push_back({q, 0});
        mpi_.MPI_Irecv(at, n, mpi_.byte, q, kTag, mpi_.world, &open.back().request);
      });
      each_piece(out, [&](char* at, int n) {
        open.push_back({q, 0});
        mpi_.MPI_Isend(at, n, mpi_.byte, q, kTag, mpi_.world, &open.back().request);
      });
    }
    for (std::uint64_t turn = 0; !open.empty(); ++turn) {
      std::erase_if(open, [&](Waiting& w) {
        int done = 0;
        mpi_.MPI_Test(&w.request, &done, mpi_.no_status);
        return done != 0;
      });
      if (open.empty()) break;
      if (turn % 64 == 63) {
        if (std::chrono::steady_clock::now() > deadline) break;
        std::this_thread::yield();
      }
    }
    std::vector<int> missing;
    for (const Waiting& w : open)
      if (missing.empty() || missing.back() != w.peer) missing.push_back(w.peer);
    return missing;
  }

  void abort(const std::string&) noexcept override {}  // the others' limits end, or close() ends them

  void close(bool failed) noexcept override {
    int ended = 0;
    mpi_.MPI_Finalized(&ended);
    if (ended) return;
    // MPI_Finalize waits for ranks that may not come.
    if (failed)
      mpi_.MPI_Abort(mpi_.world, 1);
    else if (ours_)
      mpi_.MPI_Finalize();
  }

 private:
  const MpiFunctions mpi_;
  bool ours_ = false;
  int rank_ = 0, size_ = 1;
};

}  // namespace

std::unique_ptr<Transport> mpi_transport(int& rank, int& size) { return std::make_unique<Mpi>(rank, size); }

}  // namespace ct::dist::detail
