#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/export.h>

// Where tensors live and kernels run. A library built with CUDA runs on a machine without a GPU: the
// driver is asked once, at the first question, and the answer is kept.

namespace ct {

enum class DeviceType : std::uint8_t { cpu, cuda };

/// The highest number of GPUs of one process that are seen.
inline constexpr int kMaxCudaDevices = 16;

/// A device: the CPU, or the GPU with a number. Two bytes, passed by value.
struct Device {
  DeviceType type = DeviceType::cpu;
  std::int8_t index = 0;

  constexpr bool is_cpu() const { return type == DeviceType::cpu; }
  constexpr bool is_cuda() const { return type == DeviceType::cuda; }
  friend constexpr bool operator==(Device a, Device b) { return a.type == b.type && a.index == b.index; }
};

/// The CPU.
inline constexpr Device cpu{};
/// The GPU with this number. Naming a device that is not there is allowed; using it throws DeviceError.
constexpr Device cuda(int index = 0) {
  return Device{DeviceType::cuda, static_cast<std::int8_t>(index < 0 || index > 127 ? 127 : index)};
}

/// Reads "cpu", "cuda" (which is "cuda:0"), "cuda:N" or "auto" (which is best_device()). Throws
/// DeviceError on any other text; whether the device is there is the business of check_device().
CT_API Device parse_device(std::string_view text);
/// "cpu", "cuda:0"
CT_API std::string to_string(Device device);
CT_API std::ostream& operator<<(std::ostream& out, Device device);

/// True when this library contains its CUDA half.
CT_API bool built_with_cuda();
/// The number of GPUs up to the last usable one: 0 without CUDA, without a driver, or without a GPU that this
/// build has code for. (One before it that there is no code for has a number too; check_device() refuses it.)
/// In the child of a fork() 0, too, if the parent had asked: CUDA works in the process that opened it alone.
CT_API int cuda_device_count();
/// cuda_device_count() > 0.
CT_API bool cuda_is_available();
/// The first usable GPU, else the CPU.
CT_API Device best_device();

/// The GPU that the calling thread works on by default (0 at first; see DeviceGuard). 0 without a GPU.
CT_API int current_cuda_device();

/// Makes `device` the calling thread's current GPU until the end of the scope; does nothing for the CPU.
/// Throws DeviceError when the device is not there.
class CT_API DeviceGuard {
 public:
  [[nodiscard]] explicit DeviceGuard(Device device) {
    if (device.is_cuda()) enter(device);
  }
  ~DeviceGuard() {
    if (previous_ >= 0) leave();
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  void enter(Device device);
  void leave() noexcept;
  int previous_ = -1;  // the device to go back to, or -1 if nothing was changed
};

/// Properties of a GPU that kernels and reports ask for.
struct DeviceProperties {
  std::string name;
  int compute_major = 0;  ///< compute capability: 9.0 is Hopper
  int compute_minor = 0;
  int multiprocessors = 0;
  std::size_t total_memory = 0;            ///< bytes of device memory
  std::size_t l2_bytes = 0;                ///< bytes of L2 cache
  std::size_t shared_bytes_per_block = 0;  ///< the most shared memory that a block can opt in to
  std::size_t shared_bytes_per_sm = 0;     ///< shared memory of a multiprocessor
  int max_threads_per_multiprocessor = 0;
};

/// The properties of GPU `index`, read once. Throws DeviceError when it is not there.
CT_API const DeviceProperties& cuda_properties(int index = 0);

/// Throws DeviceError, naming `op`, unless `device` can be used: it says whether the library was built
/// without CUDA or without code for this GPU, the machine has no GPU, or there are fewer of them.
CT_API void check_device(const char* op, Device device);

}  // namespace ct
