#include <cstring>

#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/store_element.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/engine/walk/plan.h>
#include <cotangent/ops/engine/walk/strided.cuh>
#include <cotangent/ops/engine/walk/transpose.cuh>

namespace ct {
namespace {

constexpr int kThreads = 256;

// ---- converting a run without gaps, from one to another of f32, f16 and bf16 ------------------------------

// Several vectors per thread, all loaded before the first is stored.
constexpr int kConvertUnroll = 4;

template <class To, class From>
__global__ void __launch_bounds__(kThreads)
    convert_flat(To* __restrict__ dst, const From* __restrict__ src, std::int64_t n) {
  gpu::wait_for_previous();
  constexpr int V = 16 / static_cast<int>(sizeof(To) > sizeof(From) ? sizeof(To) : sizeof(From));
  using In = gpu::Vector<From, V>;
  using Out = gpu::Vector<To, V>;
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads * kConvertUnroll + threadIdx.x;
  In in[kConvertUnroll];
#pragma unroll
  for (int u = 0; u < kConvertUnroll; ++u) {
    const std::int64_t at = (first + u * kThreads) * V;
    if (at + V <= n) in[u] = In::load_streaming(src + at);
  }
#pragma unroll
  for (int u = 0; u < kConvertUnroll; ++u) {
    const std::int64_t at = (first + u * kThreads) * V;
    if (at + V <= n) {
      Out out;
#pragma unroll
      for (int i = 0; i < V; ++i) out.set(i, gpu::from_compute<To>(gpu::to_compute(in[u][i])));
      out.store(dst + at);
    } else {
      for (std::int64_t i = at; i < n; ++i) dst[i] = gpu::from_compute<To>(gpu::to_compute(src[i]));
    }
  }
}

// False if there is no such kernel.
bool convert_run(const Tensor& dst, const Tensor& src) {
  if (!gpu::is_aligned(dst.raw_data(), 16) || !gpu::is_aligned(src.raw_data(), 16)) return false;
  if (dst.dtype() == DType::f64 || src.dtype() == DType::f64) return false;
  if (!is_floating(dst.dtype()) || !is_floating(src.dtype())) return false;
  visit_floating("copy", dst.dtype(), [&]<class To>(TypeTag<To>) {
    visit_floating("copy", src.dtype(), [&]<class From>(TypeTag<From>) {
      if constexpr (gpu::kFastShapes<To> && gpu::kFastShapes<From> && !std::is_same_v<To, From>) {
        constexpr std::int64_t V = 16 / (sizeof(To) > sizeof(From) ? sizeof(To) : sizeof(From));
        gpu::launch_waiting("copy", convert_flat<To, From>,
                            gpu::blocks_for("copy", dst.numel(), V * kThreads * kConvertUnroll), kThreads, 0,
                            dst.data<To>(), src.data<From>(), dst.numel());
      }
    });
  });
  return true;
}

// ---- other conversions, of any strides: dtypes known at run time only ------------------------------------

struct ConvertAny {
  void* dst;
  const void* src;
  DType to, from;

