#include <cmath>
#include <limits>

#include <cotangent/ops/reduce/scans_internal.h>
#include <cotangent/ops/testing/references.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

using reduce::scans::Attrs;

enum class Kind { sum, product, logsumexp, largest, smallest, recurrence };

// One row in the plainest way: y_i from y_{i-1} and x_i.
double step(Kind kind, double before, double a, double x) {
  switch (kind) {
    case Kind::sum: return before + x;
    case Kind::product: return before * x;
    case Kind::logsumexp: {
      const double high = std::fmax(before, x);
      return std::isinf(high) ? high : high + std::log(std::exp(before - high) + std::exp(x - high));
    }
    case Kind::largest: return std::isnan(before) || before > x ? before : x;
    case Kind::smallest: return std::isnan(before) || before < x ? before : x;
    case Kind::recurrence: return a * before + x;
  }
  return 0;
}

template <Kind kind>
std::vector<Tensor> reference(std::span<const Tensor> in, AttrsView view) {
  constexpr bool finds = kind == Kind::largest || kind == Kind::smallest;
  const Attrs& attrs = *static_cast<const Attrs*>(view.data);
  const Tensor& x = in[kind == Kind::recurrence ? 1 : 0];
  const int axis = wrap_axis("reference", attrs.axis, x.dim());
  Tensor places = Tensor::allocate(x.shape(), f64, cpu);
  std::int64_t position = 0;
  // Every element walks its row up to itself.
  Tensor values = testing::by_index(x.shape(), [&](const Dims& at) {
    const std::int64_t n = x.dim() > 0 ? x.shape()[axis] : 1, i = x.dim() > 0 ? at[axis] : 0;
    const std::int64_t first = attrs.reverse ? n - 1 : 0, by = attrs.reverse ? -1 : 1;
    Dims from = at;
    double y = 0;
    std::int64_t place = 0;
    for (std::int64_t j = first;; j += by) {
      if (x.dim() > 0) from[axis] = j;
      const double now = testing::at(x, from), before = y;
      y = j == first ? now : step(kind, before, kind == Kind::recurrence ? testing::at(in[0], from) : 0, now);
      if (j == first || y != before || now == before) place = std::isnan(y) && !std::isnan(now) ? place : j;
      if (j == i) break;
    }
    places.data<double>()[position++] = static_cast<double>(place);
    return y;
  });
  if (finds) return {values, places};
  return {values};
}

template <Kind kind>
std::vector<Sample> samples(SampleMaker& make) {
  std::vector<Sample> out;
  const auto add = [&](const Tensor& x, std::int64_t axis, const char* label, bool smooth = true) {
    constexpr bool reverses = kind == Kind::sum || kind == Kind::recurrence;
    for (const bool reverse : {false, true}) {
      if (reverse && !reverses) continue;
      Sample s{{x}, Attrs{axis, reverse}, label, smooth};
      if (kind == Kind::recurrence) s.inputs.insert(s.inputs.begin(), make.uniform(x.shape(), -0.9, 0.9));
      out.push_back(std::move(s));
    }
  };
  // Products of factors near 1, sums of small numbers: 16 bits still say something. As integers not too many factors.
  constexpr std::int64_t n = kind == Kind::product ? 24 : 70;
  const auto many = [&](const Shape& shape) {
    return kind == Kind::product ? make.uniform(shape, 0.9, 1.1) : make.uniform(shape, -0.5, 0.5);
  };
  add(make.normal({7}), 0, "a vector");
  add(make.normal({3, 5}), -1, "rows");
  add(make.normal({5, 3}), 0, "columns");
  add(make.normal({2, 6, 3}), 1, "an inner axis");
  add(make.normal({4, 1}), 1, "rows of one");
  add(make.normal({}), 0, "a scalar");
  add(make.normal({0, 3}), 1, "no rows");
  add(make.normal({3, 0}), 1, "rows of none");
  add(many({n, 19}), 0, "many columns");
  add(many({3, n}), 1, "long rows");
  add(make.values({2, 4}, {1, 2, 2, -1, -2, 3, 3, 3}), 1, "equal elements",
      !(kind == Kind::largest || kind == Kind::smallest));
  if (kind == Kind::product) {
    add(make.values({2, 5}, {2, 0, 3, -1, 2, 2, 3, 0, 2, 0}), 1, "zeros");
    add(make.values({3}, {0, 0, 2}), 0, "zeros first");
  }
  if (kind == Kind::logsumexp) {
    const double inf = std::numeric_limits<double>::infinity();
    add(make.values({2, 3}, {300, 301, 299, -300, -302, -299}), 1, "far from 0");
    add(make.values({2, 3}, {-inf, -inf, 1, -inf, 2, -inf}), 1, "minus infinity", false);
  }
  return out;
}

template <Kind kind>
std::vector<ErrorSample> errors(SampleMaker& make) {
  std::vector<ErrorSample> out{{{make.normal({2, 3})}, Attrs{2}, "axis 2"},
                               {{make.normal({2, 3})}, Attrs{-3}, "axis -3"},
                               {{make.normal({})}, Attrs{1}, "axis 1"}};
  if (kind == Kind::recurrence) {
    for (ErrorSample& e : out) e.inputs.push_back(e.inputs[0]);
    out.push_back({{make.normal({2, 3}), make.normal({3})}, Attrs{0}, "must have the same shape"});
  }
  if (kind == Kind::recurrence || kind == Kind::logsumexp) {
    out.push_back({{make.mask({3}), make.mask({3})}, Attrs{0}, "supported dtypes"});
    if (kind == Kind::logsumexp) out.back().inputs.pop_back();
  }
  return out;
}

template <Kind kind>
constexpr OpTests tests(const char* op) {
  return {op, samples<kind>, errors<kind>, reference<kind>};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(scans, tests<Kind::sum>("cumsum"), tests<Kind::product>("cumprod"),
            tests<Kind::largest>("cummax"), tests<Kind::smallest>("cummin"),
            tests<Kind::logsumexp>("logcumsumexp"), tests<Kind::recurrence>("linear_recurrence"))
