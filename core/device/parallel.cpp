#include <cotangent/core/device/parallel.h>

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <cotangent/core/base/error.h>
#include <cotangent/core/device/executor.h>

namespace ct {
namespace {

using Body = FunctionRef<void(std::int64_t, std::int64_t)>;
using Clock = std::chrono::steady_clock;

constexpr int kMaxThreads = 1024;

// True in the pool's threads, and in a caller while its job runs: parallel calls then run inline.
constinit thread_local bool inside_job = false;
// True under a NoThreads guard: the same, of the thread's own will.
constinit thread_local bool alone = false;
// True in a caller while an executor has its job, but for the pieces.
constinit thread_local bool lending = false;

struct Raised {
  explicit Raised(bool& f) : flag(f), before(std::exchange(f, true)) {}
  ~Raised() { flag = before; }
  bool& flag;
  const bool before;
};

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The chunks are dealt out in ranges, one for each who takes part, in their order: who works on a part of a tensor in one
// job works on the same part in the next, and finds it in the caches of its core, or in the memory next to it. Who is
// through with a range helps with the others.
//
// A cache line takes 50 to 100 ns from core to core. So what everybody reads lies in one line, and what is written in as many
// as there are ranges.
struct alignas(64) Job {
  Job(const Body& b, std::int64_t size, std::int64_t step, std::int64_t count, int workers)
      : body(b),
        n(size),
        grain(step),
        chunks(count),
        ranges(static_cast<int>(std::min<std::int64_t>({count, workers, kMostRanges}))) {
    for (int r = 0; r < ranges; ++r) next[r].chunk.store(first(r), std::memory_order_relaxed);
  }

  static constexpr int kMostRanges = 64;

  Body body;
  std::int64_t n;
  std::int64_t grain;
  std::int64_t chunks;
  int ranges;
  std::atomic<std::int64_t> error_chunk{std::numeric_limits<std::int64_t>::max()};
  struct alignas(64) Next {
    std::atomic<std::int64_t> chunk;
  };
  Next next[kMostRanges];
  std::mutex error_mutex;
  std::exception_ptr error;

  std::int64_t first(std::int64_t range) const { return chunks * range / ranges; }

  // Takes chunks until none is left, those of range `own` first.
  void work(int own) {
    for (int i = 0; i < ranges; ++i) {
      const int range = (own + i) % ranges;
      const std::int64_t end = first(range + 1);
      std::atomic<std::int64_t>& counter = next[range].chunk;
      while (counter.load(std::memory_order_relaxed) < end) {
        const std::int64_t chunk = counter.fetch_add(1, std::memory_order_relaxed);
        // After an error what comes before it is still run, so that the error that is kept is that of the lowest chunk
        // that throws, whichever was faster.
        if (chunk >= end || chunk > error_chunk.load(std::memory_order_relaxed)) break;
        run(chunk);
      }
    }
  }

  void run(std::int64_t chunk) {
    const std::int64_t begin = chunk * grain;
    try {
      body(begin, chunk == chunks - 1 ? n : begin + grain);
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (chunk < error_chunk) {
        error_chunk = chunk;
        error = std::current_exception();
      }
    }
  }
};

// The pool runs one job at a time. A 32-bit word tells its state: how many workers are inside the job,
// whether it is open to more, and a serial number. A worker enters by a compare-and-swap that succeeds only
// while the job is open; the owner closes it when no chunk is left and then waits for those inside only. A
// worker that is still asleep by then has missed the job and delays no other: on a busy machine the caller
// does it all alone.
class Pool {
 public:
  explicit Pool(int threads) : threads_(threads) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return threads_.load(std::memory_order_relaxed); }

  void run(std::int64_t n, std::int64_t grain, const Body& body) {
    const std::int64_t chunks = chunk_count(n, grain);
    if (!inside_job && !alone) {
      if (const std::shared_ptr<Executor> lent = executor()) {
        const int pieces = static_cast<int>(std::min<std::int64_t>(chunks, lent->concurrency()));
        if (pieces > 1) return run_on(*lent, pieces, Job(body, n, grain, chunks, pieces));
      } else if (threads() > 1) {
        std::unique_lock owner(owner_, std::try_to_lock);
        if (owner && !lent_ && start_workers())
          return run_here(owner, Job(body, n, grain, chunks, threads()));
      }
    }
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const std::int64_t begin = chunk * grain;
      body(begin, chunk == chunks - 1 ? n : begin + grain);
    }
  }

  void resize(int threads) {
    const std::lock_guard owner(owner_);
    if (threads == threads_) return;
    stop_workers();
    threads_ = threads;
  }

