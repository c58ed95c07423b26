#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include <cotangent/core/base/error.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/nn/profile/profile_internal.h>

// Activity records of CUPTI, NVIDIA's profiling interface. Its library is opened where it is; its headers are not needed: of
// a record a few fields are read, which stand at the same place since CUDA 9.

namespace ct::profile_impl {
namespace {

enum Kind : std::uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kDriver = 4,
  kRuntime = 5,
  kKernel = 10,
  kExternal = 39
};
constexpr Kind kKinds[] = {kExternal, kRuntime, kDriver, kMemcpy, kMemset, kKernel};
constexpr std::uint32_t kOwn = 3;  // CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0
constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
constexpr std::uint32_t kRuntimeCalls = 2;  // CUPTI_CB_DOMAIN_RUNTIME_API
constexpr std::uint32_t kDetaches = 24;     // CUDA 12.6's; with those before, CUDA graphs crash after it

using Request = void (*)(std::uint8_t**, std::size_t*, std::size_t*);
using Complete = void (*)(void*, std::uint32_t, std::uint8_t*, std::size_t, std::size_t);
using Callback = void (*)(void*, std::uint32_t domain, std::uint32_t function, const void* data);
struct Library {
  int (*cuptiGetVersion)(std::uint32_t* version) = nullptr;
  int (*cuptiSubscribe)(void** subscriber, Callback, void*) = nullptr;
  int (*cuptiUnsubscribe)(void* subscriber) = nullptr;
  int (*cuptiEnableDomain)(std::uint32_t enable, void* subscriber, std::uint32_t domain) = nullptr;
  int (*cuptiFinalize)() = nullptr;
  int (*cuptiActivityRegisterCallbacks)(Request, Complete) = nullptr;
  int (*cuptiActivityEnable)(std::uint32_t kind) = nullptr;
  int (*cuptiActivityDisable)(std::uint32_t kind) = nullptr;
  int (*cuptiActivityFlushAll)(std::uint32_t flags) = nullptr;
  int (*cuptiActivityGetNextRecord)(std::uint8_t* buffer, std::size_t bytes, std::uint8_t** record) = nullptr;
  int (*cuptiActivityPushExternalCorrelationId)(std::uint32_t kind, std::uint64_t id) = nullptr;
  int (*cuptiActivityPopExternalCorrelationId)(std::uint32_t kind, std::uint64_t* id) = nullptr;
  int (*cuptiGetTimestamp)(std::uint64_t* time) = nullptr;
};

struct Launched {
  std::uint32_t launch;
  bool kernel;
  int device;
  std::uint64_t start, end;
};
// Records as they come, on threads of CUPTI's.
struct Session {
  std::mutex mutex;
  bool taken = false;
  void* subscriber = nullptr;
  enum Detaching { none, wanted, begun };
  std::atomic<Detaching> detaching = none;
  std::vector<Launched> work;
  std::unordered_map<std::uint32_t, std::int32_t> calls;  // by launch
};
Session& session() {
  static Session& only = *new Session;
  return only;
}

template <class T>
T field(const std::uint8_t* record, std::size_t offset) {
  T value;
  std::memcpy(&value, record + offset, sizeof value);
  return value;
}

const Library* library();

void request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, kBufferBytes));
  *bytes = *buffer ? kBufferBytes : 0;
  *most = 0;  // as many as fit
}

void read(std::uint8_t* buffer, std::size_t bytes) {
  Session& all = session();
  const std::lock_guard lock(all.mutex);
  std::uint8_t* record = nullptr;
  while (library()->cuptiActivityGetNextRecord(buffer, bytes, &record) == 0) {
    const auto kind = field<std::uint32_t>(record, 0);
    if (kind == kExternal && field<std::uint32_t>(record, 4) == kOwn)
      all.calls[field<std::uint32_t>(record, 16)] =
          static_cast<std::int32_t>(field<std::uint64_t>(record, 8));
    if (kind != kKernel && kind != kMemcpy && kind != kMemset) continue;
    const bool kernel = kind == kKernel;
    all.work.push_back({field<std::uint32_t>(record, kernel ? 92 : 44), kernel,
                        static_cast<int>(field<std::uint32_t>(record, kernel ? 40 : 32)),
                        field<std::uint64_t>(record, 16), field<std::uint64_t>(record, 24)});
  }
}
void complete(void*, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t bytes) {
  try {
    if (bytes > 0) read(buffer, bytes);
  } catch (const std::bad_alloc&) {}  // NOLINT: fewer records, rather than a program that ends
  std::free(buffer);
}

const Library* library() {
  static const Library* const found = []() -> const Library* {
    const char* const named = std::getenv("COTANGENT_CUPTI");
    if (named && std::string(named) == "0") return nullptr;
    void* opened = nullptr;
    for (const char* name : {named && *named ? named : "libcupti.so.13", "libcupti.so.12", "libcupti.so",
                             "/usr/local/cuda/lib64/libcupti.so", "/usr/local/cuda/lib/libcupti.so",
                             "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"})
      if (!opened) opened = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!opened) return nullptr;
    Library& all = *new Library;
    bool complete_library = true;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(opened, name));
      complete_library = complete_library && function;
    };
