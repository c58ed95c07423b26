#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/device.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/ops.h>
#include <cotangent/ops/collective/collective.h>

#include <book.h>
#include <gpu.h>

#include <chrono>

// Chapter 20 on GPUs: all-reduce of many sizes, over all GPUs of this machine.

namespace {

using ct::Tensor;
namespace dist = ct::dist;

void reduced() {
  book::section("reduced");
  const int ranks = ct::cuda_device_count();
  std::vector<ct::Device> devices;
  for (int r = 0; r < ranks; ++r) devices.push_back(ct::cuda(r));
  dist::run_threads(
      ranks,
      [&](const dist::Group& world) {
        const ct::NoGrad off_tape;
        const bool speaks = world.rank() == 0;
        if (speaks)
          std::printf("%d GPUs, %s\n      MB        us   GB/s sent by each, 2 (p-1)/p of the bytes\n", ranks,
                      world.backend().c_str());
        for (const double mb : {0.01, 0.1, 1.0, 10.0, 25.0, 100.0, 250.0}) {
          Tensor x = ct::ones({static_cast<std::int64_t>(mb * 1e6 / 4)}, {.device = world.device()});
          const auto seconds = [&](int times) {
            ct::synchronize(world.device());
            dist::barrier(world);
            const auto begin = std::chrono::steady_clock::now();
            for (int i = 0; i < times; ++i) dist::all_reduce_(x, world, dist::ReduceOp::mean);
            ct::synchronize(world.device());
            return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
          };
          seconds(5);
          const double s = seconds(20);
          if (speaks)
            std::printf("%8.2f %9.1f %10.1f\n", mb, 1e6 * s, mb / 1e3 * 2 * (ranks - 1) / ranks / s);
        }
      },
      {}, devices);
}

void chapter() {
  book::section("machine");
  book::machine();
  reduced();
}

}  // namespace

int main() { return book::run(chapter); }
