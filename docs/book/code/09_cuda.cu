#include <cotangent/core/device/stream.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/indexing/indexing.h>
#include <cotangent/ops/reduce/reduce.h>

#include <examples/common/svg.h>
#include <gpu.h>

#include <chrono>
#include <cmath>
#include <functional>

// Chapter 9, what of it needs a GPU: the first kernel, five ways to time it, strides, bytes on their way, two streams.

namespace {

/// y = x / (1 + |x|): thread i for element i.
__global__ void softsign(const float* x, float* y, long n) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] / (1 + fabsf(x[i]));
}

/// The launch: as many blocks of 256 threads as n numbers need.
void run_softsign(const ct::Tensor& x, ct::Tensor& y) {
  ct::gpu::launch("softsign", softsign, ct::gpu::blocks_for("softsign", x.numel(), 256), 256, 0,
                  x.data<float>(), y.data<float>(), x.numel());
}

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
  const auto once = [&] { run_softsign(x, y); };
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

/// y_i = x_(i stride)
__global__ void every(const float* x, float* y, long n, long stride) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i * stride];
}

void strides() {
  book::section("strides");
  const long n = 1L << 23;
  const ct::Tensor x = ct::ones({32 * n}, {.device = ct::cuda(0)});
  ct::Tensor y = ct::empty({n}, {.device = ct::cuda(0)});
  svg::Curve wanted{"wanted", "#36a", {}, {}}, moved{"moved", "#c33", {}, {}};
  std::printf("every   sectors a warp     ms   GB/s wanted   GB/s moved\n");
  double first = 0, last = 0;
  for (const long stride : {1L, 2L, 4L, 8L, 16L, 32L}) {
    const double ms = book::gpu_ms([&] {
      ct::gpu::launch("every", every, static_cast<unsigned>(n / 256), 256, 0, x.data<float>(),
                      y.data<float>(), n, stride);
    });
    const long sectors = std::min(32L, 4 * stride);
    const double useful = 8e-6 * static_cast<double>(n) / ms,
                 all = (sectors + 4) * 1e-6 * static_cast<double>(n) / ms;
    std::printf("%4ld. %14ld %11.4f %11.0f %12.0f\n", stride, sectors, ms, useful, all);
    wanted.x.push_back(std::log2(static_cast<double>(stride))), wanted.y.push_back(useful);
    moved.x.push_back(wanted.x.back()), moved.y.push_back(all);
    (stride == 1 ? first : last) = useful;
  }
  book::claim(last < first / 3, "a stride costs what it fetches in vain");
  book::figure("09-strides", svg::chart("y[i] = x[i stride]", "log2 of the stride", "GB/s", {wanted, moved}));
}

/// A copy by blocks that stay and walk, one load of T on its way for each thread.
template <class T>
__global__ void walk(const T* x, T* y, long n) {
#pragma unroll 1
  for (long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += static_cast<long>(gridDim.x) * blockDim.x)
    y[i] = x[i];
}

template <class T>
double copy_rate(const ct::Tensor& x, ct::Tensor& y, int blocks) {
  const long n = x.numel() * 4 / static_cast<long>(sizeof(T));
  const double ms = book::gpu_ms([&] {
    ct::gpu::launch("walk", walk<T>, static_cast<unsigned>(blocks * ct::gpu::multiprocessors()), 256, 0,
                    static_cast<const T*>(x.raw_data()), static_cast<T*>(y.raw_data()), n);
  });
  return 8e-6 * static_cast<double>(x.numel()) / ms;
}

void under_way() {
  book::section("bytes-under-way");
  const ct::Tensor x = ct::ones({1 << 26}, {.device = ct::cuda(0)});
  ct::Tensor y = ct::empty({1 << 26}, {.device = ct::cuda(0)});
  std::printf("blocks of 256 a multiprocessor   4 bytes a thread   16 bytes a thread\n");
  for (const int blocks : {1, 2, 4, 8})
    std::printf("%30d %8.1f KB %4.0f GB/s %7.1f KB %4.0f GB/s\n", blocks, 0.256 * 4 * blocks,
                copy_rate<float>(x, y, blocks), 0.256 * 16 * blocks, copy_rate<float4>(x, y, blocks));
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
  strides();
  under_way();
  streams();
  errors();
}

}  // namespace

int main() { return book::run(chapter); }
