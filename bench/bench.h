#pragma once

#include <benchmark/benchmark.h>
#include <cotangent/cotangent.h>

#include <chrono>
#include <cstdint>

// Shared parts of the benchmark rows. A row is a Google Benchmark named ID/NAME, where ID is its row in
// bench/targets.json; bench/bench.py runs them beside their peers and makes the table. Times on the GPU are
// taken with events around many calls, so that launches overlap as they do in use.

namespace ct::bench {

/// Row G4: one step of GPT-2 in a new process, which prints how many seconds after main() began its parts were over.
int first_step();

/// Runs `f` `batch` times between two marks on the device's stream and books the time of one call.
template <class F>
void time_device(benchmark::State& state, Device device, int batch, F&& f) {
  for (int i = 0; i < 3; ++i) f();
  synchronize(device);
  for (auto _ : state) {
    Event start(true), stop(true);
    start.record(current_stream(device));
    for (int i = 0; i < batch; ++i) f();
    stop.record(current_stream(device));
    state.SetIterationTime(start.elapsed_ms(stop) * 1e-3 / batch);
  }
}

/// Seconds by the host's clock of one call.
template <class F>
double seconds_of(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Times as time_device(), by the host's clock around the calls and the wait for the device: for steps whose cost is the
/// host's.
template <class F>
void time_wall(benchmark::State& state, Device device, int batch, F&& f) {
  for (int i = 0; i < 5; ++i) f();
  synchronize(device);
  for (auto _ : state) {
    state.SetIterationTime(seconds_of([&] {
                             for (int i = 0; i < batch; ++i) f();
                             synchronize(device);
                           }) /
                           batch);
  }
}

/// Normal numbers on the CPU for rows to compute on, drawn once: Google Benchmark calls a row's function several times.
inline Tensor numbers(std::int64_t first, const Shape& shape) {
  static const Tensor all = randn({1 << 24});
  return all.narrow(0, first, numel(shape)).view(shape);
}

/// Settings for rows of the CPU, with Apply(): the time is the median of five runs of 0.05 s. A shared machine stops for as
/// long as that now and then, which a mean would include.
inline void five_runs(benchmark::internal::Benchmark* row) {
  row->MinTime(0.05)->Repetitions(5)->ReportAggregatesOnly();
}

/// Books bytes moved per call; shown as bytes per second.
inline void count_bytes(benchmark::State& state, double bytes) {
  state.counters["bytes"] = benchmark::Counter(bytes, benchmark::Counter::kIsIterationInvariantRate);
}
/// Books floating-point operations per call; shown as operations per second.
inline void count_flops(benchmark::State& state, double flops) {
  state.counters["flops"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

/// Skips a GPU row where there is no GPU.
inline bool needs_gpu(benchmark::State& state) {
  if (cuda_is_available()) return true;
  state.SkipWithError("no GPU");
  return false;
}

}  // namespace ct::bench
