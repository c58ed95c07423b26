#include <vector>

#include <cotangent/ops/indexing/scatter_reduce_internal.h>
#include <cotangent/ops/indexing/scatter_reduce_plain.h>

// The plain kernels: scatter_reduce_plain.h for each element of x, with the list of what goes there.

namespace ct::scatter_reduce_op {
namespace {

using namespace plain;

// Calls f(i, list) for each element i of x that some element of the source goes to: the list of those.
template <class F>
void for_each_place(const Call& call, F&& f) {
  std::vector<std::vector<std::int64_t>> places(static_cast<std::size_t>(call.rows.rows));
  for (std::int64_t q = 0; q < call.rows.count; ++q) {
    const auto [base, index] = call.rows.place(q);
    if (!call.rows.in_range(index)) throw_index_error(call.site, index, call.rows.limit);
    places[static_cast<std::size_t>(base + index * call.rows.axis_step)].push_back(q);
  }
  std::vector<std::int64_t> list;
  for (std::size_t v = 0; v < places.size(); ++v)
    for (std::int64_t c = 0; c < call.columns && !places[v].empty(); ++c) {
      list = places[v];
      for (std::int64_t& q : list) q = q * call.columns + c;
      f(static_cast<std::int64_t>(v) * call.columns + c, list);
    }
}

// The elements that meet: x's own, if it is one of them, then those of the source.
std::vector<double> elements(const Call& call, const double* x, std::int64_t i, const double* source,
                             const std::vector<std::int64_t>& list) {
  std::vector<double> v;
  if (call.include_self) v.push_back(x ? x[i] : 0);
  for (const std::int64_t j : list) v.push_back(source ? source[j] : 0);
  return v;
}

template <ScatterReduce kind>
void forward(const Forward& f) {
  forward_by(kind, f, [](const Call& call, const Tensor& source, const Tensor& result) {
    double* const y = result.data<double>();
    for_each_place(call, [&](std::int64_t i, const std::vector<std::int64_t>& list) {
      y[i] = reduce(kind, elements(call, y, i, source.data<double>(), list));
    });
  });
}

template <ScatterReduce kind>
void backward(const Backward& b) {
  backward_by(kind, b, [](const Call& call, const Spread& s) {
    const double *x = data_of<double>(s.x), *source = data_of<double>(s.source), *y = data_of<double>(s.y);
    double *const dx = data_of<double>(s.dx), *const ds = data_of<double>(s.dsource);
    for_each_place(call, [&](std::int64_t i, const std::vector<std::int64_t>& list) {
      const std::vector<double> v = elements(call, x, i, source, list);
      std::vector<double> dv(v.size());
      reduce_gradient(kind, v, y ? y[i] : 0, s.g.data<double>()[i], dv);
      std::size_t next = 0;
      if (dx) dx[i] = call.include_self ? dv[0] : 0;
      if (call.include_self) ++next;
      for (const std::int64_t j : list)
        if (ds) ds[j] = dv[next++];
    });
  });
}

}  // namespace
}  // namespace ct::scatter_reduce_op

CT_KERNELS(plain, scatter_reduce, CT_SCATTER_REDUCE_LINES(scatter_reduce_op))
