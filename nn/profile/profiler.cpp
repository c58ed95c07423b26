#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>
#include <tuple>

#include <cotangent/core/base/error.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/nn/profile/profile_internal.h>

// The recording: a tracer that notes times, places and costs, and keeps no tensor.

namespace ct {
namespace {

using namespace profile_impl;

DType computed_in(DType found, const Tensor& t) {
  return found == DType::u8 && t.defined() && is_floating(t.dtype()) ? t.dtype() : found;
}

}  // namespace

struct Profiler::Impl final : Tracer {
  struct Recorded {
    const OpDef* op = nullptr;
    Device device;
    std::int32_t parent = -1, begun = -1, ended = -1;  // marks of a GpuClock
    bool backward = false, finished = false;
    DType dtype = DType::u8;  // no floating one yet
    std::size_t noted = 0;    // place in `costs`
    std::int64_t host_begin = 0, host_end = 0;
  };

  explicit Impl(const ProfileOptions& options) : thread(std::this_thread::get_id()) {
    calls.resize(1 << 12), calls.clear();  // as words_ of CallCosts
    wait_for_devices();
    if (options.memory) memory.emplace(open);
    records = KernelRecords::begin();
    waits = sync_count();
    scope.emplace(*this);
    started = host_ns();
  }

  bool begin(const KernelCall& call) override {
    Recorded& c = calls.emplace_back();
    c.op = &call.op, c.backward = call.backward != nullptr, c.parent = open;
    const auto look = [&](const Tensor& t) {
      c.dtype = computed_in(c.dtype, t);
      if (t.defined() && t.device().is_cuda()) c.device = t.device();
    };
    if (call.forward) {
      for (const Tensor* t : call.forward->inputs) look(*t);
      for (const Tensor& t : call.forward->outputs) look(t);
    } else {
      for (const Tensor& t : call.backward->grads) look(t);
      for (const Tensor& t : call.backward->saved_inputs) look(t);
    }
    const auto number = static_cast<std::int32_t>(calls.size()) - 1;
    if (c.device.is_cuda() && records) records->enter(number);
    if (c.device.is_cuda() && !records) c.begun = clock.mark(current_stream(c.device));
    open = number;  // nothing throws from here on
    if (memory && call.forward)
      for (const Tensor& t : call.forward->outputs) memory->claim(t);
    c.host_begin = c.host_end = host_ns();
    return false;
  }

  void end(const KernelCall& call) override {
    const std::int64_t now = host_ns();
    Recorded& c = calls[static_cast<std::size_t>(open)];
    c.host_end = now;
    if (memory)
      for (const Tensor& t : call.results()) memory->claim(t);
    open = c.parent;
    if (c.device.is_cuda() && records) records->leave();
    if (c.begun >= 0) c.ended = clock.mark(current_stream(c.device));
    c.noted = costs.note(call), c.finished = true;
  }

  void write(Profile& profile) const;
  void add_records(Profile& profile) const;