#define CT_FIND(name) find(all.name, #name)
    CT_FIND(cuptiGetVersion);
    CT_FIND(cuptiSubscribe);
    CT_FIND(cuptiUnsubscribe);
    CT_FIND(cuptiEnableDomain);
    CT_FIND(cuptiFinalize);
    CT_FIND(cuptiActivityRegisterCallbacks);
    CT_FIND(cuptiActivityEnable);
    CT_FIND(cuptiActivityDisable);
    CT_FIND(cuptiActivityFlushAll);
    CT_FIND(cuptiActivityGetNextRecord);
    CT_FIND(cuptiActivityPushExternalCorrelationId);
    CT_FIND(cuptiActivityPopExternalCorrelationId);
    CT_FIND(cuptiGetTimestamp);
#undef CT_FIND
    return complete_library ? &all : nullptr;
  }();
  return found;
}

// CUPTI's callback around each call of the CUDA runtime, on the thread of that call.
void around_call(void*, std::uint32_t, std::uint32_t, const void* data) {
  constexpr std::uint32_t kReturns = 1;  // CUPTI_API_EXIT
  std::atomic<Session::Detaching>& detaching = session().detaching;
  Session::Detaching expected = Session::wanted;
  if (field<std::uint32_t>(static_cast<const std::uint8_t*>(data), 0) != kReturns ||
      !detaching.compare_exchange_strong(expected, Session::begun))
    return;
  library()->cuptiFinalize();
  detaching = Session::none;
  detaching.notify_all();
}

// Detaches CUPTI from the process. Attached, it slows each later launch, and keeps 24 bytes of it once a CUDA graph was made.
// It may go only where a call of CUDA returns: other threads may be within one.
void detach() {
  Session& all = session();
  for (const Kind kind : kKinds) library()->cuptiActivityDisable(kind);
  std::uint32_t version = 0;
  library()->cuptiGetVersion(&version);
  if (version >= kDetaches && library()->cuptiEnableDomain(1, all.subscriber, kRuntimeCalls) == 0) {
    all.detaching = Session::wanted;
    try {
      wait_for_devices();
    } catch (const Error&) {}  // NOLINT: stop() has waited, and told what there was
    Session::Detaching expected = Session::wanted;
    if (!all.detaching.compare_exchange_strong(expected, Session::none))
      return all.detaching.wait(Session::begun);
  }
  library()->cuptiUnsubscribe(all.subscriber);
}

}  // namespace

std::unique_ptr<KernelRecords> KernelRecords::begin() {
  bool used = false;
  for (int i = 0; i < kMaxCudaDevices; ++i)
    used = used || detail::g_current_allocators[1 + i].load(std::memory_order_acquire);
  if (!used || !library()) return nullptr;
  Session& all = session();
  {
    const std::lock_guard lock(all.mutex);
    // Another tool may have CUPTI.
    if (all.taken || library()->cuptiSubscribe(&all.subscriber, around_call, nullptr) != 0) return nullptr;
    all.taken = true;
    all.work.clear(), all.calls.clear();
  }
  auto records = std::make_unique<KernelRecords>();
  bool enabled = library()->cuptiActivityRegisterCallbacks(request, complete) == 0;
  for (const Kind kind : kKinds) enabled = enabled && library()->cuptiActivityEnable(kind) == 0;
  if (!enabled) return nullptr;
  std::uint64_t now = 0;
  const std::int64_t host = host_ns();
  library()->cuptiGetTimestamp(&now);
  records->offset_ = static_cast<double>(host) - static_cast<double>(now);
  return records;
}

KernelRecords::~KernelRecords() {
  detach();
  Session& all = session();
  const std::lock_guard lock(all.mutex);
  all.taken = false;
}

void KernelRecords::enter(std::int32_t call) {
  library()->cuptiActivityPushExternalCorrelationId(kOwn, static_cast<std::uint64_t>(call));
}
void KernelRecords::leave() {
  std::uint64_t call = 0;
  library()->cuptiActivityPopExternalCorrelationId(kOwn, &call);
}

std::vector<KernelRecords::Work> KernelRecords::finish() {
  library()->cuptiActivityFlushAll(1);  // all, of every thread
  Session& all = session();
  const std::lock_guard lock(all.mutex);
  std::vector<Work> result;
  for (const Launched& w : all.work) {
    const auto call = all.calls.find(w.launch);
    result.push_back({call == all.calls.end() ? -1 : call->second, w.kernel, w.device,
                      static_cast<double>(w.start) + offset_, static_cast<double>(w.end - w.start)});
  }
  return result;
}

}  // namespace ct::profile_impl
