#include <cotangent/core/device/recording.h>

#include <atomic>
#include <utility>

#include <cotangent/core/base/ref.h>

namespace ct {

namespace {
constinit thread_local Recording* t_recording = nullptr;
constinit std::atomic<std::uint64_t> g_state_epoch{1};
}  // namespace

Recording* detail::recording() noexcept { return t_recording; }

detail::RecordingScope::RecordingScope(Recording* recording) noexcept
    : outer_(std::exchange(t_recording, recording)) {}
detail::RecordingScope::~RecordingScope() { t_recording = outer_; }

std::uint64_t detail::state_epoch() noexcept { return g_state_epoch.load(std::memory_order_acquire); }
void detail::bump_state_epoch() noexcept {
  detail::count(g_state_epoch, std::uint64_t{1}, std::memory_order_release);
}

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
