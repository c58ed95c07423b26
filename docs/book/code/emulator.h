#pragma once

#include <book.h>
#include <device.h>
#include <ucontext.h>
#include <unistd.h>
#include <warp.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <unordered_map>
#include <utility>

// One block of a GPU on a CPU: its threads are fibers that change at barriers and shuffles. The compiler announces each
// access of the kernel to memory (-fsanitize=thread), here instead of to its own library. Of an access the bounds are
// checked, whether another thread touches the same word with no barrier between, and whether anybody wrote what is read;
// those that the lanes of a warp make in one place of the code are counted as one, in sectors or in turns of banks.
// For one file of a program, the judge; blocks run one after another.

extern "C" {
extern float __start_shared_memory[] __attribute__((weak)), __stop_shared_memory[] __attribute__((weak));
extern char etext, __data_start;  // the linker's: constants lie between
}

namespace emulator {

inline std::uintptr_t number(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

/// Accesses of whole warps, and the units that they moved: sectors of 32 bytes, or turns of shared memory.
struct Traffic {
  long accesses = 0, moved = 0;
};

/// Counts of a launch, of all its blocks together.
struct Report {
  Traffic loads, stores, shared;
  long atomics = 0, shared_atomics = 0, barriers = 0;
  long longest = 0;  ///< the most numbers that one thread loads from global memory
};

/// A touch of a word; epochs are the barriers that the block and the warp have passed.
struct Touch {
  long block = -1, epoch = -1, warp_epoch = -1;
  int thread = -1, warp = -1;  // -1: several
  bool atomic = false;
  std::uintptr_t at = 0;

  /// Whether nothing orders it before a touch by another thread.
  bool races(const Touch& now) const {
    if (block < 0 || (block == now.block && thread == now.thread) || (atomic && now.atomic)) return false;
    if (block != now.block) return true;
    return epoch == now.epoch && (warp != now.warp || warp_epoch == now.warp_epoch);
  }
};
struct Word {
  bool known = false;
  Touch read, written;
};

enum class State { ready, block_barrier, warp_barrier, ended };
struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  uint3 index;
  int number = 0, line = 0, source = 0;
  State state = State::ready;
  unsigned mask = 0;
  std::uint64_t bits = 0, received = 0;
  long loads = 0;
  std::unordered_map<std::uintptr_t, std::size_t> visits;  // of a place in the code
};
struct Access {
  bool shared, store;
  std::size_t each;
  std::vector<long> addresses;
};
struct Range {
  std::string name;
  std::uintptr_t begin, end;
  std::size_t each;
  std::string element(std::uintptr_t address) const {
    const long i = (static_cast<long>(address) - static_cast<long>(begin)) / static_cast<long>(each);
    return " " + name + "[" + std::to_string(i) + "]";
  }
};

/// Everything of the launch that is under way.
struct Machine {
  static constexpr std::size_t kArena = 64 << 20, kStack = 64 << 10, kGap = 1 << 16;
  char* const arena = static_cast<char*>(std::aligned_alloc(kGap, kArena));
  std::size_t used = kGap;
  std::vector<Range> ranges;
  std::unordered_map<std::uintptr_t, Word> words;
  std::vector<Fiber> fibers;
  std::vector<long> warp_epochs;
  std::vector<std::unordered_map<std::uintptr_t, std::vector<Access>>> accesses;  // of a warp, by place
  Fiber* now = nullptr;
  ucontext_t scheduler;
  const std::function<void()>* kernel = nullptr;
  uint3 block, block_size, grid_size;
  long block_number = 0, epoch = 0;
  std::string error;
  Report report;
};
inline Machine& machine() {
  static Machine m;
  return m;
}

inline std::string text(uint3 v) { return "(" + std::to_string(v.x) + ", " + std::to_string(v.y) + ")"; }
inline std::string who(const Fiber& f) {
  return "thread " + text(f.index) + " of block " + text(machine().block);
}
/// File and line of a place in the code, where addr2line is.
inline std::string place(std::uintptr_t at) {
  char command[96], line[256] = "";
  std::snprintf(command, sizeof command, "addr2line -e /proc/%d/exe 0x%lx 2>/dev/null", getpid(),
                static_cast<long>(at) - 1);
  if (FILE* const pipe = popen(command, "r")) {
    if (!std::fgets(line, sizeof line, pipe)) line[0] = 0;
    pclose(pipe);
  }
  std::string found(line);
  found = found.substr(found.rfind('/') + 1);
  return found.substr(0, found.find_first_of(" \n"));
}

/// Ends the launch with that sentence. The fiber that found it does not go on.
inline void fail(const std::string& sentence) {
  Machine& m = machine();
  if (m.error.empty()) m.error = sentence;
  if (m.now) swapcontext(&m.now->context, &m.scheduler);
}

/// The memory of a kernel's argument. What the kernel reads has been written, by the judge or by the kernel.
template <class T>
class Array {
 public:
  Array(const char* name, std::size_t size) : size_(size) {
    Machine& m = machine();
    data_ = reinterpret_cast<T*>(m.arena + m.used);
    m.used += (size * sizeof(T) / 128 + 1) * 128 + Machine::kGap;  // aligned; far from the next
    if (m.used > Machine::kArena) throw std::runtime_error("the judge's memory is full");
    const auto begin = number(data_);
    m.ranges.push_back({name, begin, begin + size * sizeof(T), sizeof(T)});
    std::memset(static_cast<void*>(data_), 0xff, size * sizeof(T));  // NaN
  }
  Array(const char* name, const std::vector<T>& values) : Array(name, values.size()) {
    std::copy(values.begin(), values.end(), data_);
    for (std::size_t i = 0; i < size_; ++i) machine().words[number(data_ + i)].known = true;
  }
  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T operator[](std::size_t i) const { return data_[i]; }

