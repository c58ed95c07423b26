#include <algorithm>

#include <cotangent/core/base/convert_element.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/random/fill.h>
#include <cotangent/ops/engine/walk/convert_cpu.h>

namespace ct::random {
namespace {

using namespace detail;

constexpr std::int64_t kGrain = 1 << 14;

// Elements [first, first + n) of a draw that is not uniform.
template <class C>
void fill_unbounded(const Draw& draw, std::uint64_t first, std::int64_t n, C* out) {
  if (draw.kind == Draw::Kind::normal) return fill_normal(draw.state, first, n, out);
  constexpr std::uint64_t kWide = philox_elements<C>;
  const std::uint64_t end = first + static_cast<std::uint64_t>(n);
  for (std::uint64_t block = first / kWide; block * kWide < end; ++block) {
    C values[kWide];
    exponential_block(draw.state, block, values);
    for (std::uint64_t i = std::max(first, block * kWide); i < std::min(end, (block + 1) * kWide); ++i)
      out[i - first] = values[i % kWide];
  }
}

// The draws behind elements [first, first + n), scaled.
template <class C>
void fill_scaled(const Draw& draw, std::int64_t first, std::int64_t n, C* out) {
  const auto at = static_cast<std::uint64_t>(first);
  const C offset = static_cast<C>(draw.offset), scale = static_cast<C>(draw.scale);
  if (draw.kind == Draw::Kind::uniform) {
    fill_uniform(draw.state, at, n, out);
  } else {
    fill_unbounded(draw, at, n, out);
  }
  if (scale == 1 && offset == 0) return;
  for (std::int64_t i = 0; i < n; ++i) out[i] = fma_exact(out[i], scale, offset);
  if (draw.kind != Draw::Kind::uniform) return;
  const C high = static_cast<C>(draw.offset + draw.scale);
  for (std::int64_t i = 0; i < n; ++i) out[i] = out[i] < high ? out[i] : offset;  // rounded up to the bound
}

template <class T>
void fill_low_precision(const Draw& draw, std::int64_t first, std::int64_t n, T* out) {
  constexpr int kBits = std::is_same_v<T, Half> ? 11 : 8;
  constexpr std::int64_t kBuffer = 512;
  const float offset = static_cast<float>(draw.offset), scale = static_cast<float>(draw.scale);
  const float high = static_cast<float>(draw.offset + draw.scale);
  float buffer[kBuffer];
  for (std::int64_t done = 0; done < n; done += kBuffer) {
    const std::int64_t count = std::min(kBuffer, n - done);
    const auto at = static_cast<std::uint64_t>(first + done);
    if (draw.kind == Draw::Kind::uniform) {
      fill_uniform(draw.state, at, count, buffer);
      for (std::int64_t i = 0; i < count; ++i) {
        const T value = T(fma_exact(cut_uniform<kBits>(buffer[i]), scale, offset));
        out[done + i] = static_cast<float>(value) < high ? value : T(offset);
      }
    } else {
      fill_unbounded(draw, at, count, buffer);
      for (std::int64_t i = 0; i < count; ++i) out[done + i] = T(fma_exact(buffer[i], scale, offset));
    }
  }
}

void sequence(const Forward& call) {
  const Tensor& dst = call.out();
  const auto& s = call.attrs<Sequence>();
  const std::int64_t n = dst.numel();
  const DType dtype = dst.dtype();
  char* const out = static_cast<char*>(dst.raw_data());
  parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kBuffer = 256;
    std::int64_t integers[kBuffer];
    double numbers[kBuffer];
    for (std::int64_t i = begin; i < end; i += kBuffer) {
      const std::int64_t count = std::min(kBuffer, end - i);
      char* const to = out + i * static_cast<std::int64_t>(size_of(dtype));
      if (s.integer) {
        for (std::int64_t k = 0; k < count; ++k) integers[k] = integer_sequence_value(s, i + k);
        walk::converter(dtype, DType::i64)(to, integers, count);
      } else {
        for (std::int64_t k = 0; k < count; ++k) numbers[k] = sequence_value(s, i + k, n);
        walk::converter(dtype, DType::f64)(to, numbers, count);
      }
    }
  });
}

void draw(const Forward& call) {
  const Tensor& dst = call.out();
  Draw draw = call.attrs<Draw>();
  draw.state = draw.state.now();
  visit_all("random", dst.dtype(), [&]<class T>(TypeTag<T>) {
    T* out = static_cast<T*>(dst.raw_data());
    parallel_for(dst.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      if (draw.kind == Draw::Kind::integer) {
        for (std::int64_t i = begin; i < end; ++i)
          out[i] = convert_element<T>(
              philox_integer(draw.state, static_cast<std::uint64_t>(i), draw.low, draw.high));
      } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
        fill_low_precision(draw, begin, end - begin, out + begin);
      } else if constexpr (std::is_floating_point_v<T>) {
        fill_scaled(draw, begin, end - begin, out + begin);
      }
    });
  });
}

}  // namespace
}  // namespace ct::random

CT_KERNELS(cpu, filling, forward_only("sequence", random::sequence), forward_only("draw", random::draw))
