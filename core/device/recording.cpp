#include <cotangent/core/device/recording.h>

#include <utility>

namespace ct {

namespace {
constinit thread_local Recording* t_recording = nullptr;
}  // namespace

Recording* detail::recording() noexcept { return t_recording; }

detail::RecordingScope::RecordingScope(Recording* recording) noexcept
    : outer_(std::exchange(t_recording, recording)) {}
detail::RecordingScope::~RecordingScope() { t_recording = outer_; }

void detail::note_read(const char* op) {
  if (t_recording) [[unlikely]]
    t_recording->refuse(op, "reads values of the step; return the tensor, and read it behind the call");
}

void at_replay(std::function<void()> effect) {
  {
    const detail::RecordingScope suspended(nullptr);  // what it does is done again as a whole
    effect();
  }
  if (t_recording) t_recording->effect(std::move(effect));
}

}  // namespace ct