  // The executor whose turn it is, held while it works; null for this pool.
  std::shared_ptr<Executor> executor() {
    if (!lent_.load(std::memory_order_relaxed)) [[likely]]
      return nullptr;
    const std::lock_guard lock(executor_mutex_);
    return executor_;
  }

  void lend(std::shared_ptr<Executor> executor) {
    {
      const std::lock_guard lock(executor_mutex_);
      executor_.swap(executor);
      lent_ = executor_ != nullptr;
    }
    const std::lock_guard owner(owner_);
    stop_workers();
  }

 private:
  static void finish(Job& job) {
    if (job.error) std::rethrow_exception(std::move(job.error));
  }

  void run_here(std::unique_lock<std::mutex>& owner, Job&& job) {
    job_ = &job;
    {
      const Raised inside(inside_job);
      announce(kOpen);
      job.work(0);
      close();
    }
    owner.unlock();
    finish(job);
  }

  static void run_on(Executor& executor, int pieces, Job&& job) {
    CT_CHECK(!lending, Error, "parallel",
             "the executor's run() does other work that calls ops while it waits; let it take pieces of its "
             "own call alone");
    const auto piece = [&job](int i) {
      const Raised inside(inside_job);
      job.work(i);
    };
    {
      const Raised waiting(lending);
      executor.run(pieces, piece);
    }
    piece(0);  // what it left out, if anything
    finish(job);
  }

  void stop_workers() {
    stop_ = true;
    announce(0);
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    stop_ = false;
  }

  static constexpr std::uint32_t kInside = 0x7ff;  // count of workers inside
  static constexpr std::uint32_t kOpen = 0x800;
  static constexpr std::uint32_t kSerial = 0x1000;  // one step of the serial number above

  bool start_workers() {
    if (!workers_.empty()) [[likely]]
      return true;
    const int wanted = threads() - 1;
    try {
      workers_.reserve(static_cast<std::size_t>(wanted));
      const std::uint32_t seen = state_.load() / kSerial;
      while (static_cast<int>(workers_.size()) < wanted)
        workers_.emplace_back(
            [this, seen, index = static_cast<int>(workers_.size()) + 1] { serve(seen, index); });
    } catch (const std::system_error&) {
      // The system gives no more threads: go on with those there are. Results do not depend on it.
    } catch (const std::bad_alloc&) {  // nor on memory for them
    }
    return !workers_.empty();
  }

  // Moves on to the next serial number and wakes everybody. Nobody is inside at this point.
  void announce(std::uint32_t open) {
    const std::uint32_t state = state_.load(std::memory_order_relaxed);
    state_.store((state / kSerial + 1) * kSerial | open);
    // Sequentially consistent on both sides: either the sleeper sees the new state or we see the sleeper.
    if (sleepers_.load() != 0) state_.notify_all();
  }

  void close() {
    std::uint32_t state = state_.fetch_and(~kOpen) & ~kOpen;
    for (int i = 0; (state & kInside) != 0; ++i) {
      if (i < 2000) {
        relax();
      } else if (i < 2050) {
        sched_yield();
      } else {
        owner_sleeps_.store(true);
        state = state_.load();
        if ((state & kInside) != 0) state_.wait(state);
        owner_sleeps_.store(false);
      }
      state = state_.load(std::memory_order_acquire);
    }
  }

  // The life of worker `index`, from 1 on. `seen` is the serial number of the last job it has been in, or need not be in.
  void serve(std::uint32_t seen, int index) {
    inside_job = true;
    std::chrono::nanoseconds patience = kMaxPatience;
    for (;;) {
      std::uint32_t state = await(seen, patience);
      if (stop_.load()) return;
      bool entered = false;
      while (!entered && (state & kOpen) != 0) entered = state_.compare_exchange_weak(state, state + 1);
      seen = state / kSerial;
      if (!entered) continue;
      job_->work(index);
      const std::uint32_t left = state_.fetch_sub(1) - 1;
      if ((left & (kOpen | kInside)) == 0 && owner_sleeps_.load()) state_.notify_all();
    }
  }

  // Returns the state once a job other than `seen` is there: spins first, then sleeps. Patience doubles where spinning has
  // paid or would have, the job being there soon, and halves where not: an idle or crowded machine is left alone.
  std::uint32_t await(std::uint32_t seen, std::chrono::nanoseconds& patience) {
    std::uint32_t state = state_.load();
    if (state / kSerial != seen) return state;
    const Clock::time_point start = Clock::now();
    do {
      for (int i = 0; i < 16; ++i) {
        relax();
        state = state_.load(std::memory_order_acquire);
        if (state / kSerial != seen) {
          patience = std::min(patience * 2, kMaxPatience);
          return state;
        }
      }
    } while (Clock::now() - start < patience);
    sleepers_.fetch_add(1);
    // A worker that failed to enter a job may have seen the serial number of the stop that came after it.
    for (state = state_.load(); state / kSerial == seen && !stop_.load(); state = state_.load())
      state_.wait(state);
    sleepers_.fetch_sub(1);
    patience = Clock::now() - start < kMaxPatience ? std::min(patience * 2, kMaxPatience)
                                                   : std::max(patience / 2, kMinPatience);
    return state;
  }

