#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/function_ref.h>
#include <cotangent/core/base/inline_vector.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/io/atomic_file.h>

// A training step as a program: forward, loss, backward, clipping, optimizer, schedule, recorded once and replayed by one
// launch.

namespace ct {

namespace capture_impl {
class StepMemory;
class StepProgram;
}  // namespace capture_impl

/// Memory that captured functions share for what a step makes and lets go of: those of one program, which take turns, then
/// need as much as the largest of their steps. Results and gradients have memory of their own. Copies are the same pool.
/// Calls on several threads wait for one another, on several streams of a GPU the later work for the earlier.
class CT_API CapturePool {
 public:
  CapturePool();

 private:
  friend class capture_impl::StepProgram;
  std::shared_ptr<capture_impl::StepMemory> memory_;
};

struct CaptureOptions {
  /// Real steps before the recording, in which kernels are found, caches filled and moments made; at least 1.
  int warmup = 1;
  /// Recordings that are kept: one for each combination of shapes and other arguments, and for each state that the step
  /// starts from (with or without gradients).
  int recordings = 8;
  /// False makes every call a plain one, for programs that offer both.
  bool enabled = true;
  /// Every so many replays one is made twice, as a plain step and as a replay from the same state, and a difference in any bit
  /// throws CaptureError: it finds what a recording can't see, a number that the step's host code has changed. 0: never, or
  /// as the environment variable COTANGENT_CHECK_CAPTURE says.
  int check_every = 0;
  /// Calls element by element that only hand values to one another run as one pass over memory (Captured::explain_fusion()), to
  /// the same bits, where that is faster. False, or COTANGENT_FUSION=off in the environment, runs each by itself; COTANGENT_FUSION=all
  /// fuses what is no faster, too.
  bool fuse = true;
  /// Memory shared with other captured functions; one of its own unless it is given:
  ///
  ///     ct::CapturePool pool;
  ///     auto micro = ct::capture(forward_backward, {.pool = pool});
  ///     auto update = ct::capture(clip_and_step, {.pool = pool});
  CapturePool pool{};
};

namespace capture_impl {

// The recordings of one function.
class CT_API StepProgram {
 public:
  /// Runs the function with these inputs and gives its results, which are detached.
  using Body = FunctionRef<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

  explicit StepProgram(const CaptureOptions& options);
  ~StepProgram();
  StepProgram(const StepProgram&) = delete;
  StepProgram& operator=(const StepProgram&) = delete;

  using Inputs = std::span<const Tensor* const>;

  /// The results of one step. `values` are the arguments that are no tensors, as bytes.
  std::vector<Tensor> run(Inputs inputs, const std::string& values, Body body);

  /// Whether run() would replay.
  bool ready(Inputs inputs, const std::string& values) const;

  /// The recording that the last results are of, counted from 1; 0 for a plain step.
  std::int64_t number() const;

  // As Captured's.
  bool captured() const;
  std::int64_t replays() const;
  std::int64_t recordings() const;
  std::vector<std::string> kernels() const;
  std::size_t launches() const;
  std::size_t memory() const;
  std::string dot() const;
  std::string explain_fusion() const;
  void reset();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Results as a list, and back: a tensor, a tuple of results, or a std::vector of tensors.
template <class R>
void list_results(const R& result, std::vector<Tensor>& list) {
  if constexpr (std::same_as<R, Tensor>) {
    list.push_back(result);
  } else if constexpr (std::same_as<R, std::vector<Tensor>>) {
    list.insert(list.end(), result.begin(), result.end());
  } else {
    static_assert(
        requires { std::tuple_size<R>::value; },
        "a captured function returns a tensor, a tuple of tensors, or a std::vector of them");
    std::apply([&](const auto&... parts) { (list_results(parts, list), ...); }, result);
  }
}
template <class R>
R take_results(std::vector<Tensor>& list, std::size_t& at) {
  if constexpr (std::same_as<R, Tensor>) {
    return std::move(list[at++]);
  } else if constexpr (std::same_as<R, std::vector<Tensor>>) {
    return {list.begin() + static_cast<std::ptrdiff_t>(std::exchange(at, list.size())), list.end()};
  } else {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return R{take_results<std::tuple_element_t<I, R>>(list, at)...};
    }
    (std::make_index_sequence<std::tuple_size_v<R>>());
  }
}

}  // namespace capture_impl

/// A captured function; see capture(). Movable, not copyable.
template <class F>
class Captured {
 public:
  Captured(F function, const CaptureOptions& options)
      : function_(std::move(function)), program_(std::make_unique<capture_impl::StepProgram>(options)) {}

  /// One step, with the function's arguments: tensors, numbers, enumerators. The results are detached, and valid until the
  /// next call, which writes over them: clone() what is to stay. A replay on a GPU reads the arguments behind what the current stream
  /// has to do: one that was made on another stream needs Storage::record_stream(), as for each kernel that reads it.
  template <class... Args>
  requires std::invocable<F&, const Args&...>
  auto operator()(const Args&... args) {
    using Result = std::remove_cvref_t<std::invoke_result_t<F&, const Args&...>>;
    Given given;
    (sort(args, given), ...);
    std::vector<Tensor> results =
        program_->run(given.inputs(), given.values, [&](const std::vector<Tensor>& with) {
          [[maybe_unused]] std::size_t next = 0;
          std::vector<Tensor> list;
          // In the order of the arguments, which braces keep.
          std::tuple<const Args&...> call{choose(args, with, next)...};
          if constexpr (std::is_void_v<Result>) {
            std::apply(function_, call);
          } else {
            capture_impl::list_results<Result>(std::apply(function_, call), list);
          }
          return list;
        });
    if constexpr (!std::is_void_v<Result>) {
      std::size_t at = 0;
      return capture_impl::take_results<Result>(results, at);
    }
  }

