#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include <cotangent/core/op/kernel_records.h>
#include <cotangent/core/simd/stream.h>
#include <cotangent/ops/engine/map/binary.h>
#include <cotangent/ops/engine/map/map.h>
#include <cotangent/ops/engine/map/record.h>

// Elementwise kernels on the CPU. For .cpp files of rooms; formulas that name functions (exp, tanh) want math_f64_cpu.h beside it.
//
// A formula (engine/map/formulas.h), whose result is an X, several of them, or a truth value for an output of dtype
// bool, is compiled once per compute type (f32, f64, i64) into a tile function that runs over vectors of that type; a cold
// one without f32, which is computed in f64 then.
// Everything else, 16-bit floats, narrow integers, strides, broadcasting, draws, threads, belongs to the driver, which is
// compiled once for all formulas: what is not a plain run of the compute type is brought into one, block by block in the
// L1 cache.

namespace ct::map {

using simd::Vector;

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

// Hides where a number is from: the compiler would make a loop for each value that it may have.
template <class N>
CT_INLINE void keep_as_it_is(N& number) {
  asm("" : "+r"(number));
}

inline constexpr std::int64_t kLongTile = 64;
/// Whether a formula takes less time than its operands' way from the cache: it calls no function but where() and abs().
consteval bool is_light(std::string_view text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    const std::string_view before = text.substr(0, i);
    const bool calls =
        text[i] == '(' && ((before.back() >= 'a' && before.back() <= 'z') || before.back() == '_');
    if (calls && !before.ends_with("where") && !before.ends_with("abs")) return false;
  }
  return true;
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
  // Copies, which a store can't change.
  const std::int64_t moves[] = {
      -std::int64_t{tile.step[I]}...};  // all bits, or none where an input is one number
  const std::int64_t n = tile.n;
  const std::uint32_t last = tile.last;
  bool streams = tile.streams;
  std::int64_t i = 0;
  for (; i + P::kSize <= n; i += P::kSize) {
    keep_as_it_is(streams);
    store_results<T, true>(
        out, i, F::eval(load_argument<F, T, I, true>(in[I] + (i & moves[I]), P::kSize, last)..., p, q),
        P::kSize, streams);
  }
  if (const int rest = static_cast<int>(n - i))
    store_results<T, false>(
        out, i, F::eval(load_argument<F, T, I, false>(in[I] + (i & moves[I]), rest, last)..., p, q), rest);
}
template <class F, class T>
inline constexpr bool is_predicate = []<std::size_t... I>(std::index_sequence<I...>) {
  return std::is_same_v<decltype(F::eval(load_argument<F, T, I, true>(nullptr, 0, 0)..., Vector<T>(),
                                         Vector<T>())),
                        typename Vector<T>::Mask>;
}
(std::make_index_sequence<kArguments<F>>{});

// A long tile, two vectors at a time where all its inputs are dense.
template <class F, class T, std::size_t... I>
[[gnu::noinline]] void run_long_tile(const Tile& tile, std::index_sequence<I...> inputs) {
  using P = Vector<T>;
  if (tile.streams || ((tile.step[I] == 0) || ...)) return run_tile<F, T>(tile, inputs);
  const P p(tile.parameters->p.template to<T>()), q(tile.parameters->q.template to<T>());
  const T* const in[] = {static_cast<const T*>(tile.in[I])...};
  T* const out[] = {static_cast<T*>(tile.out[0])};
  const std::int64_t n = tile.n;
  const auto one = [&](std::int64_t i) {
    store_results<T, true>(out, i, F::eval(P::load(in[I] + i)..., p, q), P::kSize);
  };
  std::int64_t i = 0;
  for (; i + 2 * P::kSize <= n; i += 2 * P::kSize) one(i), one(i + P::kSize);
  if (i == n) return;
  Tile rest = tile;
  ((rest.in[I] = in[I] + i), ...);
  rest.out[0] = out[0] + i;
  rest.n = n - i;
  run_tile<F, T>(rest, inputs);
}
template <class F, class T>
void tile_function(const Tile& tile) {
  constexpr std::make_index_sequence<kArguments<F>> inputs;
  if constexpr (std::is_same_v<T, float> && !F::kDraws && F::kOutputs == 1 && is_light(F::kText))
    if constexpr (!is_predicate<F, T>)
      if (tile.n >= kLongTile) return run_long_tile<F, T>(tile, inputs);
  run_tile<F, T>(tile, inputs);
}

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

/// The record of an op's formulas (engine/map/record.h): of its forward kernel, and of its gradients' kernel
/// unary_backward_cpu or operands_backward_cpu.
template <class F, const Tiles& tiles>
constexpr FormulaRecord formula_record() {
  return {F::kText, F::kNames, &tiles, F::kInputs, F::kOutputs, F::kDraws};
}
template <class Y, bool floats, bool integers, class... D>
struct Recorded {
  template <class F>
  static constexpr GradientRecord gradient() {
    GradientRecord r{};
    r.passes_on = passes_on<F>;
    if constexpr (!passes_on<F>) r.formula = formula_record<F, tiles_of<F>>();
    r.operands[0] = 'g';
    int count = 1;
    if constexpr (requires { F::kSaves; }) {
      for (int k = 0; k < 3; ++k)
        if (F::kSaves >> k & 1u) r.operands[count++] = static_cast<char>('0' + k);
    } else if (F::kSaved != Saved::none) {
      r.operands[count] = F::kSaved == Saved::x ? '0' : 'y';
    }
    return r;
  }
  static constexpr MapRecord record{
      formula_record<Y, tiles_of<Y, floats, integers>>(), sizeof...(D), {gradient<D>()...}};
};
/// The entry behind an op's kernels that hands out the record; `name` is the op's name with kFormulas behind it.
template <class Y, bool floats, bool integers, class... D>
consteval KernelEntry formulas_of_kernels(const char* name) {
  return forward_only(name, hand_out<Recorded<Y, floats, integers, D...>::record>);
}

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

}  // namespace ct::map
