#include <array>
#include <cstring>
#include <tuple>
#include <utility>

#include <cotangent/core/convert_element.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/memory.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/engine/walk/plan.h>
#include <cotangent/ops/engine/walk/strided.cuh>
#include <cotangent/ops/engine/walk/transpose.cuh>

namespace ct {
namespace {

constexpr int kThreads = 256;

// ---- converting a run without gaps ------------------------------------------------------------------------

// Bools are read as bytes: memory from elsewhere may hold other values than 0 and 1.
template <class T>
using Raw = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

// convert_element with the device's own instructions for the 16-bit types.
template <class To, class From>
__device__ __forceinline__ To convert_on_device(Raw<From> value) {
  if constexpr (std::is_same_v<From, bool>) {
    return convert_on_device<To, std::uint8_t>(value != 0 ? 1 : 0);
  } else if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
    return convert_on_device<To, float>(gpu::to_compute(value));
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
    return gpu::from_compute<To>(static_cast<float>(value));
  } else {
    return convert_element<To>(value);
  }
}

// Several vectors per thread, all loaded before the first is stored.
constexpr int kConvertUnroll = 4;

template <class To, class From>
__global__ void __launch_bounds__(kThreads)
    convert_flat(To* __restrict__ dst, const Raw<From>* __restrict__ src, std::int64_t n) {
  constexpr int V = 16 / static_cast<int>(sizeof(To) > sizeof(From) ? sizeof(To) : sizeof(From));
  using In = gpu::Packed<Raw<From>, V>;
  using Out = gpu::Packed<To, V>;
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
      for (int i = 0; i < V; ++i) out.set(i, convert_on_device<To, From>(in[u][i]));
      out.store(dst + at);
    } else {
      for (std::int64_t i = at; i < n; ++i) dst[i] = convert_on_device<To, From>(src[i]);
    }
  }
}

template <class To, class From>
void convert_run(void* dst, const void* src, std::int64_t n) {
  constexpr std::int64_t V = 16 / (sizeof(To) > sizeof(From) ? sizeof(To) : sizeof(From));
  gpu::launch("copy", convert_flat<To, From>, gpu::blocks_for("copy", n, V * kThreads * kConvertUnroll),
              kThreads, 0, static_cast<To*>(dst), static_cast<const Raw<From>*>(src), n);
}

// Indexed by the numbers of DType.
template <int N>
using ElementType = std::tuple_element_t<
    N, std::tuple<float, double, Half, BFloat16, std::int64_t, std::int32_t, std::uint8_t, bool>>;
using ConvertRun = void (*)(void* dst, const void* src, std::int64_t n);

template <std::size_t I>
constexpr ConvertRun converter_at() {
  if constexpr (I / kDTypeCount == I % kDTypeCount) {
    return nullptr;  // the same dtype is copied, not converted
  } else {
    return &convert_run<ElementType<I / kDTypeCount>, ElementType<I % kDTypeCount>>;
  }
}
template <std::size_t... I>
constexpr auto make_converters(std::index_sequence<I...>) {
  return std::array<ConvertRun, sizeof...(I)>{converter_at<I>()...};
}
constexpr auto kConverters = make_converters(std::make_index_sequence<kDTypeCount * kDTypeCount>());

// ---- different dtypes and any strides: dtypes known at run time only -------------------------------------

// Every element fits into a double or an i64 without loss, and rounding from there gives the same bits as
// rounding directly.
struct ConvertAny {
  char* dst;
  const char* src;
  DType to, from;

