#include <cotangent/core/base/per_thread.h>

#include <cxxabi.h>

extern "C" [[gnu::visibility("hidden")]] void* __dso_handle;

namespace ct::detail {

// Function that the compiler calls once for each thread_local object. The list that it is put on is worked
// through until it is empty.
void at_thread_end(void (*end)(void*), void* object) { abi::__cxa_thread_atexit(end, object, &__dso_handle); }

}  // namespace ct::detail
