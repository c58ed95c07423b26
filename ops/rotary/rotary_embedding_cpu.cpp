#include <algorithm>
#include <cmath>

#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/engine/map/math_f64_cpu.h>
#include <cotangent/ops/engine/rows/blocks_cpu.h>
#include <cotangent/ops/rotary/rotary_embedding_internal.h>

// First the sines and cosines of all positions, which the heads have in common, then the rows.

namespace ct::rotary {
namespace {

using rows::load_block;
using rows::store_block;

// table[p] = `pairs` cosines followed by `pairs` sines, for each of `count` positions.
template <class C>
void fill_table(const Call& call, std::int64_t count, C* table) {
  using P = simd::Vector<C>;
  const Frequencies<C>& frequency = frequencies<C>(call.options, 2 * call.pairs);
  const Positions positions(call.positions);
  const std::int64_t pairs = call.pairs;
  parallel_for(count, std::max<std::int64_t>(1, 2048 / pairs), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const C position = static_cast<C>(positions[p]);
      C *cosines = table + p * 2 * pairs, *sines = cosines + pairs;
      std::int64_t i = 0;
      for (; i + P::kSize <= pairs; i += P::kSize) {
        const P angle = P(position) * P::load(frequency.of + i);
        cos(angle).store(cosines + i);
        sin(angle).store(sines + i);
      }
      if (const int rest = static_cast<int>(pairs - i); rest > 0) {
        const auto first = P::first(rest);
        const P angle = P(position) * P::load(frequency.of + i, first);
        cos(angle).store(cosines + i, first);
        sin(angle).store(sines + i, first);
      }
      if (call.back)
        for (std::int64_t k = 0; k < pairs; ++k) sines[k] = -sines[k];
    }
  });
}

template <class C>
void turn(const C* x, const C* cosines, const C* sines, std::int64_t pairs, bool interleaved, C* y) {
  if (interleaved) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const C a = x[2 * i], b = x[2 * i + 1];
      y[2 * i] = a * cosines[i] - b * sines[i];
      y[2 * i + 1] = a * sines[i] + b * cosines[i];
    }
  } else {
    const C* second = x + pairs;
    for (std::int64_t i = 0; i < pairs; ++i) y[i] = x[i] * cosines[i] - second[i] * sines[i];
    for (std::int64_t i = 0; i < pairs; ++i) y[pairs + i] = x[i] * sines[i] + second[i] * cosines[i];
  }
}

template <class T>
void run(const Call& call) {
  using C = compute_t<T>;
  const std::int64_t pairs = call.pairs, positions = call.positions.numel();
  const Tensor table = Tensor::allocate({positions, 2, std::max<std::int64_t>(pairs, 1)}, dtype_of<C>, cpu);
  if (pairs > 0) fill_table<C>(call, positions, table.data<C>());
  const T* x = static_cast<const T*>(call.x.raw_data());
  T* y = static_cast<T*>(call.y.raw_data());
  parallel_for(call.batch * call.heads * call.length, std::max<std::int64_t>(1, 16384 / call.columns),
               [&](std::int64_t begin, std::int64_t end) {
                 C in_buffer[2 * kMaxPairs], out[2 * kMaxPairs];
                 for (std::int64_t row = begin; row < end; ++row) {
                   const std::int64_t t = row % call.length, group = row / call.length;
                   const std::int64_t h = group % call.heads, b = group / call.heads;
                   const T* from = x + b * call.batch_stride + h * call.head_stride + t * call.row_stride;
                   T* to = y + row * call.columns;
                   const C* cosines = table.data<C>() + (b * call.position_stride + t) * 2 * pairs;
                   const int turned = static_cast<int>(2 * pairs);
                   if constexpr (std::is_same_v<T, C>) {
                     turn(from, cosines, cosines + pairs, pairs, call.options.interleaved, to);
                   } else {
                     turn(load_block<T, C>(from, 1, turned, in_buffer), cosines, cosines + pairs, pairs,
                          call.options.interleaved, out);
                     store_block<T, C>(to, 0, out, turned, false);
                   }
                   std::copy(from + turned, from + call.columns, to + turned);
                 }
               });
}

void run(const Call& call) {
  visit_fast(call.op, call.y.dtype(), [&]<class T>(TypeTag<T>) { run<T>(call); });
}

void forward_cpu(const Forward& f) {
  if (f.out().numel() == 0) return;
  run(Call(f.op.name, f.in(0), f.in(1), f.out(), f.attrs<Attrs>(), false));
}
void backward_cpu(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor& dx = b.grad_in(0);
  if (dx.numel() > 0) run(Call(b.op.name, b.grad(), b.in(1), dx, b.attrs<Attrs>(), true));
}

}  // namespace
}  // namespace ct::rotary

CT_KERNELS(cpu, rotary_embedding, {"rotary_embedding", rotary::forward_cpu, rotary::backward_cpu})
