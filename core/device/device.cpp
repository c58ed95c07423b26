#include <cotangent/core/device/device.h>

#include <pthread.h>

#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cstdint>
#include <mutex>
#include <ostream>

#include <cotangent/core/base/version.h>
#include <cotangent/core/device/gpu_code_internal.h>
#include <cotangent/core/device/runtime_internal.h>

namespace ct {

namespace runtime = detail::runtime;

Device parse_device(std::string_view text) {
  if (text == "cpu") return cpu;
  if (text == "cuda") return cuda(0);
  if (text == "auto") return best_device();
  constexpr std::string_view prefix = "cuda:";
  if (text.starts_with(prefix)) {
    const std::string_view digits = text.substr(prefix.size());
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() && index >= 0 && index <= 126)
      return cuda(index);
  }
  detail::fail<DeviceError>("device", "got \"", text, "\"; want \"cpu\", \"cuda\", \"cuda:N\" or \"auto\"");
}

std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : "cuda:" + std::to_string(int{device.index});
}

std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

namespace {

// True in the child of a fork() of a process that had opened the driver, which works in the process that opened it alone.
std::atomic<bool> forked{false};

struct Devices {
  int count = runtime::device_count();
  std::atomic<std::uint32_t> usable{0};  // a bit for each GPU that there is code for

  Devices() noexcept {
    std::uint32_t bits = 0;
    for (int i = 0; i < count; ++i) {
      const auto [major, minor] = runtime::compute_capability(i);
      if (detail::has_code_for(build_info().cuda_architectures, major, minor)) bits |= 1u << i;
    }
    usable = bits;
  }
};

Devices& devices() {
  static Devices found;
  [[maybe_unused]] static const int watched = found.count == 0 ? 0 : pthread_atfork(nullptr, nullptr, [] {
    forked = true;
    devices().usable = 0;
  });
  return found;
}

}  // namespace

int cuda_device_count() { return std::bit_width(devices().usable.load(std::memory_order_relaxed)); }

bool cuda_is_available() { return devices().usable != 0; }

Device best_device() {
  const std::uint32_t usable = devices().usable;
  return usable != 0 ? cuda(std::countr_zero(usable)) : cpu;
}

int current_cuda_device() {
  // With one GPU (or none) there is nothing to ask.
  return devices().count > 1 ? runtime::get_device() : 0;
}

void DeviceGuard::enter(Device device) {
  check_device("device", device);
  const int current = current_cuda_device();
  if (current == device.index) return;
  runtime::set_device(device.index);
  previous_ = current;
}

void DeviceGuard::leave() noexcept {
  try {
    runtime::set_device(previous_);
  } catch (const Error&) {
    // The context is gone; whatever broke it reports itself at the next call that can throw.
  }
}

const DeviceProperties& cuda_properties(int index) {
  check_device("cuda_properties",
               Device{DeviceType::cuda, static_cast<std::int8_t>(index < 0 || index > 127 ? 127 : index)});
  struct Table {
    std::array<std::once_flag, kMaxCudaDevices> read;
    std::array<DeviceProperties, kMaxCudaDevices> values;
  };
  static Table& table = *new Table;  // never destroyed: kernels may run from static destructors
  const auto i = static_cast<std::size_t>(index);
  std::call_once(table.read[i], [&] { table.values[i] = runtime::properties(index); });
  return table.values[i];
}

void check_device(const char* op, Device device) {
  if (device.is_cpu()) return;
  const Devices& found = devices();
  const int count = found.count;
  if (device.index >= 0 && device.index < count) {
    if (found.usable.load(std::memory_order_relaxed) >> device.index & 1) [[likely]]
      return;
    CT_CHECK(!forked, DeviceError, op, "device ", device,
             " can't be used: this process is the child of a fork() of one that ",
             "had opened CUDA; use cpu here, or open CUDA after the fork alone, or start the child by exec");
    const auto [major, minor] = runtime::compute_capability(device.index);
    detail::fail<DeviceError>(op, "device ", device, " can't be used: ",
                              detail::missing_code(build_info().cuda_architectures, major, minor));
  }
  CT_CHECK(count > 0, DeviceError, op, "device ", device, " is not there: ", runtime::no_device_reason(),
           "; use cpu, or best_device() to choose");
  detail::fail<DeviceError>(op, "device ", device, " is not there: this machine has ", count,
                            count == 1 ? " GPU, cuda:0" : " GPUs, cuda:0 to cuda:",
                            count == 1 ? "" : std::to_string(count - 1), "; use one of them, or cpu");
}

}  // namespace ct
