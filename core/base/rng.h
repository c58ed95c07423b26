#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/generator_state.h>
#include <cotangent/core/base/spin_lock.h>

// Where draws get their key from. There is one default generator for the whole process, whatever the device:
// the same program draws the same numbers on the CPU and on CUDA.

namespace ct {

/// A stream of draws: a seed, and the number of draws taken so far. A random op reserves one draw, whatever
/// the number of elements, and computes element i of it by the functions in philox.h. Safe to use from
/// several threads; which thread gets which draw is then up to their timing, so a reproducible program with
/// several threads that draw gives each a generator of its own.
///
/// Reserving happens on the host, when an op is called. Where calls are recorded, to be replayed without it, the state
/// is set to {0, 0, &live}: draws then count from what `live` holds when their kernels run.
class CT_API Generator {
 public:
  explicit Generator(std::uint64_t seed = kDefaultSeed) : state_{seed, 0} {}
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// Starts the stream `seed` at its first draw.
  void seed(std::uint64_t seed) { set_state({seed, 0}); }
  std::uint64_t seed() const { return state().seed; }
  std::uint64_t offset() const { return state().offset; }

  /// The whole state; what a checkpoint keeps. set_state(state()) changes nothing.
  GeneratorState state() const;
  void set_state(const GeneratorState& state);

  /// Takes the next `draws` draws: returns the state of the first and advances the offset past the last.
  GeneratorState reserve(std::uint64_t draws = 1);

  /// Undoes reserve(1), which returned `draw`, unless somebody has drawn or set the state since: then false,
  /// and nothing changes.
  bool give_back(const GeneratorState& draw);

  static constexpr std::uint64_t kDefaultSeed = 0x5EED;

 private:
  mutable detail::SpinLock lock_;
  GeneratorState state_;
};

/// The generator that ops use when they are given none. Until manual_seed is called it has a fixed seed:
/// a program that never asks for randomness of its own is reproducible.
CT_API Generator& default_generator();

/// Seeds the default generator.
CT_API void manual_seed(std::uint64_t seed);

namespace detail {
/// A draw for numbers that the host reads itself. Throws ValueError where calls are recorded: a replay would not read them
/// again.
CT_API GeneratorState on_host(const char* op, const GeneratorState& draw);
}  // namespace detail

/// Elements [first, first + count) of a draw from the uniform distribution on [0, 1), on the CPU, in the
/// calling thread; out[0] is element `first`. The same bits as philox_uniform, several times faster.
CT_API void fill_uniform(const GeneratorState& draw, std::uint64_t first, std::int64_t count, float* out);
CT_API void fill_uniform(const GeneratorState& draw, std::uint64_t first, std::int64_t count, double* out);

/// The same for the standard normal distribution and for words (dropout masks compare them with
/// bernoulli_threshold).
CT_API void fill_normal(const GeneratorState& draw, std::uint64_t first, std::int64_t count, float* out);
CT_API void fill_normal(const GeneratorState& draw, std::uint64_t first, std::int64_t count, double* out);
CT_API void fill_words(const GeneratorState& draw, std::uint64_t first, std::int64_t count,
                       std::uint32_t* out);

}  // namespace ct