  /// Whether a call with these arguments would replay a recording now.
  template <class... Args>
  requires std::invocable<F&, const Args&...>
  bool ready(const Args&... args) const {
    Given given;
    (sort(args, given), ...);
    return program_->ready(given.inputs(), given.values);
  }
  /// Whether calls replay a recording: not yet in the first calls.
  bool captured() const { return program_->captured(); }
  /// Replays so far.
  std::int64_t replays() const { return program_->replays(); }
  /// Recordings made so far. A count that goes on growing means that something changes from step to step.
  std::int64_t recordings() const { return program_->recordings(); }
  /// The calls of the recording that was used last, in order: "linear", "relu", "relu'" (its backward), "fused(add, gelu)", ...
  std::vector<std::string> kernels() const { return program_->kernels(); }
  /// Kernels, copies and fills that a replay of that recording launches on a GPU; 0 before the first replay, and on the CPU.
  std::size_t launches() const { return program_->launches(); }
  /// Bytes that the recordings hold of the device, their tensors and results. What they share, with one another and with
  /// other functions (CaptureOptions::pool), counts once.
  std::size_t memory() const { return program_->memory(); }
  /// The recording that was used last as a graph in Graphviz's language: a box for each call, an arrow for each result that
  /// a later call reads.
  std::string dot() const { return program_->dot(); }
  /// Writes dot() to a file, which appears as a whole or not at all. Throws IoError.
  void write_dot(const std::string& path) const { io::write_file(path, dot()); }
  /// Account of the recording that was used last: which calls run as one pass over memory, and of each other call, why it
  /// does not.
  std::string explain_fusion() const { return program_->explain_fusion(); }
  /// Forgets all recordings: the next calls warm up and record again.
  void reset() { program_->reset(); }

 private:
  struct Given {
    InlineVector<const Tensor*, 8> tensors;
    std::string values;
    capture_impl::StepProgram::Inputs inputs() const { return {tensors.begin(), tensors.size()}; }
  };
  template <class T>
  static void sort(const T& arg, Given& given) {
    if constexpr (std::same_as<T, Tensor>) {
      given.tensors.emplace_back(&arg);
    } else {
      static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>,
                    "arguments of a captured function are tensors, numbers and enumerators");
      given.values.append(reinterpret_cast<const char*>(&arg), sizeof arg);
    }
  }
  template <class T>
  static const T& choose(const T& arg, const std::vector<Tensor>& with, std::size_t& next) {
    if constexpr (std::same_as<T, Tensor>)
      return with[next++];
    else
      return arg;
  }

  F function_;
  std::unique_ptr<capture_impl::StepProgram> program_;
};

/// Makes a program of a function that does a whole step: forward, loss, backward, clipping, optimizer, schedule, averages.
///
///     auto step = ct::capture([&](const ct::Tensor& x, const ct::Tensor& y) {
///       adam.zero_grad();
///       ct::Tensor loss = ct::cross_entropy(model.forward(x), y);
///       loss.backward();
///       adam.step();
///       schedule.step();
///       return loss;
///     });
///     for (const auto& [x, y] : loader) loss = step(x, y);
///
/// The first calls are plain steps (CaptureOptions::warmup), the next two are recorded and compared, those after them
/// replay: on a GPU one CUDA graph, on the CPU the list of kernels, without dispatch, tape and allocation. Each call ends in
/// the same bits as the function itself: random draws, learning rates, step counts, schedules, averages and scales go on.
///
/// A replay does of the function's host code what the library knows of (schedules, counts of steps) and at_replay(), and of the
/// work on tensors the calls of ops: a kernel that the program launches itself is none, unless it is an op's (op_def.h). It
/// refers to tensors of its own as it found them: they must stay, and be changed in place. The step is recorded anew, up to
/// CaptureOptions::recordings times, for other shapes, strides, dtypes, devices and values of the arguments, under another
/// grad mode or autocast, with other gradients at its start, other parameters' storage, other hooks of modules or parameters, or
/// in another mode (train, eval).
///
/// Who watches calls (op_observer.h, profile()) sees the kernels of a replay one by one, as on a GPU they run then.
///
/// Throws CaptureError, and leaves the plain function usable: for a step that reads a value (item(), to_vector(), a loop that
/// ends by a value, nonzero), works on another device or stream than the rest, draws from a generator of its own, changes an
/// argument in place, takes arguments that require gradients, or differs from one call to the next (a number that changes, a
/// tensor that is made anew outside of it); for a call within a captured step, or from a second thread at the same time.
template <class F>
[[nodiscard]] Captured<std::decay_t<F>> capture(F&& function, const CaptureOptions& options = {}) {
  return {std::forward<F>(function), options};
}

}  // namespace ct
