#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cotangent/core/simd/wide.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Stores past the caches, for results that are larger than what these hold. A plain store first reads the line that it
// writes to; such a one does not, which takes a third off the memory's work of an op with one input. What is smaller is
// better left to plain stores: whoever reads it next finds it in a cache.

namespace ct::simd {

/// Whether a result of so many bytes is to be stored past the caches, beside one or two inputs as large. With one, from here
/// on the two were measured to win, also where what comes next reads the result, and below to lose that (AMD EPYC, 32 MiB);
/// with two from half of it on, though there a reader may lose as much. What the system says of a machine's last cache is no
/// guide: it counts what others share, or all of a socket's.
constexpr bool exceeds_caches(std::size_t bytes, std::size_t inputs = 1) {
  return bytes * inputs >= std::size_t{32} << 20;
}

/// x.store(to) past the caches, where the machine can. `to` is a multiple of the vector's size.
template <class T, int kBytes>
CT_INLINE void stream(Vector<T, kBytes> x, T* to) {
  if constexpr (kBytes > kVectorBytes) {
    stream(x.low, to);
    stream(x.high, to + x.low.kSize);
  } else {
#if defined(__AVX512F__)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)x.v);
#elif defined(__AVX2__)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)x.v);
#elif defined(__x86_64__)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)x.v);
#else
    x.store(to);
#endif
  }
}
/// Whether stream() may store there.
CT_INLINE bool streams_to(const void* to) { return reinterpret_cast<std::uintptr_t>(to) % kVectorBytes == 0; }
/// Whether a result of `rows` rows of n elements of f32, of which each begins a vector, is to be stored past the caches.
template <class T>
CT_INLINE bool streams_rows(const T* to, std::int64_t rows, std::int64_t n, std::size_t inputs) {
  const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(T);
  return std::is_same_v<T, float> && streams_to(to) && bytes % kVectorBytes == 0 &&
         exceeds_caches(static_cast<std::size_t>(rows) * bytes, inputs);
}
/// V::store_two(), past the caches where `streams`, which is for f32.
template <class V, class T>
CT_INLINE void store_two(V a, V b, T* to, bool streams) {
  if constexpr (std::is_same_v<T, float>)
    if (streams) return stream(a, to), stream(b, to + V::kSize);
  V::store_two(a, b, to);
}
/// Orders this thread's earlier stores past the caches before its later ones.
CT_INLINE void fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

/// memcpy past the caches.
CT_INLINE void stream(void* to, const void* from, std::size_t bytes) {
  using V = Vector<float>;
  char* out = static_cast<char*>(to);
  const char* in = static_cast<const char*>(from);
  for (; streams_to(out) && bytes >= sizeof(V); out += sizeof(V), in += sizeof(V), bytes -= sizeof(V))
    stream(V::load(reinterpret_cast<const float*>(in)), reinterpret_cast<float*>(out));
  std::memcpy(out, in, bytes);
}

}  // namespace ct::simd
