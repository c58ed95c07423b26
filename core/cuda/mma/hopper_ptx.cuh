#pragma once

#include <cuda.h>

#include <type_traits>

#include <cotangent/core/cuda/mma/ptx.cuh>

// Instructions that only Hopper (sm_90a) has: warpgroup products (wgmma), the bulk tensor copy engine (TMA)
// with its barriers, and registers moved between warps (PTX ISA, "Asynchronous warpgroup level matrix
// instructions", "Data movement and conversion", "mbarrier").

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "the Hopper instructions are compiled for sm_90a alone"
#endif

namespace ct::mma {

// ---- barriers in shared memory: copies and warps arrive, warps wait for a phase to complete ----

__device__ __forceinline__ void barrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialised barriers visible to the copy engine. A __syncthreads must follow.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives and makes the phase wait for `bytes` bytes of copies.
__device__ __forceinline__ void barrier_expect(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void barrier_wait(std::uint32_t barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Barriers of the block by number; 0 is that of __syncthreads. `threads` counts those that wait and those
/// that only arrive.
__device__ __forceinline__ void named_barrier_sync(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// ---- copies ----

/// The same as copy_async_16(), for 8 bytes.
__device__ __forceinline__ void copy_async_8(std::uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(valid ? 8 : 0)
               : "memory");
}

/// A box of a 4-dimensional tensor, at element (c0, c1, c2, c3), into shared memory; counted by `barrier`.
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap* map, std::uint32_t barrier,
                                         int c0, int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
      "%6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
/// A run of bytes (addresses and size multiples of 16) into shared memory; counted by `barrier`.
__device__ __forceinline__ void copy_run(std::uint32_t to, const void* from, std::uint32_t bytes,
                                         std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
/// A run of bytes from shared to global memory, in a group to be committed.
__device__ __forceinline__ void store_run(void* to, std::uint32_t from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}
/// The same for floats that are added to those in global memory.
__device__ __forceinline__ void add_run(void* to, std::uint32_t from, std::uint32_t bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
               "r"(from), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until the shared memory of all committed groups has been read.
__device__ __forceinline__ void stores_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
/// Waits until all committed groups have been written.
__device__ __forceinline__ void stores_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/// Orders this thread's ordinary accesses to shared memory before later ones by the copy engine and wgmma.
__device__ __forceinline__ void async_proxy_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- registers ----

/// Every warp of a warpgroup gives up or takes registers, up to Count per thread.
template <int Count>
__device__ __forceinline__ void registers_shrink() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count>
__device__ __forceinline__ void registers_grow() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

/// The inverse of load_matrices: lane 8 i + r gives the address of row r of matrix i.
__device__ __forceinline__ void store_matrices(std::uint32_t address, const std::uint32_t (&in)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(in[0]),
               "r"(in[1]), "r"(in[2]), "r"(in[3])
               : "memory");
}

// ---- warpgroup products ----
//
// Operands in shared memory are given by 64-bit descriptors. All tiles here consist of panels: rows of 64
// elements (128 bytes) whose 16-byte chunks are permuted by XOR with the row's number modulo 8, which is what
// the copy engine writes in its 128-byte swizzle mode. Panels start at multiples of 1024 bytes.

/// Offset of a 16-byte chunk in a panel.
__device__ __forceinline__ std::uint32_t panel_offset(int row, int chunk) {
  return static_cast<std::uint32_t>(row * 128 + ((chunk ^ (row & 7)) << 4));
}

/// An operand at `address`. If the contraction runs along the panel's rows' elements (K-major), a step of 16
/// is 32 bytes and `panel_stride` is not used. If it runs over the panel's rows (MN-major), a step of 16 is
/// 2048 bytes and the next 64 columns are `panel_stride` bytes away.
__device__ __forceinline__ std::uint64_t operand(std::uint32_t address, std::uint32_t panel_stride = 16) {
  constexpr std::uint64_t rows_of_8 = 1024 >> 4, swizzle_128 = 1;
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) |
         static_cast<std::uint64_t>(panel_stride >> 4) << 16 | rows_of_8 << 32 | swizzle_128 << 62;
}

/// Registers written since the last product, and shared memory behind async_proxy_fence, are seen by the
/// next.
__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most N committed groups are unfinished.
template <int N>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/// Keeps the compiler from moving accesses of accumulators across this point.
template <int N>
__device__ __forceinline__ void pin(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

#define CT_OUT4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define CT_OUT8(i) CT_OUT4(i), CT_OUT4(i + 4)
#define CT_OUT32(i) CT_OUT8(i), CT_OUT8(i + 8), CT_OUT8(i + 16), CT_OUT8(i + 24)
#define CT_OUT64(i) CT_OUT32(i), CT_OUT32(i + 32)
// The names of ten accumulators in the text, and of the first 30, 60, 90, 120.
#define CT_TEN(t) \
  "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define CT_TENS3 CT_TEN() CT_TEN(1) CT_TEN(2)
#define CT_TENS6 CT_TENS3 CT_TEN(3) CT_TEN(4) CT_TEN(5)
#define CT_TENS9 CT_TENS6 CT_TEN(6) CT_TEN(7) CT_TEN(8)
#define CT_TENS12 CT_TENS9 CT_TEN(9) CT_TEN(10) CT_TEN(11)
#define CT_NAMES32 CT_TENS3 "%30, %31"
#define CT_NAMES64 CT_TENS6 "%60, %61, %62, %63"
#define CT_NAMES96 CT_TENS9 "%90, %91, %92, %93, %94, %95"
#define CT_NAMES128 CT_TENS12 "%120, %121, %122, %123, %124, %125, %126, %127"
// One instruction for both types: `a` is the text of its first operand, the other numbers are those of the operands.
#define CT_PRODUCT_OF(type, width, names, a, b, add, flags, ...)                                      \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #add                                              \
               ", 0;\n"                                                                               \
               "wgmma.mma_async.sync.aligned.m64n" #width "k16.f32." type "." type " {" names "}, " a \
               ", %" #b ", p, 1, 1, " flags ";\n}"                                                    \
               : __VA_ARGS__)
#define CT_PRODUCT(width, ...)                                                                        \
  if constexpr (N == width && std::is_same_v<T, BFloat16>) CT_PRODUCT_OF("bf16", width, __VA_ARGS__); \
  if constexpr (N == width && std::is_same_v<T, Half>) CT_PRODUCT_OF("f16", width, __VA_ARGS__)

/// d[64 x N] = a b + (add ? d : 0), asynchronously, in a group to be committed; a and b are 64x16 and 16xN.
/// Trans: the operand's panels are MN-major. Accumulators, the first N / 2 of d, and a's registers are laid out as for
/// multiply_add, each warp holding 16 of the 64 rows.
template <class T, int TransA, int TransB, int N, int Size>
__device__ __forceinline__ void product(float (&d)[Size], std::uint64_t a, std::uint64_t b, int add) {
  static_assert((N == 64 || N == 128 || N == 192 || N == 256) && N / 2 <= Size);
#define CT_IN "l"(a), "l"(b), "r"(add), "n"(TransA), "n"(TransB)
  CT_PRODUCT(64, CT_NAMES32, "%32", 33, 34, "%35, %36", CT_OUT32(0) : CT_IN);
  CT_PRODUCT(128, CT_NAMES64, "%64", 65, 66, "%67, %68", CT_OUT64(0) : CT_IN);
  CT_PRODUCT(192, CT_NAMES96, "%96", 97, 98, "%99, %100", CT_OUT64(0), CT_OUT32(64) : CT_IN);
  CT_PRODUCT(256, CT_NAMES128, "%128", 129, 130, "%131, %132", CT_OUT64(0), CT_OUT64(64) : CT_IN);
#undef CT_IN
}
/// The same with a in registers.
template <class T, int TransB, int N>
__device__ __forceinline__ void product_registers(float (&d)[N / 2], const std::uint32_t (&a)[4],
                                                  std::uint64_t b, int add) {
  static_assert(N == 64 || N == 128);
#define CT_IN "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(TransB)
  CT_PRODUCT(64, CT_NAMES32, "{%32, %33, %34, %35}", 36, 37, "%38", CT_OUT32(0) : CT_IN);
  CT_PRODUCT(128, CT_NAMES64, "{%64, %65, %66, %67}", 68, 69, "%70", CT_OUT64(0) : CT_IN);
#undef CT_IN
}

#undef CT_OUT4
#undef CT_OUT8
#undef CT_OUT32
#undef CT_OUT64
#undef CT_TEN
#undef CT_TENS3
#undef CT_TENS6
#undef CT_TENS9
#undef CT_TENS12
#undef CT_NAMES32
#undef CT_NAMES64
#undef CT_NAMES96
#undef CT_NAMES128
#undef CT_PRODUCT_OF
#undef CT_PRODUCT

}  // namespace ct::mma