 private:
  T* data_;
  std::size_t size_;
};

/// Range that holds an address; none does, and the launch ends with a sentence.
inline const Range* range_of(std::uintptr_t address, std::size_t bytes,
                             const std::function<std::string()>& doing) {
  const Range* near = nullptr;
  for (const Range& r : machine().ranges) {
    if (address >= r.begin && address + bytes <= r.end) return &r;
    if (address + Machine::kGap / 2 >= r.begin && address < r.end + Machine::kGap / 2) near = &r;
  }
  if (!near) fail(doing() + " an address that belongs to no argument and no shared array");
  fail(doing() + near->element(address) + "; it has " +
       std::to_string((near->end - near->begin) / near->each) + " elements");
  return nullptr;
}

inline void touch(const void* pointer, std::size_t bytes, bool store, bool atomic, std::uintptr_t at) {
  Machine& m = machine();
  if (!m.now) return;
  Fiber& f = *m.now;
  const auto address = number(pointer);
  const auto stack = number(f.stack.get());
  if (address >= stack && address < stack + Machine::kStack) return;
  if (!store && address >= number(&etext) && address < number(&__data_start)) return;
  const auto begin = number(__start_shared_memory);
  const bool shared = address >= begin && address < number(__stop_shared_memory);
  const auto doing = [&] {
    return place(at) + ": " + who(f) + (atomic ? " adds to" : store ? " writes" : " reads");
  };
  const Range* const range = shared ? nullptr : range_of(address, bytes, doing);
  const auto name = [&] {
    return shared ? " the word " + std::to_string((address - begin) / 4) + " of shared memory"
                  : range->element(address);
  };
  const int warp = f.number / 32;
  const Touch now{m.block_number, m.epoch, m.warp_epochs[static_cast<std::size_t>(warp)], f.number, warp,
                  atomic,         at};
  for (std::size_t part = 0; part < bytes; part += 4) {
    Word& word = m.words[address + part];
    if ((!store || atomic) && !word.known) fail(doing() + name() + ", which nobody has written yet");
    const Touch& before = word.written.races(now) || !store ? word.written : word.read;
    if (before.races(now))
      fail(doing() + name() + ", which another thread " + (&before == &word.read ? "reads" : "writes") +
           " in " + place(before.at) + "; no barrier lies between the two");
    if (store) {
      word.written = now;
      word.known = true;
    } else {
      Touch& read = word.read;
      const bool again = read.block == now.block && read.epoch == now.epoch;
      const Touch old = read;
      read = now;
      if (again && old.thread != now.thread) read.thread = -1;
      if (again && old.warp != now.warp) read.warp = -1;
    }
  }
  if (atomic) {
    ++(shared ? m.report.shared_atomics : m.report.atomics);
    return;
  }
  if (!shared && !store) m.report.longest = std::max(m.report.longest, ++f.loads);
  // The n-th visit of a lane to a place of the code goes with the n-th visits of the other lanes of its warp.
  std::vector<Access>& visits = m.accesses[static_cast<std::size_t>(warp)][at];
  const std::size_t visit = f.visits[at]++;
  if (visit >= visits.size()) visits.resize(visit + 1, {shared, store, bytes, {}});
  visits[visit].addresses.push_back(static_cast<long>(shared ? (address - begin) / 4 : address));
}

inline void wait(State state, unsigned mask, int line) {
  Fiber& f = *machine().now;
  f.state = state, f.mask = mask, f.line = line;
  swapcontext(&f.context, &machine().scheduler);
}

/// Lets go the lanes of a warp that have all come to one place, and says whether it did.
inline bool release_warp(std::size_t first) {
  Machine& m = machine();
  for (std::size_t i = first; i < std::min(m.fibers.size(), first + 32); ++i) {
    const Fiber& f = m.fibers[i];
    const unsigned mask = f.mask;
    const auto every = [&](const auto& holds) {
      for (std::size_t j = 0; j < 32; ++j)
        if ((mask >> j & 1) && (first + j >= m.fibers.size() || !holds(m.fibers[first + j]))) return false;
      return true;
    };
    if (f.state != State::warp_barrier) continue;
    if (!every([&](const Fiber& lane) { return lane.state == f.state && lane.line == f.line; })) continue;
    if (f.source < 0) ++m.warp_epochs[first / 32];
    every([&](Fiber& lane) {
      if (lane.source >= 0 && !(mask >> lane.source & 1))
        fail("line " + std::to_string(lane.line) + ": a shuffle asks a lane outside of its mask");
      else if (lane.source >= 0)
        lane.received = m.fibers[first + static_cast<std::size_t>(lane.source)].bits;
      return true;
    });
    return every([](Fiber& lane) { return lane.state = State::ready, true; });
  }
  return false;
}

inline std::string where(const Fiber& f) {
  return who(f) + (f.state == State::ended ? " has ended" : " waits in line " + std::to_string(f.line));
}

/// Lets the threads of a block go on at its barrier, once all have come to the same one.
inline bool release_block() {
  Machine& m = machine();
  const Fiber& first = m.fibers[0];
  for (const Fiber& f : m.fibers) {
    if (f.state == first.state && (f.state == State::ended || f.line == first.line)) continue;
    fail("not all threads come to the same barrier or shuffle: " + where(first) + ", " + where(f));
    return false;
  }
  if (first.state == State::warp_barrier) fail("lanes that a mask names are not there: " + where(first));
  if (first.state != State::block_barrier) return false;
  for (Fiber& f : m.fibers) f.state = State::ready;
  ++m.epoch;
  ++m.report.barriers;
  return true;
}

inline void enter() {
  Machine& m = machine();
  (*m.kernel)();
  m.now->state = State::ended;
  swapcontext(&m.now->context, &m.scheduler);
}

inline void run_block() {
  Machine& m = machine();
  for (const float* word = __start_shared_memory; word < __stop_shared_memory; ++word)
    m.words.erase(number(word));
  std::fill(__start_shared_memory, __stop_shared_memory, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < m.fibers.size(); ++i) {
    Fiber& f = m.fibers[i];
    const auto n = static_cast<unsigned>(i);
    f.number = static_cast<int>(i), f.loads = 0, f.state = State::ready, f.visits.clear();
    f.index = {n % m.block_size.x, n / m.block_size.x % m.block_size.y,
               n / (m.block_size.x * m.block_size.y)};
    if (!f.stack) f.stack.reset(new char[Machine::kStack]);
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get(), f.context.uc_stack.ss_size = Machine::kStack,
    f.context.uc_link = nullptr;
    makecontext(&f.context, enter, 0);
  }
  m.accesses.assign((m.fibers.size() + 31) / 32, {});
  m.warp_epochs.assign(m.accesses.size(), 0);
  for (bool moved = true; moved && m.error.empty();) {
    for (Fiber& f : m.fibers) {
      if (f.state != State::ready || !m.error.empty()) continue;
      m.now = &f;
      swapcontext(&m.scheduler, &f.context);
      m.now = nullptr;
    }
    moved = false;
    for (std::size_t first = 0; first < m.fibers.size(); first += 32) moved |= release_warp(first);
    if (!moved && m.error.empty()) moved = release_block();
  }
  for (const auto& warp : m.accesses)
    for (const auto& [at, visits] : warp)
      for (const Access& a : visits) {
        Traffic& t = a.shared ? m.report.shared : a.store ? m.report.stores : m.report.loads;
        ++t.accesses;
        t.moved +=
            a.shared ? book::bank_turns(a.addresses) : book::sectors(a.addresses, static_cast<int>(a.each));
      }
}

/// Runs the kernel, called with its arguments, in each thread of a grid. Throws std::runtime_error where the kernel does
/// what a GPU answers with wrong numbers, or with none.
inline Report run(dim3 grid, dim3 block, const std::function<void()>& kernel) {
  Machine& m = machine();
  m.report = {}, m.error.clear(), m.kernel = &kernel, m.grid_size = grid, m.block_size = block;
  m.fibers = std::vector<Fiber>(block.x * block.y * block.z);
  for (auto& [at, word] : m.words) word.read = word.written = {};
  for (unsigned y = 0; y < grid.y; ++y)
    for (unsigned x = 0; x < grid.x && m.error.empty(); ++x) {
      m.block = {x, y, 0};
      ++m.block_number;
      run_block();
    }
  if (!m.error.empty()) throw std::runtime_error(m.error);
  return m.report;
}

uint3 thread_index() { return machine().now->index; }
uint3 block_index() { return machine().block; }
uint3 block_size() { return machine().block_size; }
uint3 grid_size() { return machine().grid_size; }
int lane() { return machine().now->number % 32; }
std::uint64_t exchange(unsigned mask, std::uint64_t bits, int source, int line) {
  Fiber& f = *machine().now;
  f.bits = bits, f.source = source;
  wait(State::warp_barrier, mask, line);
  return f.received;
}

}  // namespace emulator

