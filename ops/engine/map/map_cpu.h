#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <cotangent/ops/engine/map/binary.h>
#include <cotangent/ops/engine/map/map.h>
#include <cotangent/ops/engine/map/math_cpu.h>

// Elementwise kernels on the CPU. For .cpp files of rooms.
//
// A formula is a struct
//     struct Relu {
//       static constexpr int kInputs = 1;
//       template <class X> static auto eval(X x, X p, X q) { return where(x <= 0, X(0), x); }
//     };
// whose result is an X, or a truth value for an output of dtype bool. It is compiled once per compute type
// (f32, f64, i64) into a tile function that runs over vectors of that type. Everything else, 16-bit floats,
// narrow integers, strides, broadcasting, threads, belongs to the driver, which is compiled once for all
// formulas: what is not a plain run of the compute type is brought into one, block by block in the L1 cache.

namespace ct::elementwise {

/// One run of a formula. `step[i]` is the number of elements input i advances per vector: a whole vector, or
/// 0 for an input that is one number and whose pointer leads to a vector filled with it.
struct Tile {
  const void* in[kMaxInputs];
  std::ptrdiff_t step[kMaxInputs];
  void* out;
  std::int64_t n;
  const Parameters* parameters;
};
using TileFn = void (*)(const Tile&);

/// The tile functions of a formula; null where it has no meaning.
struct Tiles {
  TileFn f32 = nullptr;
  TileFn f64 = nullptr;
  TileFn i64 = nullptr;
  bool predicate = false;  // the output is bool
};

/// Runs a formula over `out`, with inputs broadcast to its shape. The compute type is that of the last
/// input; `out` may be input 0 itself (in-place).
void run_cpu(const Tiles& tiles, Tensor& out, std::span<const Tensor* const> inputs,
             const Parameters& parameters);

template <class F, class T, std::size_t... I>
void run_tile(const Tile& tile, std::index_sequence<I...>) {
  using P = Pack<T>;
  using Result = decltype(F::eval((static_cast<void>(I), P())..., P(), P()));
  using Out = std::conditional_t<std::is_same_v<Result, P>, T, bool>;
  const T* in[] = {static_cast<const T*>(tile.in[I])...};
  Out* out = static_cast<Out*>(tile.out);
  const P p(tile.parameters->p.template to<T>());
  const P q(tile.parameters->q.template to<T>());
  std::int64_t i = 0;
  for (; i + P::kSize <= tile.n; i += P::kSize) {
    store_all(out + i, F::eval(P::load(in[I])..., p, q));
    ((in[I] += tile.step[I]), ...);
  }
  const int rest = static_cast<int>(tile.n - i);
  if (rest) store_first(out + i, F::eval(load_first(in[I], rest)..., p, q), rest);
}
template <class F, class T>
void tile_function(const Tile& tile) {
  run_tile<F, T>(tile, std::make_index_sequence<F::kInputs>{});
}

template <class F, class T>
inline constexpr bool is_predicate = []<std::size_t... I>(std::index_sequence<I...>) {
  return std::is_same_v<decltype(F::eval((static_cast<void>(I), Pack<T>())..., Pack<T>(), Pack<T>())),
                        PackMask<T>>;
}
(std::make_index_sequence<F::kInputs>{});

/// The tile functions of formula F for floating dtypes and, if asked for, integers.
template <class F, bool floats, bool integers>
constexpr Tiles tiles_of() {
  Tiles tiles;
  if constexpr (floats) {
    tiles.f32 = tile_function<F, float>;
    tiles.f64 = tile_function<F, double>;
    tiles.predicate = is_predicate<F, float>;
  }
  if constexpr (integers) {
    tiles.i64 = tile_function<F, std::int64_t>;
    tiles.predicate = is_predicate<F, std::int64_t>;
  }
  return tiles;
}

/// The forward kernel of an op from the formula name_y.
template <class F, bool floats, bool integers>
void forward_cpu(const Forward& f) {
  static constexpr Tiles tiles = tiles_of<F, floats, integers>();
  run_cpu(tiles, f.out(), f.inputs, parameters_of(f.attrs_view));
}
/// The backward kernel of an op with one input, from name_dx.
template <class F>
void unary_backward_cpu(const Backward& b) {
  if (!b.needs(0)) return;
  static constexpr Tiles tiles = tiles_of<F, true, false>();
  const Tensor* inputs[2] = {&b.grad()};
  if constexpr (F::kSaved == Saved::x) inputs[1] = &b.in(0);
  if constexpr (F::kSaved == Saved::y) inputs[1] = &b.out();
  run_cpu(tiles, b.grad_in(0), {inputs, F::kInputs}, parameters_of(b.attrs_view));
}

/// The backward kernel of an op with two inputs, from name_da and name_db.
template <class F>
void operand_gradient_cpu(const Backward& b, int i) {
  static constexpr Tiles tiles = tiles_of<F, true, false>();
  operand_gradient<F>(b, i, [&](Tensor& out, std::span<const Tensor* const> inputs) {
    run_cpu(tiles, out, inputs, parameters_of(b.attrs_view));
  });
}
template <class DA, class DB>
void binary_backward_cpu(const Backward& b) {
  operand_gradient_cpu<DA>(b, 0);
  operand_gradient_cpu<DB>(b, 1);
}

}  // namespace ct::elementwise
