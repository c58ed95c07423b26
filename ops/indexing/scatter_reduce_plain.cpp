#include <algorithm>
#include <numeric>
#include <vector>

#include <cotangent/ops/indexing/scatter_reduce_internal.h>
#include <cotangent/ops/indexing/scatter_reduce_plain.h>

// The plain kernels: forward takes the elements of the source one after the other, backward by what meets at each element of
// x, in scatter_reduce_plain.h.

namespace ct::indexing_impl::scatter_reduced {
namespace {

using namespace plain;

// The place of each row of the source.
std::vector<std::size_t> places_of(const Call& call) {
  std::vector<std::size_t> places(static_cast<std::size_t>(call.rows.count));
  for (std::size_t q = 0; q < places.size(); ++q) {
    const auto [base, index] = call.rows.place(static_cast<std::int64_t>(q));
    if (!call.rows.in_range(index)) throw_index_error(call.site, index, call.rows.limit);
    places[q] = static_cast<std::size_t>(base + index * call.rows.axis_step);
  }
  return places;
}

// Calls f(i, list) for each element i of x that some element of the source goes to: the list of those.
template <class F>
void for_each_place(const Call& call, F&& f) {
  // Rows of the source in the order of their places, sorted by counting: those of place v begin at begins[v].
  const std::vector<std::size_t> places = places_of(call);
  std::vector<std::size_t> begins(static_cast<std::size_t>(call.rows.rows) + 1);
  for (const std::size_t v : places) ++begins[v];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<std::int64_t> order(places.size()), list;
  for (std::size_t q = places.size(); q-- > 0;) order[--begins[places[q]]] = static_cast<std::int64_t>(q);
  for (std::size_t v = 0; v + 1 < begins.size(); ++v)
    for (std::int64_t c = 0; c < call.columns && begins[v] < begins[v + 1]; ++c) {
      list.clear();
      for (std::size_t k = begins[v]; k < begins[v + 1]; ++k) list.push_back(order[k] * call.columns + c);
      f(static_cast<std::int64_t>(v) * call.columns + c, list);
    }
}

template <ScatterReduce kind>
void forward(const Forward& f) {
  forward_by(kind, f, [](const Call& call, const Tensor& source, const Tensor& result) {
    const double* x = source.data<double>();
    // Elements met so far.
    std::vector<double> met(static_cast<std::size_t>(call.rows.rows), call.include_self ? 1 : 0);
    for (const std::size_t v : places_of(call)) {
      double* y = result.data<double>() + static_cast<std::int64_t>(v) * call.columns;
      for (std::int64_t c = 0; c < call.columns; ++c, ++x) y[c] = met[v] == 0 ? *x : reduced(kind, y[c], *x);
      ++met[v];
    }
    if (kind != ScatterReduce::mean) return;
    double* y = result.data<double>();
    for (const double n : met)
      for (std::int64_t c = 0; c < call.columns; ++c) *y++ /= std::max(1.0, n);
  });
}

template <ScatterReduce kind>
void backward(const Backward& b) {
  backward_by(kind, b, [](const Call& call, const Spread& s) {
    const double *x = data_of<double>(s.x), *source = data_of<double>(s.source), *y = data_of<double>(s.y);
    double *const dx = data_of<double>(s.dx), *const ds = data_of<double>(s.dsource);
    std::vector<double> v, dv;
    for_each_place(call, [&](std::int64_t i, const std::vector<std::int64_t>& list) {
      v.assign(call.include_self ? 1 : 0, x ? x[i] : 0);
      for (const std::int64_t j : list) v.push_back(source ? source[j] : 0);
      dv.resize(v.size());
      reduce_gradient(kind, v, y ? y[i] : 0, s.g.data<double>()[i], dv);
      if (dx) dx[i] = call.include_self ? dv[0] : 0;
      for (std::size_t k = 0; ds && k < list.size(); ++k) ds[list[k]] = dv[v.size() - list.size() + k];
    });
  });
}

}  // namespace
}  // namespace ct::indexing_impl::scatter_reduced

CT_KERNELS(plain, scatter_reduce, CT_SCATTER_REDUCE_LINES(indexing_impl::scatter_reduced))
