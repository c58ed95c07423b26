#pragma once

#include <cstddef>
#include <utility>

#include <cotangent/core/device/device.h>

// The few calls of the CUDA runtime that the core needs, as plain functions, so that everything else in
// core/ is ordinary C++ that is compiled and tested with and without CUDA. core/cuda/runtime.cpp implements
// them; in a build without CUDA runtime_nocuda.cpp reports no device, and the other functions, which
// nobody can reach then, throw DeviceError. Internal: not part of the public interface.
//
// Streams and events are handles as in CUDA; a null stream is the default stream of the current device.
// Functions that are not noexcept throw CudaError.

namespace ct::detail::runtime {

int device_count() noexcept;
/// Why device_count() is 0, as the middle of a sentence.
const char* no_device_reason() noexcept;
/// Major and minor number; {0, 0} when the driver does not tell. Does not start the GPU.
std::pair<int, int> compute_capability(int device) noexcept;
DeviceProperties properties(int device);
int get_device();
void set_device(int device);
void device_synchronize();

void* stream_create(int priority);
void stream_synchronize(void* stream);
bool stream_query(void* stream);
void stream_wait(void* stream, void* event);

void* event_create(bool timing);
void event_destroy(void* event) noexcept;
void event_record(void* event, void* stream);
void event_synchronize(void* event);
bool event_query(void* event);
double event_elapsed_ms(void* from, void* to);

/// Records what the calling thread queues on `stream`, which is not the default one, as a graph instead of running it, until
/// capture_end(), whose result is null where a call in between made it invalid. `early`: kernels of gpu::launch_waiting() may
/// start before those ahead of them have ended.
void capture_begin(void* stream, bool early);
void* capture_end(void* stream) noexcept;
bool is_capturing(void* stream);
/// Kernels, copies and fills of a graph.
std::size_t graph_size(void* graph);
void graph_destroy(void* graph) noexcept;
void* graph_instantiate(void* graph);
void graph_launch(void* executable, void* stream);
void executable_destroy(void* executable) noexcept;
void stream_destroy(void* stream) noexcept;

/// Null when the current device has no such block left.
void* device_malloc(std::size_t bytes);
void device_free(void* memory) noexcept;
/// Free and total bytes of the current device; false when they can't be told.
bool memory_info(std::size_t* free, std::size_t* total) noexcept;

/// Page-locked memory that every device can address; null when there is no more.
void* host_malloc(std::size_t bytes);
void host_free(void* memory) noexcept;
bool is_pinned(const void* memory) noexcept;

/// Queues a copy between any two places; the runtime finds out which.
void copy(void* dst, const void* src, std::size_t bytes, void* stream);
void fill(void* dst, int value, std::size_t bytes, void* stream);

/// Throws DeviceError in the name of `op`. In a library without CUDA: what stands in the place of its kernels calls it.
[[noreturn]] void fail_without_cuda(const char* op);

/// NVTX: a named range of the calling thread, and its end. Nothing without CUDA.
void range_push(const char* name);
void range_pop();

}  // namespace ct::detail::runtime
