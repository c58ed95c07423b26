#include <algorithm>
#include <cstring>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/simd/copy.h>
#include <cotangent/core/simd/stream.h>
#include <cotangent/ops/engine/walk/convert_cpu.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/engine/walk/plan.h>
#include <cotangent/ops/engine/walk/transpose_cpu.h>

namespace ct {
namespace {

// Elements per chunk: enough work to pay for waking a thread.
constexpr std::int64_t kGrain = 1 << 16;

void copy_flat(char* dst, DType to, const char* src, DType from, std::int64_t n) {
  const auto to_size = static_cast<std::int64_t>(size_of(to));
  const auto from_size = static_cast<std::int64_t>(size_of(from));
  const walk::ConvertRun convert = to == from ? nullptr : walk::converter(to, from);
  const bool streams = !convert && simd::exceeds_caches(static_cast<std::size_t>(n * to_size));
  parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (convert) {
      convert(dst + begin * to_size, src + begin * from_size, end - begin);
    } else if (streams) {
      simd::stream(dst + begin * to_size, src + begin * to_size,
                   static_cast<std::size_t>((end - begin) * to_size));
      simd::fence();
    } else {
      simd::copy(dst + begin * to_size, src + begin * to_size,
                 static_cast<std::size_t>((end - begin) * to_size));
    }
  });
}

// ---- the same dtype, any strides: only the size of an element matters -------------------------------------

template <class T>
void copy_strided_run(T* dst, std::int64_t dst_stride, const T* src, std::int64_t src_stride,
                      std::int64_t n) {
  if (dst_stride == 1 && src_stride == 1) {
    if (n < 16) {
      for (std::int64_t i = 0; i < n; ++i) dst[i] = src[i];
    } else {
      simd::copy(dst, src, static_cast<std::size_t>(n) * sizeof(T));
    }
  } else if (dst_stride == 1 && src_stride == 0) {
    std::fill_n(dst, n, *src);
  } else if (dst_stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) dst[i] = src[i * src_stride];
  } else {
    for (std::int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
  }
}

template <class T>
void copy_same(const CopyPlan& p, void* dst_data, const void* src_data) {
  T* dst = static_cast<T*>(dst_data);
  const T* src = static_cast<const T*>(src_data);
  if (const int axis = p.transposed_axis(); axis >= 0 && p.size[axis] >= 4 && p.size[p.inner()] >= 4)
    return walk::copy_transposed(p, axis, dst, src);
  parallel_for(p.numel, kGrain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t ds = p.rank ? p.dst[p.inner()] : 1, ss = p.rank ? p.src[p.inner()] : 1;
    for_each_run(p, begin, end, [&](std::int64_t d, std::int64_t s, std::int64_t n) {
      copy_strided_run(dst + d, ds, src + s, ss, n);
    });
  });
}

// Calls run with an unsigned integer of that many bytes: code that only moves elements is compiled for sizes, not
// for dtypes.
template <class Run>
void by_size(std::size_t size, const Run& run) {
  switch (size) {
    case 1: return run(TypeTag<std::uint8_t>{});
    case 2: return run(TypeTag<std::uint16_t>{});
    case 4: return run(TypeTag<std::uint32_t>{});
    default: return run(TypeTag<std::uint64_t>{});
  }
}

void copy_same(const CopyPlan& p, void* dst, const void* src, std::size_t size) {
  by_size(size, [&]<class T>(TypeTag<T>) { copy_same<T>(p, dst, src); });
}

// ---- different dtypes and awkward strides ----------------------------------------------------------------

void gather(void* dst, const char* src, std::int64_t stride, std::int64_t n, std::size_t size) {
  by_size(size, [&]<class T>(TypeTag<T>) {
    copy_strided_run(static_cast<T*>(dst), 1, reinterpret_cast<const T*>(src), stride, n);
  });
}

void scatter(char* dst, std::int64_t stride, const void* src, std::int64_t n, std::size_t size) {
  by_size(size, [&]<class T>(TypeTag<T>) {
    copy_strided_run(reinterpret_cast<T*>(dst), stride, static_cast<const T*>(src), 1, n);
  });
}

// Runs are gathered into a small buffer, converted there, and scattered: conversions exist for runs without
// gaps only.
void convert_strided(const CopyPlan& p, char* dst, DType to, const char* src, DType from) {
  constexpr std::int64_t kBuffer = 256;
  const auto to_size = static_cast<std::int64_t>(size_of(to));
  const auto from_size = static_cast<std::int64_t>(size_of(from));
  const walk::ConvertRun convert = walk::converter(to, from);
  const std::int64_t ds = p.rank ? p.dst[p.inner()] : 1, ss = p.rank ? p.src[p.inner()] : 1;
  parallel_for(p.numel, kGrain, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) char in[kBuffer * 8];
    alignas(64) char out[kBuffer * 8];
    for_each_run(p, begin, end, [&](std::int64_t d, std::int64_t s, std::int64_t n) {
      for (std::int64_t i = 0; i < n; i += kBuffer) {
        const std::int64_t count = std::min(kBuffer, n - i);
        const char* read = src + (s + i * ss) * from_size;
        char* write = dst + (d + i * ds) * to_size;
        if (ss != 1) {
          gather(in, read, ss, count, size_of(from));
          read = in;
        }
        convert(ds == 1 ? write : out, read, count);
        if (ds != 1) scatter(write, ds, out, count, size_of(to));
      }
    });
  });
}

}  // namespace

void copy_cpu(const Tensor& dst, const Tensor& src) {
  const std::int64_t n = dst.numel();
  if (n == 0) return;
  char* to = static_cast<char*>(dst.raw_data());
  const char* from = static_cast<const char*>(src.raw_data());
  if (dst.is_contiguous() && src.is_contiguous()) return copy_flat(to, dst.dtype(), from, src.dtype(), n);
  const CopyPlan p = plan_copy(dst.shape(), dst.strides(), src.strides());
  if (p.is_flat()) {
    copy_flat(to, dst.dtype(), from, src.dtype(), n);
  } else if (dst.dtype() == src.dtype()) {
    copy_same(p, to, from, size_of(dst.dtype()));
  } else if (p.transposed_axis() >= 0) {
    // Reading across the lines is slower than one copy more: convert contiguously, transpose in one dtype.
    if (dst.is_contiguous()) {
      copy_cpu(dst, contiguous(src));
    } else {
      copy_cpu(dst, converted(src, dst.dtype()));
    }
  } else {
    convert_strided(p, to, dst.dtype(), from, src.dtype());
  }
}

void fill_cpu(const Tensor& dst, const Scalar& value) {
  const std::int64_t n = dst.numel();
  if (n == 0) return;
  std::uint64_t bytes = 0;
  visit_all("fill", dst.dtype(), [&]<class T>(TypeTag<T>) {
    const T element = value.to<T>();
    std::memcpy(&bytes, &element, sizeof(T));
  });
  // A copy of one element that is repeated.
  const CopyPlan p = dst.is_contiguous()
                         ? plan_copy({n}, {1}, {0})
                         : plan_copy(dst.shape(), dst.strides(), Strides::filled(dst.dim(), 0));
  copy_same(p, dst.raw_data(), &bytes, size_of(dst.dtype()));
}

}  // namespace ct

CT_FUNCTIONS(cpu, CopyFunctions, copying, copy_cpu, fill_cpu)
