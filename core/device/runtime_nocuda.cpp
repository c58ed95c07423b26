#include <cotangent/core/device/runtime_internal.h>

namespace ct {

bool built_with_cuda() { return false; }

namespace detail::runtime {
void fail_without_cuda(const char* op) {
  fail<DeviceError>(op, "this library was built without CUDA; use the CPU, or build it with CUDA");
}

namespace {
[[noreturn]] void missing() { fail_without_cuda("cuda"); }
}  // namespace

int device_count() noexcept { return 0; }
const char* no_device_reason() noexcept { return "this library was built without CUDA"; }
std::pair<int, int> compute_capability(int) noexcept { return {0, 0}; }
DeviceProperties properties(int) { missing(); }
int get_device() { return 0; }
void set_device(int) { missing(); }
void device_synchronize() { missing(); }
void* stream_create(int) { missing(); }
void stream_synchronize(void*) { missing(); }
bool stream_query(void*) { missing(); }
void stream_wait(void*, void*) { missing(); }
void* event_create(bool) { missing(); }
void event_destroy(void*) noexcept {}
void event_record(void*, void*) { missing(); }
void event_synchronize(void*) { missing(); }
bool event_query(void*) { missing(); }
double event_elapsed_ms(void*, void*) { missing(); }
void capture_begin(void*, bool) { missing(); }
void* capture_end(void*) noexcept { return nullptr; }
bool is_capturing(void*) { missing(); }
std::size_t graph_size(void*) { missing(); }
void graph_destroy(void*) noexcept {}
void* graph_instantiate(void*) { missing(); }
void graph_launch(void*, void*) { missing(); }
void executable_destroy(void*) noexcept {}
void stream_destroy(void*) noexcept {}
void* device_malloc(std::size_t) { missing(); }
void device_free(void*) noexcept {}
bool memory_info(std::size_t*, std::size_t*) noexcept { return false; }
void* host_malloc(std::size_t) { missing(); }
void host_free(void*) noexcept {}
bool is_pinned(const void*) noexcept { return false; }
void copy(void*, const void*, std::size_t, void*) { missing(); }
void fill(void*, int, std::size_t, void*) { missing(); }
void range_push(const char*) {}
void range_pop() {}

}  // namespace detail::runtime
}  // namespace ct
