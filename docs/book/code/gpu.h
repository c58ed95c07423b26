#pragma once

#include <cotangent/core/cuda/launch.h>

#include <book.h>

#include <algorithm>
#include <ctime>
#include <vector>

// Shared functions of the chapters' programs for a GPU.

namespace book {

/// Prints, below the section "machine", the GPU, CUDA's version and the day: those of all that the program prints.
inline void machine() {
  int version = 0;
  cudaDeviceProp gpu;
  CT_CUDA(cudaRuntimeGetVersion(&version));
  CT_CUDA(cudaGetDeviceProperties(&gpu, 0));
  const std::time_t now = std::time(nullptr);
  char day[16];
  std::strftime(day, sizeof day, "%Y-%m-%d", std::gmtime(&now));
  std::printf("%s, CUDA %d.%d, %s\n", gpu.name, version / 1000, version % 1000 / 10, day);
}

/// Milliseconds that the GPU takes for the work that `work` queues on the current stream: the median of `rounds`, behind
/// one that is not counted. Before each the second-level cache is filled with other data, so that memory is what is
/// read.
template <class Work>
double gpu_ms(Work&& work, int rounds = 9) {
  static char* const other = [] {
    char* memory = nullptr;
    CT_CUDA(cudaMalloc(&memory, std::size_t{256} << 20));
    return memory;
  }();
  const ct::Stream stream = ct::current_stream(ct::cuda(0));
  ct::Event begin(true), end(true);
  std::vector<double> found;
  for (int round = 0; round <= rounds; ++round) {
    CT_CUDA(cudaMemsetAsync(other, round, std::size_t{256} << 20, ct::gpu::native_stream()));
    begin.record(stream);
    work();
    end.record(stream);
    if (round > 0) found.push_back(begin.elapsed_ms(end));
    if (round == 0) stream.synchronize();
  }
  std::nth_element(found.begin(), found.begin() + rounds / 2, found.end());
  return found[static_cast<std::size_t>(rounds / 2)];
}

}  // namespace book
