#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/error.h>
#include <cotangent/core/base/precision.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/nn/profile/profile_internal.h>
#include <cotangent/ops/autocast.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/reduce/reduce.h>

// The timer, and the limits that it measures.

namespace ct {
namespace {

using namespace profile_impl;

// The device of the last call on a GPU, if there is one.
struct Places final : Tracer {
  bool begin(const KernelCall& call) override {
    call.for_each_tensor([&](const Tensor& t, auto) {
      if (t.defined() && t.device().is_cuda()) device = t.device();
    });
    return false;
  }
  void end(const KernelCall&) override {}
  Device device;
};

// Memory that takes the place of all else in the caches when it is written.
Tensor filler(Device device) {
  const std::size_t cache = device.is_cpu() ? std::size_t{32} << 20 : cuda_properties(device.index).l2_bytes;
  return empty({static_cast<std::int64_t>(2 * cache)}, {.dtype = DType::u8, .device = device});
}

// Bytes per second of ops that do as little as possible with what they move, at sizes from caches to memory.
std::vector<DeviceLimits::Rate> memory_rates(Device device) {
  const std::int64_t least = device.is_cpu() ? 1 << 14 : 1 << 18;
  std::int64_t most = device.is_cpu() ? 1 << 28 : 1 << 30;
  Tensor from, to;
  while (!to.defined()) try {
      from = zeros({most / 8}, {.device = device}), to = zeros({most / 8}, {.device = device});
    } catch (const OutOfMemoryError&) {  // a training may have most of it
      from = {};
      if ((most /= 4) < least) throw;
    }
  std::vector<DeviceLimits::Rate> rates;
  for (std::int64_t moved = least; moved <= most; moved *= 4) {
    const std::int64_t times =
        std::clamp<std::int64_t>((1 << 21) / moved, 1, 64);  // a call alone is mostly start
    double best = 0;
    const auto measure = [&](std::int64_t tensors, auto&& call) {
      const std::int64_t n = moved / 4 / tensors;
      const Tensor a = from.narrow(0, 0, std::min(n, from.numel()));
      Tensor b = to.narrow(0, 0, std::min(n, to.numel()));
      const auto several = [&] {
        for (std::int64_t i = 0; i < times; ++i) call(a, b);
      };
      const double took = times_of(several, {.warmup = 1, .runs = 5, .flush = false, .device = device})[0];
      best = std::max(best, static_cast<double>(4 * tensors * a.numel() * times) / took);
    };
    measure(1, [](const Tensor& a, Tensor&) { sum(a); });
    measure(2, [](const Tensor& a, Tensor& b) { b.copy_(a); });
    measure(3, [](const Tensor& a, Tensor& b) { b.add_(a); });
    rates.push_back({static_cast<double>(moved), best});
  }
  // Nothing that is larger is faster: few bytes move as fast as more do, but for the time that a call takes to begin.
  for (std::size_t i = rates.size() - 1; i-- > 0;)
    rates[i].bytes = std::max(rates[i].bytes, rates[i + 1].bytes);
  return rates;
}

// Operations per second of the fastest square product. Of normal numbers: a GPU is slower with them than with zeros.
double product_rate(Device device, DType dtype) {
  double best = 0;
  Generator draws(1);
  const std::int64_t most = device.is_cpu() ? 1024 : 8192;
  for (std::int64_t n = 128; n <= most; n *= 2) try {
      const Tensor a = randn({n, n}, {.dtype = dtype, .device = device}, draws);
      const Tensor b = randn({n, n}, {.dtype = dtype, .device = device}, draws);
      const std::int64_t times = n <= 512 ? 4 : 1;
      const auto several = [&] {
        for (std::int64_t i = 0; i < times; ++i) matmul(a, b);
      };
      const double took = times_of(several, {.warmup = 1, .runs = 5, .flush = false, .device = device})[0];
      const auto side = static_cast<double>(n);
      best = std::max(best, 2 * side * side * side * static_cast<double>(times) / took);
      if (took > 0.2) break;  // plain kernels: no faster at another size
    } catch (const OutOfMemoryError&) {
      if (best == 0) throw;
      break;
    }
  return best;
}

// Measurements are remembered with what they depend on.
template <class Key, class Value, class Measure>
Value remembered(std::map<Key, Value>& known, const Key& key, Measure&& measure) {
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, measure()).first->second;
}

}  // namespace

std::vector<double> profile_impl::times_of(FunctionRef<void()> fn, const TimeOptions& options) {
  CT_CHECK(options.warmup >= 0 && options.runs > 0, ValueError, "time_of", "got warmup = ", options.warmup,
           " and runs = ", options.runs, "; wanted 0 or more, and 1 or more");
  Device device = options.device.value_or(cpu);
  check_device("time_of", device);
  for (int i = 0; i < std::max(options.warmup, options.device ? 0 : 1); ++i) {
    Places places;
    const TracerScope scope(places);
    fn();
    if (!options.device && places.device.is_cuda()) device = places.device;
  }
  Tensor rest;
  if (options.flush) rest = filler(device);
  std::vector<double> times;
  std::vector<Event> marks;
  for (int i = 0; i < options.runs; ++i) {
    if (rest.defined()) rest.fill_(i % 2);
    const std::int64_t start = host_ns();
    if (device.is_cuda()) marks.emplace_back(true).record(current_stream(device));
    fn();
    if (device.is_cuda())
      marks.emplace_back(true).record(current_stream(device));
    else
      times.push_back(static_cast<double>(host_ns() - start) * 1e-9);
  }
  for (std::size_t i = 0; i < marks.size(); i += 2) times.push_back(marks[i].elapsed_ms(marks[i + 1]) * 1e-3);
  std::sort(times.begin(), times.end());
  return times;
}

double time_of(FunctionRef<void()> fn, const TimeOptions& options) {
  const std::vector<double> times = times_of(fn, options);
  return (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
}

DeviceLimits device_limits(Device device, DType dtype) {
  check_device("device_limits", device);
  CT_CHECK(is_floating(dtype), DTypeError, "device_limits", "got ", dtype,
           "; products have limits in f32, f64, f16 and bf16");
  using Where = std::tuple<int, int>;
  static std::mutex& mutex = *new std::mutex;
  static auto& rates = *new std::map<Where, std::vector<DeviceLimits::Rate>>;
  static auto& products = *new std::map<std::tuple<Where, DType, bool>, double>;
  const std::lock_guard lock(mutex);  // two that measure at once would measure each other
  const NoGrad no_grad;
  const NoAutocast as_they_are;
  const DeviceGuard guard(device);
  const Where where{device.is_cpu() ? -1 : device.index, device.is_cpu() ? num_threads() : 0};
  DeviceLimits limits;
  limits.rates = remembered(rates, where, [&] { return memory_rates(device); });
  limits.bytes = limits.rates[0].bytes;
  limits.flops =
      remembered(products, {where, dtype, allow_tf32()}, [&] { return product_rate(device, dtype); });
  return limits;
}

}  // namespace ct
