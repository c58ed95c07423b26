#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cotangent/core/base/dtype.h>

// Element conversions and vector accesses of kernels. For .cu files only.
//
// ct::Half and ct::BFloat16 hold bits; on the device the conversions below use the hardware's
// instructions, which round to nearest even like the host's. Only the bits of a NaN may differ. (They are written out:
// cuda_fp16.h and cuda_bf16.h take longer to read than most kernels to compile.)

namespace ct::gpu {

// ---- one element ----

__device__ __forceinline__ float to_compute(Half x) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
}
__device__ __forceinline__ float to_compute(BFloat16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}
template <class T>
requires std::is_arithmetic_v<T> __device__ __forceinline__ T to_compute(T x) { return x; }

/// An element of type T from the type that arithmetic was done in.
template <class T, class C>
__device__ __forceinline__ T from_compute(C x) {
  if constexpr (std::is_same_v<T, Half>) {
    Half h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(static_cast<float>(x)));
    return h;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    BFloat16 b;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b.bits) : "f"(static_cast<float>(x)));
    return b;
  } else {
    return static_cast<T>(x);
  }
}

// ---- shapes of kernels ----

/// Whether kernels on T come in shapes for speed (vectors, rows in registers, tiles of many sizes) beside the general
/// one. In f64 they do not: each shape is a kernel to compile and to carry, and f64 is what results are checked in.
template <class T>
inline constexpr bool kFastShapes = !std::is_same_v<T, double>;

// ---- N elements at once ----

namespace detail {
template <std::size_t Bytes>
struct Word;
template <>
struct Word<16> {
  using type = uint4;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<4> {
  using type = unsigned int;
};
template <>
struct Word<2> {
  using type = unsigned short;
};
template <>
struct Word<1> {
  using type = unsigned char;
};
}  // namespace detail

/// N elements that are loaded and stored by one instruction of up to 16 bytes; addresses must be aligned
/// to sizeof(Vector). "streaming" says that the line will not be read again soon.
template <class T, int N = 16 / static_cast<int>(sizeof(T))>
struct Vector {
  static constexpr int size = N;
  using Word = typename detail::Word<sizeof(T) * N>::type;
  using Compute = compute_t<T>;

  Word word;

  __device__ __forceinline__ T operator[](int i) const { return reinterpret_cast<const T*>(&word)[i]; }
  __device__ __forceinline__ void set(int i, T value) { reinterpret_cast<T*>(&word)[i] = value; }

  static __device__ __forceinline__ Vector load(const T* from) {
    return {*reinterpret_cast<const Word*>(from)};
  }
  /// Through the read-only path: no thread writes the memory while the kernel runs.
  static __device__ __forceinline__ Vector load_readonly(const T* from) {
    return {__ldg(reinterpret_cast<const Word*>(from))};
  }
  static __device__ __forceinline__ Vector load_streaming(const T* from) {
    return {__ldcs(reinterpret_cast<const Word*>(from))};
  }
  /// To global memory. (The compiler may take an assignment apart and store 4 bytes at a time.)
  __device__ __forceinline__ void store(T* to) const { __stwb(reinterpret_cast<Word*>(to), word); }
  __device__ __forceinline__ void store_streaming(T* to) const { __stcs(reinterpret_cast<Word*>(to), word); }
  static __device__ __forceinline__ Vector filled(T value) {
    Vector p;
#pragma unroll
    for (int i = 0; i < N; ++i) p.set(i, value);
    return p;
  }

  /// All elements in the type that arithmetic is done in.
  __device__ __forceinline__ void to_compute(Compute (&out)[N]) const {
    if constexpr (kPairs && std::is_same_v<T, BFloat16>) {
      // A shift and a mask; by way of 16-bit registers it would be half as much again.
      const unsigned* pairs = reinterpret_cast<const unsigned*>(&word);
#pragma unroll
      for (int i = 0; i < N; i += 2) {
        out[i] = __uint_as_float(pairs[i / 2] << 16);
        out[i + 1] = __uint_as_float(pairs[i / 2] & 0xffff0000u);
      }
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) out[i] = gpu::to_compute((*this)[i]);
    }
  }
  /// As to_compute(), and the vector stays packed until its next use: the compiler, which would rather have
  /// taken it apart once and kept a register per element, is told that it may have changed.
  __device__ __forceinline__ void unpack(Compute (&out)[N]) {
    if constexpr (sizeof(word) == 16)
      asm volatile("" : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w));
    if constexpr (sizeof(word) == 8 && N > 1) asm volatile("" : "+r"(word.x), "+r"(word.y));
    to_compute(out);
  }
  /// Rounds all elements to T; the 16-bit types two per instruction.
  template <class C>
  static __device__ __forceinline__ Vector from_compute(const C (&in)[N]) {
    Vector p;
    if constexpr (kPairs) {
      unsigned* pairs = reinterpret_cast<unsigned*>(&p.word);
#pragma unroll
      for (int i = 0; i < N; i += 2) {
        const float a = static_cast<float>(in[i]), b = static_cast<float>(in[i + 1]);
        if constexpr (std::is_same_v<T, BFloat16>) {
          asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(pairs[i / 2]) : "f"(a), "f"(b));
        } else {
          asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(pairs[i / 2]) : "f"(a), "f"(b));
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) p.set(i, gpu::from_compute<T>(in[i]));
    }
    return p;
  }

 private:
  static constexpr bool kPairs = (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)&&N % 2 == 0;
};

// ---- both 16-bit types ----

// Kernels that wait for memory serve f16 and bf16 alike: their elements have the C++ type BFloat16, and `f16`, which is
// known at run time, says that these are bits of f16.

#ifndef CT_KERNEL_TEXT  // which has no code of the host
/// Calls f(TypeTag<T>{}) for a floating dtype, with BFloat16 for both of 16 bits.
template <class F>
void visit_widths(DType t, F&& f) {
  if (size_of(t) == 2) return f(TypeTag<BFloat16>{});
  t == DType::f64 ? f(TypeTag<double>{}) : f(TypeTag<float>{});
}
#endif
template <class T, int N>
__device__ __forceinline__ void unpack(const Vector<T, N>& x, bool f16, compute_t<T> (&out)[N]) {
  if constexpr (std::is_same_v<T, BFloat16>)
    if (f16) return Vector<Half, N>{x.word}.to_compute(out);
  x.to_compute(out);
}
template <class T, int N>
__device__ __forceinline__ Vector<T, N> pack(const compute_t<T> (&in)[N], bool f16) {
  if constexpr (std::is_same_v<T, BFloat16>)
    if (f16) return {Vector<Half, N>::from_compute(in).word};
  return Vector<T, N>::from_compute(in);
}

}  // namespace ct::gpu
