#include <cotangent/core/device/cpu_level.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>

#include <cotangent/core/base/error.h>
#include <cotangent/core/device/kernel_tables.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ct {
namespace {

#if defined(__x86_64__)
// AMX-BF16 and AMX-TILE, whose registers Linux gives to a process that asks.
bool amx_granted() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr int request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) && (d >> 24 & 1) &&
         syscall(SYS_arch_prctl, request, tile_data) == 0;
}
#endif

// Every processor with AVX2, FMA and BMI2 has the rest of v3, and every one with AVX512VL the rest of v4.
bool processor_has([[maybe_unused]] std::string_view level) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (level == "v2") return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  if (level == "v3")
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (level == "v4-amx") return processor_has("v4-bf16") && amx_granted();
  if (level == "v4-bf16") return processor_has("v4") && __builtin_cpu_supports("avx512bf16");
  if (level == "v4")
    return processor_has("v3") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  return true;  // the only level: the whole library was compiled for it
}

// Intel's processors multiply bf16 by AVX512-BF16 at half the rate of f32 (a Xeon: 87 against 155 GFLOP/s, and 700 by AMX).
bool pays([[maybe_unused]] std::string_view level) {
#if defined(__x86_64__)
  return level != "v4-bf16" || __builtin_cpu_is("amd");
#else
  return true;
#endif
}

int choose() {
  const auto levels = cpu_levels();
  std::string names;
  for (const char* level : levels) names += std::string(names.empty() ? "" : ", ") + level;
  int best = -1;
  for (int i = 0; i < static_cast<int>(levels.size()); ++i)
    if (processor_has(levels[static_cast<std::size_t>(i)])) best = i;
  CT_CHECK(best >= 0, DeviceError, "cpu_level",
           "this processor has none of the levels that the library has kernels for (", names,
           "); build it here, with -DCOTANGENT_MARCH=native");
  const char* wanted = std::getenv("COTANGENT_CPU");
  if (!wanted || !*wanted) {
    while (best > 0 && !pays(levels[static_cast<std::size_t>(best)])) --best;
    return best;
  }
  const auto at = std::find(levels.begin(), levels.end(), std::string_view(wanted));
  CT_CHECK(at != levels.end(), ValueError, "cpu_level", "COTANGENT_CPU is \"", wanted,
           "\"; this library has kernels for: ", names);
  CT_CHECK(processor_has(wanted), ValueError, "cpu_level", "COTANGENT_CPU is ", wanted,
           ", which this processor lacks; the highest that it has is ",
           levels[static_cast<std::size_t>(best)]);
  return static_cast<int>(at - levels.begin());
}

}  // namespace

std::span<const char* const> cpu_levels() noexcept { return detail::built_cpu_levels(); }

const char* cpu_level() { return cpu_levels()[static_cast<std::size_t>(detail::cpu_level_index())]; }

int detail::cpu_level_index() {
  static std::atomic<int> known{-1};
  int level = known.load(std::memory_order_relaxed);
  if (level < 0) known.store(level = choose(), std::memory_order_relaxed);
  return level;
}

}  // namespace ct
