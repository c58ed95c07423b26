#include <exception>
#include <iostream>
#include <string_view>

#include "bench/bench.h"

// Google Benchmark's main, plus the number of threads as an environment variable (COTANGENT_NUM_THREADS) and
// the device in the context block, so that a result says what it was measured on. --first-step is row G4's process.
int main(int argc, char** argv) try {
  if (argc == 2 && std::string_view(argv[1]) == "--first-step") return ct::bench::first_step();
  benchmark::AddCustomContext("cotangent_threads", std::to_string(ct::num_threads()));
  if (ct::cuda_is_available()) benchmark::AddCustomContext("gpu", ct::cuda_properties(0).name);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