  const std::thread::id thread;
  std::vector<Recorded> calls;
  std::int32_t open = -1;
  CallCosts costs;
  GpuClock clock;
  std::unique_ptr<KernelRecords> records;
  std::optional<MemoryWatch> memory;
  std::uint64_t waits = 0;
  std::int64_t started = 0;
  std::optional<TracerScope> scope;
};

void Profiler::Impl::write(Profile& profile) const {
  std::map<std::string_view, std::uint32_t> places;
  for (const Recorded& c : calls) {
    const auto [at, fresh] = places.try_emplace(c.op->name, static_cast<std::uint32_t>(profile.ops.size()));
    if (fresh) profile.ops.emplace_back(c.op->name);
    Profile::Call& shown = profile.calls.emplace_back();
    shown.op = at->second, shown.backward = c.backward, shown.device = c.device, shown.parent = c.parent;
    shown.dtype = c.dtype;
    if (c.finished) {
      const Cost cost = costs.cost(*c.op, c.noted);
      shown.flops = cost.flops, shown.bytes = cost.bytes;
    }
    shown.host_start_us = static_cast<double>(c.host_begin - started) * 1e-3;
    shown.host_us = static_cast<double>(c.host_end - c.host_begin) * 1e-3;
    shown.start_us = shown.host_start_us, shown.us = shown.host_us;
    if (c.begun >= 0 && c.ended >= 0) {
      shown.start_us = (clock.ns(c.begun) - static_cast<double>(started)) * 1e-3;
      shown.us = clock.ns_between(c.begun, c.ended) * 1e-3;
    }
  }
  if (records) add_records(profile);
  if (!memory) return;
  const auto name = [&](std::int32_t call) -> std::pair<std::string, std::string> {
    if (call >= 0) {
      const Recorded& c = calls[static_cast<std::size_t>(call)];
      return {c.op->name, direction(c.backward)};
    }
    return {"", call == MemoryWatch::kBefore    ? "from before"
                : call == MemoryWatch::kOutside ? "outside of ops"
                                                : "of other threads"};
  };
  for (const MemoryWatch::Peak& peak : memory->peaks()) {
    Profile::Peak& shown = profile.peaks.emplace_back();
    shown.device = peak.device, shown.bytes = peak.bytes;
    std::tie(shown.op, shown.direction) = name(peak.call);
    std::map<std::pair<std::string, std::string>, std::size_t> sums;
    for (const auto& [call, bytes] : peak.owners) sums[name(call)] += bytes;
    for (const auto& [owner, bytes] : sums) shown.owners.push_back({owner.first, owner.second, bytes});
    std::ranges::stable_sort(shown.owners, std::greater<>(), &Profile::Owner::bytes);
  }
}

// Times of kernels, to the calls that launched them and to those that hold these.
void Profiler::Impl::add_records(Profile& profile) const {
  const std::vector<KernelRecords::Work> work = records->finish();
  if (work.empty()) return;  // the host's times are better than none
  for (Profile::Call& c : profile.calls)
    if (c.device.is_cuda()) c.us = 0;
  for (const KernelRecords::Work& w : work) {
    const double start = (w.start_ns - static_cast<double>(started)) * 1e-3, us = w.ns * 1e-3;
    std::int32_t at = w.call;
    if (at < 0 || at >= static_cast<std::int32_t>(calls.size())) {
      if (profile.ops.empty() || profile.ops.back() != "(no op)") profile.ops.emplace_back("(no op)");
      Profile::Call& c = profile.calls.emplace_back();
      c.op = static_cast<std::uint32_t>(profile.ops.size()) - 1, c.device = cuda(w.device);
      c.start_us = c.host_start_us = start, c.us = us, c.kernels = 1;
      continue;
    }
    ++profile.calls[static_cast<std::size_t>(at)].kernels;
    for (; at >= 0; at = profile.calls[static_cast<std::size_t>(at)].parent) {
      Profile::Call& c = profile.calls[static_cast<std::size_t>(at)];
      c.start_us = c.us > 0 ? std::min(c.start_us, start) : start;
      c.us += us;
    }
  }
}

Profiler::Profiler(const ProfileOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Profiler::~Profiler() = default;

Profile Profiler::stop() {
  CT_CHECK(impl_ && impl_->scope, Error, "Profiler", "it has been stopped; make another one for more calls");
  CT_CHECK(impl_->thread == std::this_thread::get_id(), Error, "Profiler",
           "it was made on another thread, whose calls it records; stop it there");
  impl_->scope.reset();
  Profile result;
  wait_for_devices();
  result.seconds = static_cast<double>(host_ns() - impl_->started) * 1e-9;
  result.waits = sync_count() - impl_->waits;
  impl_->write(result);
  impl_.reset();
  return result;
}

Profile profile(FunctionRef<void()> fn, const ProfileOptions& options) {
  Profiler profiler(options);
  fn();
  return profiler.stop();
}

// ---- Clocks ---------------------------------------------------------------------------------------------------

std::int64_t profile_impl::host_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void profile_impl::wait_for_devices() {
  for (int i = 0; i < kMaxCudaDevices;
       ++i)  // those without an allocator have no work: looking starts no driver
    if (detail::g_current_allocators[1 + i].load(std::memory_order_acquire)) synchronize(cuda(i));
}

namespace profile_impl {
namespace {

// Events of earlier profiles, by device: making one takes longer than recording it.
struct Spare {
  std::mutex mutex;
  std::vector<Event> events[1 + kMaxCudaDevices];
};
Spare& spare() {
  static Spare& all = *new Spare;
  return all;
}

}  // namespace

std::int32_t GpuClock::mark(const Stream& stream) {
  const auto device = static_cast<std::size_t>(1 + stream.device.index);
  {
    Spare& all = spare();
    const std::lock_guard lock(all.mutex);
    if (all.events[device].empty()) {
      events_.emplace_back(true);
    } else {
      events_.push_back(std::move(all.events[device].back()));
      all.events[device].pop_back();
    }
  }
  devices_.push_back(device);
  const auto number = static_cast<std::int32_t>(events_.size()) - 1;
  if (first_.size() <= device) first_.resize(device + 1);
  if (first_[device].mark == -1) first_[device] = {number, host_ns()};
  events_.back().record(stream);
  return number;
}

GpuClock::~GpuClock() {
  Spare& all = spare();
  const std::lock_guard lock(all.mutex);
  for (std::size_t i = 0; i < events_.size(); ++i) all.events[devices_[i]].push_back(std::move(events_[i]));
}

double GpuClock::ns(std::int32_t mark) const {
  const First& first = first_[devices_[static_cast<std::size_t>(mark)]];
  return static_cast<double>(first.host) + ns_between(first.mark, mark);
}

double GpuClock::ns_between(std::int32_t from, std::int32_t to) const {
  return 1e6 * events_[static_cast<std::size_t>(from)].elapsed_ms(events_[static_cast<std::size_t>(to)]);
}

}  // namespace profile_impl
}  // namespace ct
