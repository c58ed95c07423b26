#include <cotangent/core/device/stream.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/ops/copy/copy.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/indexing/indexing.h>
#include <cotangent/ops/reduce/reduce.h>

#include <gpu.h>
#include <softsign.cuh>

#include <chrono>
#include <cmath>
#include <functional>

// Chapter 9b, what of it needs a GPU: five ways to time a kernel, two streams, copies beside a kernel, errors.

namespace {

/// Milliseconds on the host's clock.
double clock_ms(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void timings() {
  const ct::Device gpu = ct::cuda(0);
  const std::int64_t n = std::int64_t{1} << 22;
  const ct::Tensor x = ct::linspace(-5, 5, n, {.device = gpu});
  ct::Tensor y = ct::empty({n}, {.device = gpu});
  ct::synchronize(gpu);
  const auto once = [&] { book::run_softsign(x, y); };
  const auto waited = [&] { once(), ct::synchronize(gpu); };

  const double first = clock_ms(waited);
  double again = INFINITY, unwaited = INFINITY;
  for (int i = 0; i < 5; ++i) {
    again = std::min(again, clock_ms(waited));
    unwaited = std::min(unwaited, clock_ms(once));
    ct::synchronize(gpu);
  }
  ct::Event begin(true), end(true);
  begin.record(ct::current_stream(gpu));
  for (int i = 0; i < 100; ++i) once();
  end.record(ct::current_stream(gpu));
  const double repeated = begin.elapsed_ms(end) / 100;
  const double right = book::gpu_ms(once, 15);

  book::section("timings");
  std::printf("softsign of %lld numbers: 16.8 MB read, 16.8 MB written\n", static_cast<long long>(n));
  const auto row = [&](const char* name, double ms) {
    std::printf("%-46s %9.4f ms %9.0f GB/s\n", name, ms, 8e-6 * static_cast<double>(n) / ms);
  };
  row("clock, the first call, waited for", first);
  row("clock, nobody waits", unwaited);
  row("clock, waited for", again);
  row("events, 100 times the same", repeated);
  row("events, other data in the cache before", right);
  book::claim(unwaited < right, "a launch returns before the work is done");
  book::claim(first > again, "the first call pays for more than its work");
  book::claim(repeated < right, "what the cache holds comes faster");
  const float off = ct::amax(ct::abs(y - ct::softsign(x))).item<float>();
  book::claim(off < 1e-6f, "the kernel's numbers are those of ct::softsign");
}

/// Keeps one multiprocessor busy for that many cycles.
__global__ void busy(long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {}
}

void streams() {
  book::section("streams");
  const ct::Device gpu = ct::cuda(0);
  const auto queue = [] { ct::gpu::launch("busy", busy, 1, 32, 0, 2'000'000L); };
  const auto done = [&](const std::function<void()>& work) {
    ct::synchronize(gpu);
    return clock_ms([&] { work(), ct::synchronize(gpu); });
  };
  const ct::Stream one = ct::new_stream(gpu), other = ct::new_stream(gpu);
  done(queue);
  const double in_one = done([&] {
    const ct::StreamGuard guard(one);
    queue(), queue();
  });
  const double in_two = done([&] {
    for (const ct::Stream& stream : {one, other}) {
      const ct::StreamGuard guard(stream);
      queue();
    }
  });
  const double behind = done([&] {
    ct::Event mark;
    {
      const ct::StreamGuard guard(one);
      queue();
      mark.record(one);
    }
    const ct::StreamGuard guard(other);
    mark.wait(other);
    queue();
  });
  double queued = 0;
  const double thousand = done([&] {
    queued = clock_ms([] {
      for (int i = 0; i < 500; ++i) ct::gpu::launch("busy", busy, 1, 32, 0, 20'000L);
    });
  });
  std::printf("two kernels in one stream       %6.2f ms\ntwo kernels in two streams      %6.2f ms\n", in_one,
              in_two);
  std::printf("the second waits for an event   %6.2f ms\n", behind);
  std::printf("500 kernels queued after %.2f ms, done after %.2f ms\n", queued, thousand);
  book::claim(in_two < 0.75 * in_one && behind > 1.3 * in_two, "streams overlap unless an event orders them");
  book::claim(queued < thousand, "the host is ahead of the GPU");
}

/// A copy of 268 MB to the GPU, from either kind of memory, alone and beside a kernel.
void copies() {
  book::section("copies");
  const ct::Device gpu = ct::cuda(0);
  const ct::Tensor pageable = ct::ones({1 << 26}), pinned = pageable.pin_memory();
  ct::Tensor there = ct::empty({1 << 26}, {.device = gpu});
  const ct::Stream copying = ct::new_stream(gpu), computing = ct::new_stream(gpu);
  const auto copy = [&](const ct::Tensor& from) {
    ct::copy_bytes(there.raw_data(), gpu, from.raw_data(), ct::cpu, std::size_t{4} << 26, true);
  };
  const auto row = [&](const char* name, const std::function<void()>& queue) {
    double returned = 0, best = INFINITY;
    for (int i = 0; i < 4; ++i) {
      ct::synchronize(gpu);
      double queued = 0;
      const double done = clock_ms([&] { queued = clock_ms(queue), ct::synchronize(gpu); });
      if (i > 0 && done < best) best = done, returned = queued;
    }
    std::printf("%-42s returns after %7.2f ms, done after %7.2f ms\n", name, returned, best);
    return best;
  };
  const auto compute = [] { ct::gpu::launch("busy", busy, 1, 32, 0, 10'000'000L); };
  std::printf("268 MB from the CPU to the GPU, and a kernel\n");
  row("a copy from pageable memory", [&] { copy(pageable); });
  const double alone = row("a copy from pinned memory", [&] { copy(pinned); });
  const double kernel = row("the kernel", compute);
  const auto two = [&](const ct::Tensor& from, const ct::Stream& of_copy) {
    return [&, of_copy] {
      {
        const ct::StreamGuard guard(computing);
        compute();
      }
      const ct::StreamGuard guard(of_copy);
      copy(from);
    };
  };
  const double after = row("kernel and pinned copy, one stream", two(pinned, computing));
  const double beside = row("kernel and pinned copy, two streams", two(pinned, copying));
  std::printf("pinned: %.1f GB/s\n", 0.268435 / alone * 1e3);
  book::claim(after > 0.9 * (kernel + alone) && beside < 0.9 * after, "a pinned copy runs beside a kernel");
  book::claim(ct::sum(there).item() == 67108864, "all of it arrives");
}

void errors() {
  book::section("errors");
  const ct::Device gpu = ct::cuda(0);
  try {
    ct::gpu::launch("busy", busy, 1, 2048, 0, 1L);
    book::claim(false, "a block of 2048 threads is refused");
  } catch (const ct::CudaError& e) { std::printf("at the launch: %s\n", e.what()); }
  const ct::Tensor x = ct::ones({3, 2}, {.device = gpu});
  const ct::Tensor picked = ct::index_select(x, 0, ct::full({1}, 7, {.dtype = ct::i64, .device = gpu}));
  std::printf("index 7 of 3: the call returned\n");
  try {
    ct::synchronize(gpu);
    book::claim(false, "a bad index is reported by the next call that waits");
  } catch (const ct::IndexError& e) { std::printf("at the next wait: %s\n", e.what()); }
}

void chapter() {
  book::section("machine");
  book::machine();
  timings();
  streams();
  copies();
  errors();
}

}  // namespace

int main() { return book::run(chapter); }
