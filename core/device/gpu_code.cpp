#include <charconv>

#include <cotangent/core/base/error.h>
#include <cotangent/core/device/gpu_code_internal.h>

namespace ct::detail {
namespace {

// One entry of the list: NUMBER[a|f][-real|-virtual].
bool entry_runs_on(std::string_view entry, int major, int minor) {
  int number = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  if (error != std::errc()) return false;
  std::string_view rest = entry.substr(static_cast<std::size_t>(end - entry.data()));
  const char kind = rest.empty() || rest[0] == '-' ? ' ' : rest[0];
  if (kind != ' ') rest.remove_prefix(1);
  const int gpu = 10 * major + minor;
  const bool family = number / 10 == major && number <= gpu;
  if (kind == 'a') return number == gpu;  // made for this GPU alone
  if (kind == 'f') return family;
  // Machine code runs on later GPUs of the same generation, PTX on every later one; no suffix means both.
  return family || (rest != "-real" && number <= gpu);
}

}  // namespace

bool has_code_for(std::string_view architectures, int major, int minor) {
  while (!architectures.empty()) {
    const std::size_t end = architectures.find_first_of("; ");
    if (entry_runs_on(architectures.substr(0, end), major, minor)) return 10 * major + minor >= kOldestGpu;
    if (end == std::string_view::npos) break;
    architectures.remove_prefix(end + 1);
  }
  return false;
}

std::string missing_code(std::string_view architectures, int major, int minor) {
  const int gpu = 10 * major + minor;
  const std::string found =
      cat("the library was built for ", architectures, "; this GPU is ", major, '.', minor);
  if (gpu < kOldestGpu)
    return cat(found, ", older than the oldest that is supported, ", kOldestGpu / 10, '.', kOldestGpu % 10);
  return cat(found, "; rebuild with -DCOTANGENT_CUDA_ARCHITECTURES=", gpu, gpu >= 90 ? "a-real" : "-real");
}

}  // namespace ct::detail
