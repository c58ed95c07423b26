#include <cotangent/core/per_thread.h>

#include <cxxabi.h>

extern "C" [[gnu::visibility("hidden")]] void* __dso_handle;

namespace ct::detail {

// What the compiler calls for a thread_local object, which it does once for each. The list that it is put on is worked
// through until it is empty.
void at_thread_end(void (*end)(void*), void* object) { abi::__cxa_thread_atexit(end, object, &__dso_handle); }

}  // namespace ct::detail
