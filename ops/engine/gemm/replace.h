#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/device/device.h>
#include <cotangent/ops/engine/gemm/product.h>

#include <string>

// Products of one's own in the place of the library's, for a run: to see a network train on a kernel that one has
// written. The dispatch of a product asks here first, which costs one load.

namespace ct::gemm {

/// Does all of a product, or returns false and leaves it to the device's own.
using Replacement = bool (*)(const Product&);

/// Finds a replacement for a device by name. Throws ValueError, naming those that there are.
using Finder = Replacement (*)(const std::string& name, Device device);

/// Called by a program's file that has products to offer, before main(); returns true.
CT_API bool offer(Finder finder);

/// From now on products on devices of this type are done by the one that is offered under this name; an empty name gives
/// them back to the library. Products that an op fuses with something else (convolutions, attention) are not among them.
/// Throws ValueError if none is offered. Not while other threads compute.
CT_API void replace(const std::string& name, Device device);

/// The replacement of a device type; null where there is none.
CT_API Replacement replacement(DeviceType device);

/// Whether a replacement did the product.
inline bool replaced(const Product& p, DeviceType device) {
  const Replacement run = replacement(device);
  return run != nullptr && run(p);
}

}  // namespace ct::gemm
