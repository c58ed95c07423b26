#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <cotangent/core/simd/stream.h>
#include <cotangent/ops/engine/map/binary.h>
#include <cotangent/ops/engine/map/map.h>
#include <cotangent/ops/engine/map/math_f64_cpu.h>

// Elementwise kernels on the CPU. For .cpp files of rooms.
//
// A formula (engine/map/formulas.h), whose result is an X, several of them, or a truth value for an output of dtype
// bool, is compiled once per compute type (f32, f64, i64) into a tile function that runs over vectors of that type; a cold
// one without f32, which is computed in f64 then.
// Everything else, 16-bit floats, narrow integers, strides, broadcasting, draws, threads, belongs to the driver, which is
// compiled once for all formulas: what is not a plain run of the compute type is brought into one, block by block in the
// L1 cache.

namespace ct::elementwise {

using simd::Vector;

/// One run of a formula. `step[i]` is 1, or 0 for an input that is one number and whose pointer leads to a vector filled
/// with it.
struct Tile {
  const void* in[kMaxInputs];
  std::ptrdiff_t step[kMaxInputs];
  void* out[kMaxOutputs];
  std::int64_t n;
  const Parameters* parameters;
  bool streams = false;    // results go past the caches
  std::uint32_t last = 0;  // of a draw, whose words are an input: true up to this one
};
using TileFn = void (*)(const Tile&);

/// The tile functions of a formula; null where it has no meaning. Without f32 those calls are computed in f64.
struct Tiles {
  TileFn f32 = nullptr;
  TileFn f64 = nullptr;
  TileFn i64 = nullptr;
  bool predicate = false;  // the output is bool
  std::int64_t grain = Formula::kGrain;
};

/// Runs a formula over `out`, with inputs broadcast to its shape. The compute type is that of the last
/// input; `out` may be input 0 itself (in-place).
void run_cpu(const Tiles& tiles, Tensor& out, std::span<const Tensor* const> inputs,
             const Parameters& parameters);
/// The same for several outputs of one shape, some of which may be null, and for formulas that draw.
void run_cpu(const Tiles& tiles, std::span<const Tensor* const> outputs,
             std::span<const Tensor* const> inputs, const Parameters& parameters, const Draw* draw = nullptr);

/// Stores what a formula gave for elements i, i + 1, ...: of a whole vector, or of its first `count` lanes.
template <class T, bool kWhole, class Out, int kOutputs, class Y>
CT_INLINE void store_results(Out* const (&out)[kOutputs], std::int64_t i, const Y& y, int count,
                             bool streams = false) {
  if constexpr (kOutputs == 1) {
    if constexpr (std::is_same_v<Y, Vector<T>> && kWhole)
      if (streams) return simd::stream(y, out[0] + i);
    kWhole ? y.store(out[0] + i) : y.store(out[0] + i, y.first(count));
  } else {
    for (int m = 0; m < kOutputs; ++m) {
      Out* const one[] = {out[m]};
      store_results<T, kWhole>(one, i, y.of[m], count, streams);
    }
  }
}

/// Argument `i` of a formula: a whole vector, or its first `count` lanes.
template <class F, class T, std::size_t i, bool kWhole>
CT_INLINE auto load_argument(const T* from, int count, std::uint32_t last) {
  if constexpr (i < F::kInputs) {
    using V = Vector<T>;
    return kWhole ? V::load(from) : V::load(from, V::first(count));
  } else {
    static_assert(sizeof(T) == 4, "a lane is a word");
    const auto words = Vector<std::uint32_t>::load(reinterpret_cast<const std::uint32_t*>(from));
    return typename Vector<T>::Mask{(words <= last).v};
  }
}

template <class F, class T, std::size_t... I>
void run_tile(const Tile& tile, std::index_sequence<I...>) {
  using P = Vector<T>;
  using Result = decltype(F::eval(load_argument<F, T, I, true>(nullptr, 0, 0)..., P(), P()));
  using Out = std::conditional_t<std::is_same_v<Result, typename Vector<T>::Mask>, bool, T>;
  const T* in[] = {static_cast<const T*>(tile.in[I])...};
  Out* out[F::kOutputs];
  for (int m = 0; m < F::kOutputs; ++m) out[m] = static_cast<Out*>(tile.out[m]);
  const P p(tile.parameters->p.template to<T>());
  const P q(tile.parameters->q.template to<T>());
  std::int64_t i = 0;
  for (; i + P::kSize <= tile.n; i += P::kSize) {
    store_results<T, true>(out, i, F::eval(load_argument<F, T, I, true>(in[I], P::kSize, tile.last)..., p, q),
                           P::kSize, tile.streams);
    ((in[I] += tile.step[I] * P::kSize), ...);
  }
  const int rest = static_cast<int>(tile.n - i);
  if (rest)
    store_results<T, false>(out, i, F::eval(load_argument<F, T, I, false>(in[I], rest, tile.last)..., p, q),
                            rest);
}
template <class F, class T>
void tile_function(const Tile& tile) {
  run_tile<F, T>(tile, std::make_index_sequence<kArguments<F>>{});
}

template <class F, class T>
inline constexpr bool is_predicate = []<std::size_t... I>(std::index_sequence<I...>) {
  return std::is_same_v<decltype(F::eval(load_argument<F, T, I, true>(nullptr, 0, 0)..., Vector<T>(),
                                         Vector<T>())),
                        typename Vector<T>::Mask>;
}
(std::make_index_sequence<kArguments<F>>{});

/// The tile functions of formula F for floating dtypes and, if asked for, integers.
template <class F, bool floats, bool integers>
constexpr Tiles make_tiles() {
  Tiles tiles;
  tiles.grain = F::kGrain;
  if constexpr (floats) {
    if constexpr (!F::kCold) tiles.f32 = tile_function<F, float>;
    if constexpr (F::kF64OnCpu) tiles.f64 = tile_function<F, double>;
    tiles.predicate = is_predicate<F, std::conditional_t<F::kCold, double, float>>;
  }
  if constexpr (integers) {
    tiles.i64 = tile_function<F, std::int64_t>;
    tiles.predicate = is_predicate<F, std::int64_t>;
  }
  return tiles;
}
template <class F, bool floats = true, bool integers = false>
inline constexpr Tiles tiles_of = make_tiles<F, floats, integers>();

/// The forward kernel of an op from the formula name_y.
template <class F, bool floats, bool integers>
void forward_cpu(const Forward& f) {
  if constexpr (F::kOutputs > 1 || F::kOptional) {
    const Tensor* outputs[F::kOutputs];
    for (int m = 0; m < F::kOutputs; ++m) outputs[m] = &f.out(m);
    run_cpu(tiles_of<F, floats, integers>, outputs, f.inputs, parameters_of(f.attrs_view));
  } else {
    run_cpu(tiles_of<F, floats, integers>, f.out(), f.inputs, parameters_of(f.attrs_view));
  }
}
/// The backward kernel of an op with one input, from name_dx.
void unary_backward_cpu(const Backward& b, const Tiles& tiles, Saved saved);
template <class F>
void unary_backward_cpu(const Backward& b) {
  unary_backward_cpu(b, tiles_of<F>, F::kSaved);
}

/// The backward kernel of an op with two or three inputs, from name_da, name_db, ...
struct OperandFormula {
  Tiles tiles;
  std::uint32_t saves;
  bool passes_on;  // its gradient is g
};
template <class D>
constexpr OperandFormula operand_formula() {
  if constexpr (passes_on<D>)
    return {{}, D::kSaves, true};
  else
    return {tiles_of<D>, D::kSaves, false};
}
void operands_backward_cpu(const Backward& b, std::span<const OperandFormula> formulas);
template <class... D>
void operands_backward_cpu(const Backward& b) {
  static constexpr OperandFormula formulas[] = {operand_formula<D>()...};
  operands_backward_cpu(b, formulas);
}

/// The backward kernel of an op from one formula for all gradients (joint_gradients).
template <class F>
void joint_backward_cpu(const Backward& b) {
  joint_gradients<F>(b, b.grad(), b.grad().shape(), [&](auto outputs, auto inputs) {
    run_cpu(tiles_of<F>, outputs, inputs, parameters_of(b.attrs_view));
  });
}

}  // namespace ct::elementwise
