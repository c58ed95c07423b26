#include <cotangent/ops/engine/gemm/replace.h>

#include <atomic>

namespace ct::gemm {
namespace {
Finder finder = nullptr;
std::atomic<Replacement> replacements[2] = {nullptr, nullptr};
std::atomic<Replacement>& of(DeviceType device) { return replacements[device == DeviceType::cpu ? 0 : 1]; }
}  // namespace

bool offer(Finder f) {
  finder = f;
  return true;
}

void replace(const std::string& name, Device device) {
  CT_CHECK(name.empty() || finder != nullptr, ValueError, "gemm",
           "this program has no products to offer, and so none of the name ", name,
           "; ./ct mnist --gemm NAME builds one that has");
  of(device.type) = name.empty() ? nullptr : finder(name, device);
}

Replacement replacement(DeviceType device) { return of(device).load(std::memory_order_relaxed); }

}  // namespace ct::gemm
