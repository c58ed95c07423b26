#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/function_ref.h>
#include <cotangent/core/device/in_call.h>

// One pool of threads for the whole process.
//
// The work [0, n) is cut into chunks [k * grain, min(n, (k + 1) * grain)). The cut depends on n and grain
// alone, never on the number of threads, so whatever is computed per chunk has the same bits for any number
// of threads. Which thread runs a chunk, and in which order, is not defined.
//
//  * The calling thread takes part. A call with at most one chunk is a plain function call.
//  * A call from inside a chunk runs inline, in the thread that makes it: there are no nested pools.
//  * Several user threads may call at once. One of them gets the pool's help, the others run inline; no call
//    ever waits for another.
//  * If chunks throw, the exception of the lowest throwing chunk is rethrown in the caller, after every chunk
//    that was begun has ended; chunks not begun by then are dropped.
//  * set_executor() puts threads of the program's own in the pool's place, and a NoThreads guard keeps a thread's work in
//    the thread (core/device/executor.h).
//  * After fork() the child starts with a pool of its own. fork() from inside a chunk is not supported.
//  * Waking a sleeping thread takes microseconds: choose the grain such that a chunk is worth 10 us or more.
//    Between jobs the pool's threads spin for some tens of microseconds at most, less where jobs are further apart.

namespace ct {

/// The number of chunks that [0, n) is cut into: ceil(n / grain), 0 for n <= 0. A grain below 1 counts as 1.
constexpr std::int64_t chunk_count(std::int64_t n, std::int64_t grain) {
  if (n <= 0) return 0;
  if (grain < 1) grain = 1;
  return (n - 1) / grain + 1;
}

namespace detail {
CT_API void parallel_for_pool(std::int64_t n, std::int64_t grain,
                              FunctionRef<void(std::int64_t, std::int64_t)> body);
}

/// Calls body(begin, end) once for every chunk of [0, n). body must be safe to call from several threads.
inline void parallel_for(std::int64_t n, std::int64_t grain,
                         FunctionRef<void(std::int64_t begin, std::int64_t end)> body) {
  if (n <= 0) return;
  detail::require_call("parallel_for");
  asm("" : "+m"(body));  // hides whose body it is, which inlined here would be in the library twice
  if (n <= grain || n == 1) return body(0, n);
  detail::parallel_for_pool(n, grain, body);
}

/// Calls body(chunk, begin, end) once for every chunk of [0, n), chunk in [0, chunk_count(n, grain)). A
/// reduction writes one partial result per chunk and adds them up in the order of the chunks afterwards: then
/// it too has the same bits for any number of threads.
template <class Body>
void parallel_chunks(std::int64_t n, std::int64_t grain, Body&& body) {
  const std::int64_t step = grain < 1 ? 1 : grain;
  parallel_for(n, step, [&](std::int64_t begin, std::int64_t end) { body(begin / step, begin, end); });
}

/// The number of threads that take part in parallel work, the caller included. At first this is the
/// environment variable COTANGENT_NUM_THREADS, else the number of CPUs this process may run on.
/// Throws ValueError when the variable is set to something that is not a number from 1 to 1024.
CT_API int num_threads();

/// Sets that number, from 1 (no pool) to 1024. It waits for parallel work of other threads to end. Throws
/// ValueError outside that range and Error from inside a chunk.
CT_API void set_num_threads(int count);

}  // namespace ct
