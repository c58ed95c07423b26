#pragma once

#include <cstdint>
#include <functional>

#include <cotangent/core/base/export.h>

// The step that the calling thread records (nn/capture/capture.h), as those see it who do more in a step than call ops.
// A replay runs kernels alone: what else a step changes, it is told here.

namespace ct {

class Tensor;

/// A step while it is recorded.
class CT_API Recording {
 public:
  /// Runs `effect` before the kernels of each replay, in the order of the calls. Not now.
  virtual void effect(std::function<void()> effect) = 0;
  /// Asks before each replay; where the answer is false the step is recorded anew. `what` ends the sentence "it was
  /// recorded with ...". Where what fails never holds again (`returns` is false) the recording is dropped, and a plain step
  /// comes first. An answer that changes only with detail::bump_state_epoch() is asked for behind a change alone (`noted`). Of
  /// guards with the same `key` a recording has one, the first.
  virtual void guard(const char* what, std::function<bool()> holds, bool returns = true, bool noted = false,
                     const void* key = nullptr) = 0;
  /// Eight bytes in the memory of the step's device that hold, when the kernels run, what `value` returns then. It is asked
  /// in the order of the effects.
  virtual void* slot(std::function<std::uint64_t()> value) = 0;
  /// Told before the gradient of `leaf` is set, taken away or added to.
  virtual void gradient(const Tensor& leaf) = 0;
  /// Throws CaptureError: `op` does what no replay can.
  [[noreturn]] virtual void refuse(const char* op, const char* why) = 0;

 protected:
  ~Recording() = default;
};

namespace detail {
/// The calling thread's recording, or null.
CT_API Recording* recording() noexcept;

/// Makes `recording` the calling thread's until the scope ends; null suspends it.
class CT_API RecordingScope {
 public:
  explicit RecordingScope(Recording* recording) noexcept;
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  Recording* outer_;
};

/// Goes up, for all threads, where something that recordings hold for may have changed without a call of an op: storage,
/// requires_grad, gradient or hooks of a leaf, mode or hooks of a module. As long as it stands, what held holds.
CT_API std::uint64_t state_epoch() noexcept;
/// Notes such a change, behind it.
CT_API void bump_state_epoch() noexcept;

/// The host is about to read values of `op`'s: throws CaptureError in a recording, where they do not exist yet or would be
/// those of one step.
CT_API void note_read(const char* op);
}  // namespace detail

/// Does `effect`, and does it again with each replay of the step that the calling thread records, if it records one: a
/// counter, a schedule of one's own. It sees the step's host state, not its values.
CT_API void at_replay(std::function<void()> effect);

}  // namespace ct