  template <class Wide>
  __device__ void store(std::int64_t d, Wide value) const {
    switch (to) {
      case DType::f32: reinterpret_cast<float*>(dst)[d] = convert_element<float>(value); break;
      case DType::f64: reinterpret_cast<double*>(dst)[d] = convert_element<double>(value); break;
      case DType::f16: reinterpret_cast<Half*>(dst)[d] = convert_on_device<Half, Wide>(value); break;
      case DType::bf16: reinterpret_cast<BFloat16*>(dst)[d] = convert_on_device<BFloat16, Wide>(value); break;
      case DType::i64: reinterpret_cast<std::int64_t*>(dst)[d] = convert_element<std::int64_t>(value); break;
      case DType::i32: reinterpret_cast<std::int32_t*>(dst)[d] = convert_element<std::int32_t>(value); break;
      case DType::u8: reinterpret_cast<std::uint8_t*>(dst)[d] = convert_element<std::uint8_t>(value); break;
      case DType::boolean: reinterpret_cast<bool*>(dst)[d] = value != 0; break;
    }
  }
  __device__ void operator()(std::int64_t d, std::int64_t s) const {
    switch (from) {
      case DType::f32: return store(d, static_cast<double>(reinterpret_cast<const float*>(src)[s]));
      case DType::f64: return store(d, reinterpret_cast<const double*>(src)[s]);
      case DType::f16:
        return store(d, static_cast<double>(gpu::to_compute(reinterpret_cast<const Half*>(src)[s])));
      case DType::bf16:
        return store(d, static_cast<double>(gpu::to_compute(reinterpret_cast<const BFloat16*>(src)[s])));
      case DType::i64: return store(d, reinterpret_cast<const std::int64_t*>(src)[s]);
      case DType::i32:
        return store(d, static_cast<std::int64_t>(reinterpret_cast<const std::int32_t*>(src)[s]));
      case DType::u8:
        return store(d, static_cast<std::int64_t>(reinterpret_cast<const std::uint8_t*>(src)[s]));
      case DType::boolean: return store(d, std::int64_t{reinterpret_cast<const std::uint8_t*>(src)[s] != 0});
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
template <class Word>
struct FillWord {
  Word* dst;
  Word value;
  __device__ void operator()(std::int64_t d, std::int64_t) const { dst[d] = value; }
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

// `pattern` is the element repeated over 16 bytes, so it fits at every multiple of the element's size.
template <class Word>
__global__ void __launch_bounds__(kThreads) fill_flat(Word* dst, uint4 pattern, std::int64_t n) {
  constexpr int V = 16 / static_cast<int>(sizeof(Word));
  const std::int64_t at = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * V;
  if (at + V <= n && reinterpret_cast<std::uintptr_t>(dst) % 16 == 0) {
    *reinterpret_cast<uint4*>(dst + at) = pattern;
  } else {
    const Word value = *reinterpret_cast<const Word*>(&pattern);
    for (std::int64_t i = at; i < n && i < at + V; ++i) dst[i] = value;
  }
}

template <class Word>
void fill_words(const Tensor& dst, const void* element) {
  Word* data = static_cast<Word*>(dst.raw_data());
  Word value;
  std::memcpy(&value, element, sizeof value);
  if (!dst.is_contiguous())
    return for_each_strided("fill", plan_copy(dst.shape(), dst.strides(), Strides::filled(dst.dim(), 0)),
                            FillWord<Word>{data, value});
  uint4 pattern;
  for (std::size_t i = 0; i < 16; i += sizeof value)
    std::memcpy(reinterpret_cast<char*>(&pattern) + i, &value, sizeof value);
  gpu::launch("fill", fill_flat<Word>,
              gpu::blocks_for("fill", dst.numel(), kThreads * (16 / static_cast<int>(sizeof(Word)))),
              kThreads, 0, data, pattern, dst.numel());
}

}  // namespace

void copy_cuda(const Tensor& dst, const Tensor& src) {
  const std::int64_t n = dst.numel();
  if (n == 0) return;
  void* to = dst.raw_data();
  const void* from = src.raw_data();
  const bool same = dst.dtype() == src.dtype();
  const CopyPlan p = plan_copy(dst.shape(), dst.strides(), src.strides());
  if (p.is_flat() && same) {
    copy_bytes(to, dst.device(), from, src.device(), static_cast<std::size_t>(dst.nbytes()));
  } else if (same) {
    copy_same(p, to, from, size_of(dst.dtype()));
  } else if (p.is_flat() && gpu::is_aligned(to, 16) && gpu::is_aligned(from, 16)) {
    kConverters[static_cast<std::size_t>(dst.dtype()) * kDTypeCount + static_cast<std::size_t>(src.dtype())](
        to, from, n);
  } else {
    for_each_strided(
        "copy", p,
        ConvertAny{static_cast<char*>(to), static_cast<const char*>(from), dst.dtype(), src.dtype()});
  }
}

void fill_cuda(const Tensor& dst, const Scalar& value) {
  if (dst.numel() == 0) return;
  visit_all("fill", dst.dtype(), [&]<class T>(TypeTag<T>) {
    const T element = value.to<T>();
    if constexpr (sizeof(T) == 1) fill_words<std::uint8_t>(dst, &element);
    if constexpr (sizeof(T) == 2) fill_words<std::uint16_t>(dst, &element);
    if constexpr (sizeof(T) == 4) fill_words<std::uint32_t>(dst, &element);
    if constexpr (sizeof(T) == 8) fill_words<uint2>(dst, &element);
  });
}

}  // namespace ct