  __device__ void operator()(std::int64_t d, std::int64_t s) const {
    const auto move = [&]<class T>(const T* data) {
      using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
      gpu::store_element(dst, to, d, static_cast<Wide>(gpu::to_compute(data[s])));
    };
    switch (from) {
      case DType::f32: return move(static_cast<const float*>(src));
      case DType::f64: return move(static_cast<const double*>(src));
      case DType::f16: return move(static_cast<const Half*>(src));
      case DType::bf16: return move(static_cast<const BFloat16*>(src));
      case DType::i64: return move(static_cast<const std::int64_t*>(src));
      case DType::i32: return move(static_cast<const std::int32_t*>(src));
      case DType::u8: return move(static_cast<const std::uint8_t*>(src));
      // Memory from elsewhere may hold other values than 0 and 1.
      case DType::boolean:
        return gpu::store_element(dst, to, d, std::int64_t{static_cast<const std::uint8_t*>(src)[s] != 0});
    }
  }
};

// ---- the same dtype: words of 1 to 16 bytes --------------------------------------------------------------

template <class Word>
struct CopyWord {
  Word* dst;
  const Word* src;
  __device__ void operator()(std::int64_t d, std::int64_t s) const { dst[d] = src[s]; }
};
// Where both sides run without gaps along the innermost axis, several elements are taken as one.
std::size_t widen(CopyPlan& p, const void* dst, const void* src, std::size_t size) {
  while (size < 16 && p.rank > 0 && p.dst[p.inner()] == 1 && p.src[p.inner()] == 1 &&
         p.size[p.inner()] % 2 == 0 && gpu::is_aligned(dst, 2 * size) && gpu::is_aligned(src, 2 * size)) {
    const int inner = p.inner();
    for (int i = 0; i < inner; ++i)
      if (p.dst[i] % 2 != 0 || p.src[i] % 2 != 0) return size;
    for (int i = 0; i < inner; ++i) {
      p.dst[i] /= 2;
      p.src[i] /= 2;
    }
    p.size[inner] /= 2;
    p.numel /= 2;
    if (p.size[inner] == 1) --p.rank;
    size *= 2;
  }
  return size;
}

template <class Word>
void copy_words(const CopyPlan& p, void* dst, const void* src) {
  if (transpose(p, static_cast<Word*>(dst), static_cast<const Word*>(src))) return;
  for_each_strided("copy", p, CopyWord<Word>{static_cast<Word*>(dst), static_cast<const Word*>(src)});
}

void copy_same(CopyPlan p, void* dst, const void* src, std::size_t size) {
  switch (widen(p, dst, src, size)) {
    case 1: return copy_words<std::uint8_t>(p, dst, src);
    case 2: return copy_words<std::uint16_t>(p, dst, src);
    case 4: return copy_words<std::uint32_t>(p, dst, src);
    case 8: return copy_words<uint2>(p, dst, src);
    default: return copy_words<uint4>(p, dst, src);
  }
}

// ---- fill -------------------------------------------------------------------------------------------------

// An element repeated over 16 bytes.
struct alignas(16) Pattern {
  unsigned char bytes[16];
};

// The n bytes at `dst`, which is a multiple of the element's size: a thread takes 16 bytes of them, where they lie.
__global__ void __launch_bounds__(kThreads)
    fill_flat(unsigned char* dst, const Pattern pattern, std::int64_t n) {
  gpu::wait_for_previous();
  const std::int64_t at = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * 16 -
                          static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(dst) % 16);
  if (at >= 0 && at + 16 <= n) {
    uint4 word;
    memcpy(&word, &pattern, 16);
    *reinterpret_cast<uint4*>(dst + at) = word;
  } else {
#pragma unroll
    for (int i = 0; i < 16; ++i)
      if (at + i >= 0 && at + i < n) dst[at + i] = pattern.bytes[i];
  }
}

struct FillStrided {
  void* dst;
  unsigned long long value;  // its low bytes
  int size;
  __device__ void operator()(std::int64_t d, std::int64_t) const {
    switch (size) {
      case 1: static_cast<std::uint8_t*>(dst)[d] = static_cast<std::uint8_t>(value); break;
      case 2: static_cast<std::uint16_t*>(dst)[d] = static_cast<std::uint16_t>(value); break;
      case 4: static_cast<std::uint32_t*>(dst)[d] = static_cast<std::uint32_t>(value); break;
      default: static_cast<unsigned long long*>(dst)[d] = value;
    }
  }
};

}  // namespace

void copy_cuda(const Tensor& dst, const Tensor& src) {
  const std::int64_t n = dst.numel();
  if (n == 0) return;
  const DeviceGuard guard(dst.device());
  void* to = dst.raw_data();
  const void* from = src.raw_data();
  const bool same = dst.dtype() == src.dtype();
  const CopyPlan p = plan_copy(dst.shape(), dst.strides(), src.strides());
  if (p.is_flat() && same) {
    copy_bytes(to, dst.device(), from, src.device(), static_cast<std::size_t>(dst.nbytes()));
  } else if (same) {
    copy_same(p, to, from, size_of(dst.dtype()));
  } else if (!p.is_flat() || !convert_run(dst, src)) {
    for_each_strided("copy", p, ConvertAny{to, from, dst.dtype(), src.dtype()});
  }
}

void fill_cuda(const Tensor& dst, const Scalar& value) {
  if (dst.numel() == 0) return;
  const DeviceGuard guard(dst.device());
  const std::size_t size = size_of(dst.dtype());
  Pattern pattern;
  visit_all("fill", dst.dtype(), [&]<class T>(TypeTag<T>) {
    const T element = value.to<T>();
    for (std::size_t i = 0; i < 16; i += sizeof(T)) std::memcpy(pattern.bytes + i, &element, sizeof(T));
  });
  if (dst.is_contiguous())
    return gpu::launch_waiting("fill", fill_flat, gpu::blocks_for("fill", dst.nbytes() + 15, kThreads * 16),
                               kThreads, 0, static_cast<unsigned char*>(dst.raw_data()), pattern,
                               static_cast<std::int64_t>(dst.nbytes()));
  FillStrided fill{dst.raw_data(), 0, static_cast<int>(size)};
  std::memcpy(&fill.value, pattern.bytes, sizeof fill.value);
  for_each_strided("fill", plan_copy(dst.shape(), dst.strides(), Strides::filled(dst.dim(), 0)), fill);
}

}  // namespace ct

CT_FUNCTIONS(cuda, CopyFunctions, copying, copy_cuda, fill_cuda)
