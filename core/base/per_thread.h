#pragma once

#include <utility>

#include <cotangent/core/base/export.h>

namespace ct {

namespace detail {
/// Calls end(object) when the calling thread ends, in the reverse order of such calls. In destructors of static objects
/// and functions of atexit() it is too late for that: then never.
CT_API void at_thread_end(void (*end)(void*), void* object);
}  // namespace detail

/// The calling thread's T of that Tag, made at its first use. It ends with the thread, like a thread_local object; but
/// destructors of static and thread_local objects that still work find another in its place, which a thread_local would
/// not give them. Nothing else that lives in a library's code may have a destructor (check.statics).
template <class T, class Tag = T>
T& per_thread() {
  static constinit thread_local T* object = nullptr;
  if (!object) [[unlikely]] {
    object = new T;
    detail::at_thread_end([](void* slot) { delete std::exchange(*static_cast<T**>(slot), nullptr); },
                          &object);
  }
  return *object;
}

}  // namespace ct
