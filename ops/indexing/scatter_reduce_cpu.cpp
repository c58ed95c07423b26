#include <cotangent/ops/engine/scatter/places_cpu.h>
#include <cotangent/ops/indexing/scatter_reduce_internal.h>

// A part of the table at a time is folded with all places that name a row of it, in their order: no element has two
// writers. Each kind is compiled by itself.

namespace ct::indexing_impl::scatter_reduced {
namespace {

using scatter_impl::kGrain;

// How many places name each row.
Tensor counts(const std::int64_t* row_of, const Call& call) {
  const Tensor counts = Tensor::allocate({call.rows.rows}, DType::i64, cpu);
  std::int64_t* const n = counts.data<std::int64_t>();
  std::fill_n(n, call.rows.rows, 0);
  scatter_impl::for_each_named(row_of, call.rows, sizeof *n, [n](std::int64_t, std::int64_t v) { ++n[v]; });
  return counts;
}

// Calls f(v, i) for each element i of the table, which is of row v.
template <class F>
void for_each_element(const Call& call, F f) {
  parallel_for(call.rows.rows, kGrain / call.columns,
               [=, columns = call.columns](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t v = begin; v < end; ++v)
                   for (std::int64_t i = v * columns; i < (v + 1) * columns; ++i) f(v, i);
               });
}

// Folds into each carry i what element(j, i) makes of element j of the source.
template <ScatterReduce kind, class F, class Element>
void fold_places(const std::int64_t* row_of, const Call& call, typename F::Carry* carries, Element element) {
  scatter_impl::for_each_named(
      row_of, call.rows, call.columns * static_cast<std::int64_t>(sizeof *carries),
      [=, columns = call.columns](std::int64_t q, std::int64_t v) {
        for (std::int64_t c = 0; c < columns; ++c)
          F{kind}.take(carries[v * columns + c], element(q * columns + c, v * columns + c));
      },
      4 + std::min<std::int64_t>(call.columns / 8, 60));
}

template <class T>
Tensor elements(const Call& call) {
  return Tensor::allocate({call.rows.rows * call.columns * static_cast<std::int64_t>(sizeof(T))}, DType::u8,
                          cpu);
}

template <ScatterReduce kind, class T>
void fold_rows(const Call& call, const Tensor& source, const Tensor& result) {
  using C = compute_t<T>;
  using F = Fold<C, kind == ScatterReduce::prod && std::is_floating_point_v<C>>;
  using Carry = typename F::Carry;
  constexpr bool mean = kind == ScatterReduce::mean, in_place = std::is_same_v<T, Carry>;
  const Tensor list = scatter_impl::rows_of_places(&call.site, call.rows);
  const std::int64_t* const row_of = list.data<std::int64_t>();
  if (result.numel() == 0) return;
  const bool self = call.include_self;
  const Tensor named = mean || !self ? counts(row_of, call) : Tensor();
  const std::int64_t* const n = data_of<std::int64_t>(named);
  const Tensor memory = in_place ? result : elements<Carry>(call);
  Carry* const carries = data_of<Carry>(memory);
  T* const y = data_of<T>(result);
  const T* const from = data_of<T>(source);
  if (!in_place || !self)
    for_each_element(call, [=](std::int64_t v, std::int64_t i) {
      Carry carry = F{kind}.none();
      if (self || n[v] == 0) F{kind}.take(carry, static_cast<C>(y[i]));
      carries[i] = carry;
    });
  fold_places<kind, F>(row_of, call, carries,
                       [from](std::int64_t j, std::int64_t) { return static_cast<C>(from[j]); });
  if (!in_place || mean)
    for_each_element(call, [=](std::int64_t v, std::int64_t i) {
      const std::int64_t count = mean ? std::max<std::int64_t>(1, n[v] + self) : 1;
      y[i] = static_cast<T>(F{kind}.result(carries[i], count));
    });
}

template <ScatterReduce kind, class T>
void spread_rows(const Call& call, const Spread& s) {
  using C = compute_t<T>;
  constexpr bool product = kind == ScatterReduce::prod,
                 extremum = kind == ScatterReduce::amax || kind == ScatterReduce::amin;
  const Tensor list = scatter_impl::rows_of_places(nullptr, call.rows);
  const std::int64_t* const row_of = list.data<std::int64_t>();
  const Tensor named = counts(row_of, call);
  const std::int64_t* const n = data_of<std::int64_t>(named);
  const bool self = call.include_self;
  const T *x = data_of<T>(s.x), *source = data_of<T>(s.source), *y = data_of<T>(s.y), *g = data_of<T>(s.g);

  // Inputs of slope().
  const Tensor memory[2] = {product ? elements<C>(call) : Tensor(),
                            kind != ScatterReduce::sum ? elements<C>(call) : Tensor()};
  C *const values = data_of<C>(memory[0]), *const aux = data_of<C>(memory[1]);
  if constexpr (kind == ScatterReduce::mean) {
    for_each_element(call, [=](std::int64_t v, std::int64_t i) { aux[i] = static_cast<C>(n[v] + self); });
  } else if constexpr (extremum) {
    const auto equal = [y](const T* t, std::int64_t j, std::int64_t i) {
      return static_cast<C>(same(static_cast<C>(t[j]), static_cast<C>(y[i])));
    };
    for_each_element(call, [=](std::int64_t, std::int64_t i) { aux[i] = self ? equal(x, i, i) : C(0); });
    fold_places<ScatterReduce::sum, Fold<C, false>>(
        row_of, call, aux, [=](std::int64_t j, std::int64_t i) { return equal(source, j, i); });
  } else if constexpr (product) {
    using F = Fold<C, true>;
    const Tensor folded = elements<typename F::Carry>(call);
    auto* const carries = data_of<typename F::Carry>(folded);
    for_each_element(call, [=](std::int64_t, std::int64_t i) {
      carries[i] = {};
      if (self) F{kind}.take(carries[i], static_cast<C>(x[i]));
    });
    fold_places<kind, F>(row_of, call, carries,
                         [source](std::int64_t j, std::int64_t) { return static_cast<C>(source[j]); });
    for_each_element(call, [=](std::int64_t, std::int64_t i) {
      const auto others = fold::OtherFactors<C>::of(carries[i]);
      values[i] = others.y, aux[i] = others.aux;
    });
  }

  // The gradient of t[j], an element of place i.
  const auto gradient = [=](const T* t, std::int64_t j, std::int64_t i) {
    const C value = extremum ? static_cast<C>(y[i]) : product ? values[i] : C(0);
    return static_cast<T>(
        slope(kind, static_cast<C>(g[i]), t ? static_cast<C>(t[j]) : C(0), value, aux ? aux[i] : C(1)));
  };
  if (T* const dx = data_of<T>(s.dx))
    for_each_element(call, [=](std::int64_t v, std::int64_t i) {
      if (n[v] > 0) dx[i] = self ? gradient(x, i, i) : T{};
    });
  if (T* const ds = data_of<T>(s.dsource))
    parallel_for(call.rows.count, kGrain / call.columns,
                 [=, columns = call.columns](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t q = begin; q < end; ++q)
                     for (std::int64_t c = 0; c < columns; ++c)
                       ds[q * columns + c] =
                           row_of[q] < 0 ? T{} : gradient(source, q * columns + c, row_of[q] * columns + c);
                 });
}

template <ScatterReduce kind>
void forward(const Forward& f) {
  forward_by(kind, f, [](const Call& call, const Tensor& source, const Tensor& y) {
    if (y.dtype() == DType::i64) return fold_rows<kind, std::int64_t>(call, source, y);
    visit_floating(call.site.op, y.dtype(),
                   [&]<class T>(TypeTag<T>) { fold_rows<kind, T>(call, source, y); });
  });
}

template <ScatterReduce kind>
void backward(const Backward& b) {
  backward_by(kind, b, [](const Call& call, const Spread& s) {
    visit_floating(call.site.op, s.g.dtype(), [&]<class T>(TypeTag<T>) { spread_rows<kind, T>(call, s); });
  });
}

}  // namespace
}  // namespace ct::indexing_impl::scatter_reduced

CT_KERNELS(cpu, scatter_reduce, CT_SCATTER_REDUCE_LINES(indexing_impl::scatter_reduced))
