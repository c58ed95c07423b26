#pragma once

#include <cotangent/core/device/device.h>

#include <string>

/// The device that --device names. Throws ct::DeviceError if this program, or this machine, has none.
inline ct::Device usable_device(const std::string& program, const std::string& name) {
  const ct::Device device = ct::parse_device(name);
  if (device.is_cpu()) return device;
  CT_CHECK(ct::built_with_cuda(), ct::DeviceError, program.c_str(), "--device ", name,
           ": this program was built without CUDA; build it with: ./ct ", program,
           " --cuda, or choose --device cpu");
  CT_CHECK(ct::cuda_is_available(), ct::DeviceError, program.c_str(), "--device ", name,
           ": there is no GPU that can be used (./ct doctor tells more); choose --device cpu");
  ct::check_device(program.c_str(), device);
  return device;
}
