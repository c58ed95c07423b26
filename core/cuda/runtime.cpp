#include <cotangent/core/device/runtime_internal.h>

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <condition_variable>
#include <mutex>

#include <cotangent/core/base/version.h>
#include <cotangent/core/cuda/check.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/device/gpu_code_internal.h>

namespace ct {

bool built_with_cuda() { return true; }

namespace gpu {
namespace {

std::string hint(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
      return "the driver is older than the CUDA version of this build: update the driver";
    case cudaErrorNoDevice: return "the machine has no usable GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES";
    case cudaErrorNoKernelImageForDevice: {
      const auto [major, minor] = ct::detail::runtime::compute_capability(current_cuda_device());
      return ct::detail::missing_code(build_info().cuda_architectures, major, minor);
    }
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilationDisabled:
      return ct::detail::cat(
          "the library was built for ", build_info().cuda_architectures,
          ", and the driver can't compile that for this GPU: update the driver, or name the "
          "GPU in COTANGENT_CUDA_ARCHITECTURES (90a-real)");
    case cudaErrorInvalidConfiguration:
    case cudaErrorLaunchOutOfResources:
      return "the grid, block or shared memory exceeds what this GPU offers";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorIllegalInstruction:
    case cudaErrorAssert:
      return "a kernel launched before this call went wrong and the context is lost: run under "
             "compute-sanitizer, or with CUDA_LAUNCH_BLOCKING=1, to find it, and restart the process";
    case cudaErrorMemoryAllocation: return "the GPU has no such block left: reduce the batch size";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureIsolation:
      return "this call can't be part of a captured graph: move it out of the captured step";
    default: return "see the CUDA runtime's documentation of this error";
  }
}

}  // namespace

void throw_cuda_error(const char* op, const char* call, cudaError_t status) {
  cudaGetLastError();
  ct::detail::fail<CudaError>(op, call, " failed: ", cudaGetErrorName(status), " (",
                              cudaGetErrorString(status), "); ", hint(status));
}

}  // namespace gpu

namespace detail::runtime {
namespace {

cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t as_event(void* event) { return static_cast<cudaEvent_t>(event); }

// While a stream of the process is being captured, the runtime forbids calls that it can't prove
// harmless. Getting memory and asking for events are: the result is not part of the graph.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// The runtime refuses to wait for a device while a stream of it is captured, by whatever thread. So captures and waits of several
// threads take turns, any number of one kind at once. Devices are apart: one rank's device may wait for what another rank is
// about to capture.
class Turn {
 public:
  enum Kind { capture, wait };

  static void begin(Kind kind) {
    if (captures_here_ > 0) return;  // what the runtime then says is this thread's own matter
    State& s = state();
    std::unique_lock lock(s.mutex);
    s.ended.wait(lock, [&] { return s.running[1 - kind] == 0; });
    ++s.running[kind];
  }
  static void end(Kind kind) {
    if (captures_here_ > 0) return;
    State& s = state();
    const std::lock_guard lock(s.mutex);
    if (--s.running[kind] == 0) s.ended.notify_all();
  }

  explicit Turn(Kind kind) : kind_(kind) { begin(kind); }
  ~Turn() { end(kind_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  static void begin_capture() { begin(capture), ++captures_here_; }
  static void end_capture() { --captures_here_, end(capture); }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable ended;
    int running[2] = {};
  };
  static State& state() {                                  // the current device's
    static State* const all = new State[kMaxCudaDevices];  // threads may wait after statics are gone
    return all[current_cuda_device()];
  }
  static inline thread_local int captures_here_ = 0;
  const Kind kind_;
};

cudaError_t count_devices(int* count) {
  *count = 0;
  const cudaError_t status = cudaGetDeviceCount(count);
  if (status != cudaSuccess) {
    *count = 0;
    cudaGetLastError();
  }
  return status;
}

}  // namespace

int device_count() noexcept {
  int count = 0;
  count_devices(&count);
  return count < kMaxCudaDevices ? count : kMaxCudaDevices;
}

const char* no_device_reason() noexcept {
  int count = 0;
  switch (count_devices(&count)) {
    case cudaSuccess:
    case cudaErrorNoDevice: return "this machine has no usable GPU";
    case cudaErrorInsufficientDriver: return "no CUDA driver is installed, or it is too old for this build";
    default: return "the CUDA driver did not start";
  }
}

std::pair<int, int> compute_capability(int device) noexcept {
  int major = 0, minor = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) {
    cudaGetLastError();
    return {0, 0};
  }
  return {major, minor};
}

DeviceProperties properties(int device) {
  cudaDeviceProp p;
  CT_CUDA(cudaGetDeviceProperties(&p, device));
  DeviceProperties out;
  out.name = p.name;
  out.compute_major = p.major;
  out.compute_minor = p.minor;
  out.multiprocessors = p.multiProcessorCount;
  out.total_memory = p.totalGlobalMem;
  out.l2_bytes = static_cast<std::size_t>(p.l2CacheSize);
  out.shared_bytes_per_block = p.sharedMemPerBlockOptin;
  out.shared_bytes_per_sm = p.sharedMemPerMultiprocessor;
  out.max_threads_per_multiprocessor = p.maxThreadsPerMultiProcessor;
  return out;
}

int get_device() {
  int device = 0;
  CT_CUDA(cudaGetDevice(&device));
  return device;
}
void set_device(int device) { CT_CUDA(cudaSetDevice(device)); }
void device_synchronize() {
  const Turn turn(Turn::wait);
  CT_CUDA_OP("synchronize", cudaDeviceSynchronize());
}

void* stream_create(int priority) {
  cudaStream_t stream = nullptr;
  CT_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  return stream;
}
void stream_synchronize(void* stream) { CT_CUDA_OP("synchronize", cudaStreamSynchronize(as_stream(stream))); }
bool stream_query(void* stream) {
  const cudaError_t status = cudaStreamQuery(as_stream(stream));
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  CT_CUDA(status);
  return true;
}
void stream_wait(void* stream, void* event) {
  CT_CUDA(cudaStreamWaitEvent(as_stream(stream), as_event(event), 0));
}

void* event_create(bool timing) {
  cudaEvent_t event = nullptr;
  CT_CUDA(cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming));
  return event;
}
void event_destroy(void* event) noexcept { cudaEventDestroy(as_event(event)); }
void event_record(void* event, void* stream) { CT_CUDA(cudaEventRecord(as_event(event), as_stream(stream))); }
void event_synchronize(void* event) { CT_CUDA_OP("synchronize", cudaEventSynchronize(as_event(event))); }
bool event_query(void* event) {
  RelaxedCapture relaxed;
  const cudaError_t status = cudaEventQuery(as_event(event));
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  CT_CUDA(status);
  return true;
}
double event_elapsed_ms(void* from, void* to) {
  float ms = 0;
  CT_CUDA(cudaEventElapsedTime(&ms, as_event(from), as_event(to)));
  return static_cast<double>(ms);
}

