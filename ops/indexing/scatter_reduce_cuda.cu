#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/scatter/sorted_pairs_cuda.h>
#include <cotangent/ops/indexing/scatter_reduce_internal.h>

// The pairs (row, place that names it) are sorted by row, in the order of the places, so that no element has two writers.
// A thread for each pair and column looks whether its pair is the first of the row, and folds those that follow. Runs are
// long where few rows are named, as in a histogram: whole tiles of kTile pairs of one row are folded before, by a thread
// each. The kind is a number of the call: memory, not arithmetic, limits these kernels.

namespace ct::indexing_impl::scatter_reduced {
namespace {

using scatter_impl::kTile;

constexpr int kThreads = 128;

// Folded values. Elements count as 1 where they equal y, else as 0, if there is a y.
template <class T, bool product>
struct Rows {
  using C = compute_t<T>;
  using F = Fold<C, product>;
  using Carry = typename F::Carry;

  F fold;
  const unsigned *keys, *places;
  unsigned pairs, rows;
  long long columns;
  const T *source, *y;
  Carry* tiles;

  __device__ void take(Carry& carry, const T* from, long long j, long long i) const {
    const C x = gpu::to_compute(from[j]);
    fold.take(carry, y ? static_cast<C>(same(x, gpu::to_compute(y[i]))) : x);
  }
  __device__ void take(Carry& carry, unsigned pair, long long column, long long i) const {
    take(carry, source, __ldg(places + pair) * columns + column, i);
  }
  // The first pair behind those of the row of pair `first`: looked for in strides that double, then halve.
  __device__ unsigned end_of(unsigned first) const {
    const unsigned key = __ldg(keys + first);
    const auto is_in = [&](unsigned pair) { return pair < pairs && __ldg(keys + pair) == key; };
    unsigned last = first, step = 1;
    for (; is_in(last + step); step *= 2) last += step;
    for (; step > 0; step /= 2)
      if (is_in(last + step)) last += step;
    return last + 1;
  }
};

// Results of a row: y, from x, or the inputs of slope(), and the gradient of x.
template <class T>
struct Results {
  using C = compute_t<T>;
  ScatterReduce kind;
  bool include_self;
  T* y;
  const T *x, *g;
  C *value, *aux;
  T* dx;
};

template <class T, bool product>
__global__ void __launch_bounds__(kThreads) tile_kernel(const __grid_constant__ Rows<T, product> r) {
  const long long at = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  const long long tile = at / r.columns, column = at - tile * r.columns;
  if (tile >= r.pairs / kTile) return;
  const unsigned begin = static_cast<unsigned>(tile) * kTile, key = __ldg(r.keys + begin);
  if (key == r.rows || __ldg(r.keys + begin + kTile - 1) != key) return;
  auto carry = r.fold.none();
  for (unsigned pair = begin; pair < begin + kTile; ++pair)
    r.take(carry, pair, column, key * r.columns + column);
  r.tiles[at] = carry;
}

template <class T, bool product>
__global__ void __launch_bounds__(kThreads)
    row_kernel(const __grid_constant__ Rows<T, product> r, const __grid_constant__ Results<T> to) {
  using C = compute_t<T>;
  const long long at = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  const long long first = at / r.columns, column = at - first * r.columns;
  if (first >= r.pairs) return;
  const unsigned key = __ldg(r.keys + first);
  if (key == r.rows || (first > 0 && __ldg(r.keys + first - 1) == key)) return;
  const unsigned end = r.end_of(static_cast<unsigned>(first));
  const long long i = key * r.columns + column, n = end - first + to.include_self;
  auto carry = r.fold.none();
  if (r.source) {
    if (to.include_self) r.take(carry, to.x, i, i);
    for (unsigned pair = static_cast<unsigned>(first); pair < end;) {
      if (pair % kTile == 0 && end - pair >= kTile) {
        r.fold.merge(carry, r.tiles[pair / kTile * r.columns + column]);
        pair += kTile;
      } else {
        r.take(carry, pair++, column, i);
      }
    }
  }
  if (to.y) {
    to.y[i] = gpu::from_compute<T>(r.fold.result(carry, n));
    return;
  }
  if constexpr (std::is_floating_point_v<C>) {
    C value = 0, aux = static_cast<C>(n);
    if constexpr (product) {
      const auto others = fold::OtherFactors<C>::of(carry);
      value = others.y, aux = others.aux;
    } else if (r.y) {
      value = gpu::to_compute(r.y[i]), aux = carry;
    }
    to.value[i] = value, to.aux[i] = aux;
    if (!to.dx) return;
    const C x = to.x ? gpu::to_compute(to.x[i]) : C(0);
    to.dx[i] = gpu::from_compute<T>(to.include_self ? slope(to.kind, gpu::to_compute(to.g[i]), x, value, aux)
                                                    : C(0));
  }
}

// The gradient of each element of the source.
template <class T>
__global__ void __launch_bounds__(kThreads)
    source_kernel(const __grid_constant__ scatter_impl::Selection places, long long columns,
                  const T* __restrict__ source, const __grid_constant__ Results<T> to,
                  T* __restrict__ dsource) {
  using C = compute_t<T>;
  const long long j = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  const long long q = j / columns, column = j - q * columns;
  if (q >= places.count) return;
  const scatter_impl::Selection::Place place = places.place(q);
  C gradient = 0;
  if (places.in_range(place.index)) {
    const long long i = (place.base + place.index * places.axis_step) * columns + column;
    gradient = slope(to.kind, gpu::to_compute(to.g[i]), source ? gpu::to_compute(source[j]) : C(0),
                     to.value[i], to.aux[i]);
  }
  dsource[j] = gpu::from_compute<T>(gradient);
}

// Folds what `source` has, if it is defined, and counts the pairs.
template <class T, bool product>
void run(const Call& call, const IndexSite* site, ScatterReduce folded, const T* source, const T* equals,
         const Results<T>& to) {
  using R = Rows<T, product>;
  const char* const op = call.site.op;
  const std::int64_t tiles = call.rows.count / kTile * call.columns;
  const scatter_impl::SortedPairs pairs(op, site, call.rows,
                                        static_cast<std::size_t>(tiles) * sizeof(typename R::Carry));
  if (call.rows.rows * call.columns == 0) return;  // indices are checked
  const R r{{folded},     pairs.keys(), pairs.places(),
            pairs.size(), pairs.rows,   call.columns,
            source,       equals,       reinterpret_cast<typename R::Carry*>(pairs.more)};
  if (source) gpu::launch(op, tile_kernel<T, product>, gpu::blocks_for(op, tiles, kThreads), kThreads, 0, r);
  gpu::launch(op, row_kernel<T, product>, gpu::blocks_for(op, call.rows.count * call.columns, kThreads),
              kThreads, 0, r, to);
}

void fold_cuda(const Call& call, const Tensor& source, const Tensor& result) {
  const auto go = [&]<class T>(TypeTag<T>) {
    T* const y = data_of<T>(result);
    const Results<T> to{call.kind, call.include_self, y, y, nullptr, nullptr, nullptr, nullptr};
    if constexpr (std::is_floating_point_v<compute_t<T>>)
      if (call.kind == ScatterReduce::prod)
        return run<T, true>(call, &call.site, call.kind, data_of<T>(source), nullptr, to);
    run<T, false>(call, &call.site, call.kind, data_of<T>(source), nullptr, to);
  };
  if (result.dtype() == DType::i64) return go(TypeTag<std::int64_t>{});
  visit_floating(call.site.op, result.dtype(), go);
}

void spread_cuda(const Call& call, const Spread& s) {
  visit_floating(call.site.op, s.g.dtype(), [&]<class T>(TypeTag<T>) {
    using C = compute_t<T>;
    const std::int64_t size = s.g.numel() * static_cast<std::int64_t>(sizeof(C));
    const Tensor value = Tensor::allocate({size}, DType::u8, s.g.device()),
                 aux = Tensor::allocate({size}, DType::u8, s.g.device());
    const Results<T> to{call.kind,       call.include_self, nullptr,         data_of<T>(s.x),
                        data_of<T>(s.g), data_of<C>(value), data_of<C>(aux), data_of<T>(s.dx)};
    const T* const source = data_of<T>(s.source);
    if (call.kind == ScatterReduce::prod)
      run<T, true>(call, nullptr, call.kind, source, nullptr, to);
    else if (call.kind != ScatterReduce::sum || (to.dx && !to.include_self))
      run<T, false>(call, nullptr, ScatterReduce::sum, source, data_of<T>(s.y), to);
    if (s.dsource.defined())
      gpu::launch(call.site.op, source_kernel<T>,
                  gpu::blocks_for(call.site.op, call.rows.count * call.columns, kThreads), kThreads, 0,
                  call.rows, call.columns, source, to, data_of<T>(s.dsource));
  });
}

template <ScatterReduce kind>
void forward(const Forward& f) {
  forward_by(kind, f, fold_cuda);
}
template <ScatterReduce kind>
void backward(const Backward& b) {
  backward_by(kind, b, spread_cuda);
}

}  // namespace
}  // namespace ct::indexing_impl::scatter_reduced

CT_KERNELS(cuda, scatter_reduce, CT_SCATTER_REDUCE_LINES(indexing_impl::scatter_reduced))
