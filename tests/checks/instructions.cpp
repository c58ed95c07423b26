// Instructions of the smallest calls, counted one by one: a child process runs each call under ptrace, step by
// step. The same number on every run, unlike times, so that it can be held. Exit 77: a process can't be stepped here.
//
// Beside instructions it counts what must not be on the path of a thread at all: instructions that lock the bus, calls of
// malloc, and mutexes.

#include <cotangent/cotangent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

namespace {

struct Counts {
  long instructions = 0, locked = 0, mallocs = 0, mutexes = 0;
};

[[noreturn]] void skip(const char* what) {
  std::printf("skipped: %s\n", what);
  std::exit(77);
}

[[gnu::noinline]] void finished() { asm volatile("" ::: "memory"); }

using Address = unsigned long long;
Address address_of(const char* name) { return reinterpret_cast<Address>(dlsym(RTLD_DEFAULT, name)); }

// Whether the instruction in these bytes locks the bus: by the prefix, or as an exchange with memory, which does without.
bool locks(const unsigned char* code) {
  for (;; ++code) {
    if (*code == 0xf0) return true;
    const bool prefix = *code == 0x66 || *code == 0xf2 || *code == 0xf3 || (*code & 0xf0) == 0x40;
    if (!prefix) return (*code == 0x86 || *code == 0x87) && code[1] >> 6 != 3;
  }
}

// With `threads` the process has another thread, so that counts of handles are locked instructions.
template <class F>
Counts count(F call, bool threads) {
  const Address malloc_at = address_of("malloc"), lock_at = address_of("pthread_mutex_lock");
  const pid_t child = fork();
  if (child == 0) {
    if (threads) std::thread([] { pause(); }).detach();
    for (int i = 0; i < 300; ++i) call();  // warm: free lists filled, kernels found
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(77);
    raise(SIGSTOP);
    call();
    finished();
    _exit(0);
  }
  Counts counts;
  for (;;) {
    int status = 0;
    user_regs_struct registers;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
        ptrace(PTRACE_GETREGS, child, nullptr, &registers) != 0)
      skip("a child process can't be run step by step here (ptrace)");
    if (registers.rip == reinterpret_cast<Address>(&finished)) break;
    const long word = ptrace(PTRACE_PEEKTEXT, child, registers.rip, nullptr);
    unsigned char code[sizeof word];
    std::memcpy(code, &word, sizeof word);
    ++counts.instructions;
    counts.locked += locks(code);
    counts.mallocs += registers.rip == malloc_at;
    counts.mutexes += registers.rip == lock_at;
    ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return counts;
}

int red = 0;

// Prints a line. It is red beyond `most` instructions or `locked` ones, and with a malloc or a mutex at all.
template <class F>
void hold(const char* what, long most, F call, bool threads = false, long locked = 0) {
  static const long nothing = count([] {}, false).instructions;  // of raise() and its like
  const Counts c = count(call, threads);
  const long used = c.instructions - nothing;
  const bool ok = used <= most && c.locked <= locked && c.mallocs == 0 && c.mutexes == 0;
  std::printf("%-38s %5ld instructions (at most %ld), %ld locked (%ld), %ld malloc, %ld mutexes%s\n", what,
              used, most, c.locked, locked, c.mallocs, c.mutexes, ok ? "" : "   RED");
  red += !ok;
}

}  // namespace

int main() {
  const ct::Tensor a = ct::ones({8}), b = ct::ones({8}), row = ct::ones({1, 64});
  ct::Tensor w = ct::ones({8}).set_requires_grad();
  ct::nn::Linear layer(64, 32);
  const auto plain = [&] { a + b; };
  const auto recorded = [&] { w + b; };
  const auto backward = [&] { (w * b).sum().backward(); };
  const auto inference = [&] {
    const ct::NoGrad off;
    layer.forward(row);
  };
  // Products take more where vectors are shorter.
  const std::string_view level = ct::cpu_level();
  const bool v2 = level == "v2", v3 = level == "v3";
  const long one_row = v2 ? 8100 : v3 ? 6000 : 4400, network = v2 ? 160000 : 80000;
  hold("a + b", 970, plain);
  hold("a + b, recorded", 1640, recorded);
  hold("(a * b).sum().backward()", 8790, backward);
  hold("linear of one row, inference", one_row, inference);
  // Beside other threads, what is shared is counted by locked instructions: leaves, saved tensors.
  hold("a + b, threads", 970, plain, true, 0);
  hold("a + b, recorded, threads", 1640, recorded, true, 2);
  hold("(a * b).sum().backward(), threads", 8790, backward, true, 18);
  hold("linear of one row, inference, threads", one_row, inference, true, 0);
  // Most of it arithmetic; the limit is on allocations and locks: none.
  ct::nn::Sequential model(ct::nn::Linear(784, 128), ct::nn::ReLU(), ct::nn::Linear(128, 10));
  const ct::Tensor image = ct::ones({1, 784});
  const auto answer = [&] {
    const ct::NoGrad off;
    model.forward(image);
  };
  hold("a perceptron's answer, threads", network, answer, true, 2);
  return red == 0 ? 0 : 1;
}