  static constexpr std::chrono::nanoseconds kMinPatience{2'000};
  static constexpr std::chrono::nanoseconds kMaxPatience{64'000};

  alignas(64) std::atomic<std::uint32_t> state_{0};
  Job* job_ = nullptr;  // in the line that tells of it
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> owner_sleeps_{false};
  std::atomic<bool> stop_{false};
  std::atomic<int> threads_;
  alignas(64) std::mutex owner_;  // held by the caller whose job runs; not where workers look after each job
  std::vector<std::thread> workers_;
  std::atomic<bool> lent_{false};  // whether there is an executor: read without the lock
  std::mutex executor_mutex_;
  std::shared_ptr<Executor> executor_;
};

int cpus_allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    if (const int count = CPU_COUNT(&set); count > 0) return std::min(count, kMaxThreads);
  }
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

int default_threads() {
  const char* text = std::getenv("COTANGENT_NUM_THREADS");
  if (text == nullptr || *text == '\0') return cpus_allowed();
  int count = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, count);
  CT_CHECK(error == std::errc{} && stop == end && count >= 1 && count <= kMaxThreads, ValueError, "parallel",
           "environment variable COTANGENT_NUM_THREADS is \"", text, "\"; it must be a number from 1 to ",
           kMaxThreads);
  return count;
}

// The pool is never destroyed: at exit its threads sleep, and code that runs in other threads or in static
// destructors may still use it. In the child of a fork() the threads are gone, so it gets a new pool.
std::atomic<Pool*> the_pool{nullptr};

Pool& make_pool() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Pool* pool = the_pool.load(std::memory_order_acquire);
  if (pool == nullptr) {
    pool = new Pool(default_threads());
    the_pool.store(pool, std::memory_order_release);
    pthread_atfork(nullptr, nullptr, [] {
      // Must not fail, so its memory is there already. A pool of the parent's that lies there is dead here.
      alignas(Pool) static std::byte place[sizeof(Pool)];
      const int threads = the_pool.load()->threads();
      the_pool.store(new (place) Pool(threads));
    });
  }
  return *pool;
}

Pool& pool() {
  Pool* pool = the_pool.load(std::memory_order_acquire);
  return pool != nullptr ? *pool : make_pool();
}

}  // namespace

void detail::parallel_for_pool(std::int64_t n, std::int64_t grain, Body body) {
  pool().run(n, std::max<std::int64_t>(grain, 1), body);
}

int num_threads() {
  const std::shared_ptr<Executor> lent = pool().executor();
  return lent ? std::max(lent->concurrency(), 1) : pool().threads();
}

static void check_outside(const char* function) {
  CT_CHECK(!inside_job, Error, "parallel", function,
           " called from inside parallel work; call it outside of parallel_for");
}

void set_num_threads(int count) {
  CT_CHECK(count >= 1 && count <= kMaxThreads, ValueError, "parallel", "set_num_threads(", count,
           "); it must be a number from 1 to ", kMaxThreads);
  check_outside("set_num_threads");
  pool().resize(count);
}

void set_executor(std::shared_ptr<Executor> executor) {
  check_outside("set_executor");
  pool().lend(std::move(executor));
}

NoThreads::NoThreads() : before_(std::exchange(alone, true)) {}
NoThreads::~NoThreads() { alone = before_; }

#ifdef COTANGENT_CHECK_CALLS
namespace {
constinit thread_local int t_calls = 0;
constinit thread_local std::uint64_t t_work = 0;
constinit std::atomic<bool> g_checked{true};
}  // namespace
detail::InCall::InCall() noexcept { ++t_calls; }
detail::InCall::~InCall() { --t_calls; }
void detail::set_call_checks(bool on) { g_checked = on; }
std::uint64_t detail::work_count() { return t_work; }
void detail::require_call(const char* what) {
  ++t_work;
  CT_CHECK(t_calls > 0 || inside_job || !g_checked, Error, what,
           "work on tensors outside of a call of an op, which no tracer sees; run it by execute() or work() "
           "(core/op/execute.h)");
}
#endif

}  // namespace ct