void __syncthreads(int line) { emulator::wait(emulator::State::block_barrier, 0, line); }
void __syncwarp(unsigned mask, int line) {
  emulator::machine().now->source = -1;
  emulator::wait(emulator::State::warp_barrier, mask, line);
}

#define CT_HERE reinterpret_cast<std::uintptr_t>(__builtin_return_address(0))
float atomicAdd(float* to, float value) {
  emulator::touch(to, 4, true, true, CT_HERE);
  return std::exchange(*to, *to + value);
}
int atomicAdd(int* to, int value) {
  emulator::touch(to, 4, true, true, CT_HERE);
  return std::exchange(*to, *to + value);
}

// Functions that the compiler calls before each access.
#define CT_ACCESS(bytes)                                                                 \
  void __tsan_read##bytes(void* p) { emulator::touch(p, bytes, false, false, CT_HERE); } \
  void __tsan_write##bytes(void* p) { emulator::touch(p, bytes, true, false, CT_HERE); }
extern "C" {
CT_ACCESS(1)
CT_ACCESS(2)
CT_ACCESS(4)
CT_ACCESS(8)
CT_ACCESS(16)
void __tsan_read_range(void* p, std::size_t bytes) { emulator::touch(p, bytes, false, false, CT_HERE); }
void __tsan_write_range(void* p, std::size_t bytes) { emulator::touch(p, bytes, true, false, CT_HERE); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}
#undef CT_ACCESS
#undef CT_HERE