// Thread-local: another thread's calls that a capture forbids are its own affair.
void capture_begin(void* stream, bool early) {
  Turn::begin_capture();
  const cudaError_t status = cudaStreamBeginCapture(as_stream(stream), cudaStreamCaptureModeThreadLocal);
  if (status != cudaSuccess) Turn::end_capture();
  CT_CUDA_OP("capture", status);
  gpu::detail::launches_early() = early;
}
void* capture_end(void* stream) noexcept {
  gpu::detail::launches_early() = false;
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(as_stream(stream), &graph);
  Turn::end_capture();
  if (status == cudaSuccess) return graph;
  cudaGetLastError();
  if (graph) cudaGraphDestroy(graph);
  return nullptr;
}
bool is_capturing(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CT_CUDA_OP("capture", cudaStreamIsCapturing(as_stream(stream), &status));
  return status != cudaStreamCaptureStatusNone;
}
std::size_t graph_size(void* graph) {
  std::size_t nodes = 0;
  CT_CUDA_OP("capture", cudaGraphGetNodes(static_cast<cudaGraph_t>(graph), nullptr, &nodes));
  return nodes;
}
void graph_destroy(void* graph) noexcept { cudaGraphDestroy(static_cast<cudaGraph_t>(graph)); }
void* graph_instantiate(void* graph) {
  cudaGraphExec_t executable = nullptr;
  CT_CUDA_OP("capture", cudaGraphInstantiate(&executable, static_cast<cudaGraph_t>(graph), 0));
  return executable;
}
void graph_launch(void* executable, void* stream) {
  CT_CUDA_OP("capture", cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable), as_stream(stream)));
}
void executable_destroy(void* executable) noexcept {
  cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable));
}
void stream_destroy(void* stream) noexcept { cudaStreamDestroy(as_stream(stream)); }

void* device_malloc(std::size_t bytes) {
  RelaxedCapture relaxed;
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  CT_CUDA_OP("allocator", status);
  return memory;
}
// Failing to free is no error worth stopping for: the driver may already be shutting down at exit.
void device_free(void* memory) noexcept {
  RelaxedCapture relaxed;
  if (cudaFree(memory) != cudaSuccess) cudaGetLastError();
}
bool memory_info(std::size_t* free, std::size_t* total) noexcept {
  if (cudaMemGetInfo(free, total) == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

void* host_malloc(std::size_t bytes) {
  RelaxedCapture relaxed;
  void* memory = nullptr;
  const cudaError_t status = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  CT_CUDA_OP("allocator", status);
  return memory;
}
void host_free(void* memory) noexcept {
  RelaxedCapture relaxed;
  if (cudaFreeHost(memory) != cudaSuccess) cudaGetLastError();
}
bool is_pinned(const void* memory) noexcept {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeHost;
}

void copy(void* dst, const void* src, std::size_t bytes, void* stream) {
  CT_CUDA_OP("copy", cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, as_stream(stream)));
}
void fill(void* dst, int value, std::size_t bytes, void* stream) {
  CT_CUDA_OP("fill", cudaMemsetAsync(dst, value, bytes, as_stream(stream)));
}

void range_push(const char* name) { nvtxRangePushA(name); }
void range_pop() { nvtxRangePop(); }

}  // namespace detail::runtime
}  // namespace ct
