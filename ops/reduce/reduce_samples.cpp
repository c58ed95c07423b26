#include <algorithm>
#include <cmath>
#include <limits>

#include <cotangent/ops/reduce/reduce_internal.h>

namespace ct::reduction {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// One output (value, and the second result of those that have one) from the elements in logical order.
struct Pair {
  double value;
  double second;
};

double sum_of(const std::vector<double>& x) {
  double s = 0;
  for (const double v : x) s += v;
  return s;
}

Pair extremum(const std::vector<double>& x, bool smallest) {
  Pair best{x[0], 0};
  for (std::size_t i = 1; i < x.size() && !std::isnan(best.value); ++i)
    if (std::isnan(x[i]) || (smallest ? x[i] < best.value : x[i] > best.value))
      best = {x[i], static_cast<double>(i)};
  return best;
}

double norm_of(const std::vector<double>& x, double p) {
  std::vector<double> sizes = x;
  for (double& v : sizes) v = std::abs(v);
  if (std::isinf(p)) return extremum(sizes, p < 0).value;
  for (double& v : sizes) v = p == 0 ? static_cast<double>(v != 0) : std::pow(v, p);
  return p == 0 ? sum_of(sizes) : std::pow(sum_of(sizes), 1 / p);
}

template <Kind kind>
Pair reduce_one(const std::vector<double>& x, double number) {
  const double n = static_cast<double>(x.size());
  if constexpr (kind == Kind::sum) {
    return {sum_of(x), 0};
  } else if constexpr (kind == Kind::mean) {
    return {sum_of(x) / n, 0};
  } else if constexpr (kind == Kind::prod) {
    double p = 1;
    for (const double v : x) p *= v;
    return {p, 0};
  } else if constexpr (kind == Kind::any || kind == Kind::all) {
    const auto differs = [](double v) { return v != 0; };
    return {static_cast<double>(kind == Kind::any ? std::any_of(x.begin(), x.end(), differs)
                                                  : std::all_of(x.begin(), x.end(), differs)),
            0};
  } else if constexpr (kind == Kind::var || kind == Kind::std) {
    const double mean = sum_of(x) / n;
    double squares = 0;
    for (const double v : x) squares += (v - mean) * (v - mean);
    const double var = squares / std::max(0.0, n - number);
    return {kind == Kind::var ? var : std::sqrt(var), mean};
  } else if constexpr (kind == Kind::norm) {
    return {norm_of(x, number), 0};
  } else if constexpr (kind == Kind::logsumexp) {
    if (x.empty()) return {-std::numeric_limits<double>::infinity(), 0};
    const double max = extremum(x, false).value;
    if (std::isinf(max) || std::isnan(max)) return {max, 0};
    double s = 0;
    for (const double v : x) s += std::exp(v - max);
    return {std::log(s) + max, 0};
  } else {
    const bool smallest = kind == Kind::amin || kind == Kind::min || kind == Kind::argmin;
    const Pair best = extremum(x, smallest);
    return kind == Kind::argmax || kind == Kind::argmin ? Pair{best.second, 0} : best;
  }
}

constexpr bool has_axis_only(Kind kind) { return kind == Kind::max || kind == Kind::min; }
constexpr bool has_second(Kind kind) { return has_axis_only(kind) || kind == Kind::var || kind == Kind::std; }
constexpr bool needs_elements(Kind kind) {
  return has_axis_only(kind) || kind == Kind::amax || kind == Kind::amin || kind == Kind::argmax ||
         kind == Kind::argmin;
}

// The numbers (corrections, orders) that a kind is tried with.
template <Kind kind>
std::vector<double> numbers() {
  const double inf = std::numeric_limits<double>::infinity();
  if constexpr (kind == Kind::var || kind == Kind::std) return {1, 0};
  if constexpr (kind == Kind::norm) return {2, 1, inf, -inf, 3, 2.5, 0};
  return {0};
}

Attrs over(const Dims& axes, bool keepdim, double number) {
  Attrs attrs;
  attrs.axes = axes;
  attrs.keepdim = keepdim;
  attrs.number = number;
  return attrs;
}

}  // namespace

template <Kind kind>
std::vector<Tensor> reference(std::span<const Tensor> inputs, AttrsView attrs_view) {
  const Attrs& attrs = *static_cast<const Attrs*>(attrs_view.data);
  const Tensor& x = inputs[0];
  const AxisMask mask = axis_mask("reference", attrs.axes, x.dim());
  Shape shape;
  for (int i = 0; i < x.dim(); ++i) {
    const bool reduced = mask >> i & 1u;
    if (reduced && attrs.keepdim) shape.push_back(1);
    if (!reduced) shape.push_back(x.shape()[i]);
  }
  const std::vector<double> values = x.to_vector<double>();
  std::vector<std::vector<double>> groups(static_cast<std::size_t>(numel(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i), k = 0, step = 1;
    for (int a = x.dim() - 1; a >= 0; --a) {
      if (!(mask >> a & 1u)) {
        k += rest % x.shape()[a] * step;
        step *= x.shape()[a];
      }
      rest /= x.shape()[a];
    }
    groups[static_cast<std::size_t>(k)].push_back(values[i]);
  }
  const Tensor value = Tensor::allocate(shape, DType::f64, Device{});
  const Tensor second = Tensor::allocate(shape, DType::f64, Device{});
  for (std::size_t k = 0; k < groups.size(); ++k) {
    const Pair pair = reduce_one<kind>(groups[k], attrs.number);
    static_cast<double*>(value.raw_data())[k] = pair.value;
    static_cast<double*>(second.raw_data())[k] = pair.second;
  }
  if (kind == Kind::logsumexp) return {value, value};
  if (has_second(kind)) return {value, second};
  return {value};
}

template <Kind kind>
std::vector<Sample> samples(SampleMaker& make) {
  std::vector<Sample> out;
  const auto add = [&](const Tensor& x, const Dims& axes, bool keepdim, double number, const char* label,
                       bool smooth = true) {
    if (has_axis_only(kind) && axes.size() != 1) return;
    out.push_back({{x}, over(axes, keepdim, number), label, smooth});
  };
  for (const double number : numbers<kind>()) {
    const bool smooth = !(kind == Kind::norm && number == 0);
    add(make.normal({5, 7}), {}, false, number, "all", smooth);
    add(make.normal({5, 7}), {1}, false, number, "rows", smooth);
    add(make.normal({5, 7}), {0}, true, number, "columns", smooth);
    add(make.normal({3, 4, 5}), {-2}, false, number, "middle axis", smooth);
    add(make.normal({3, 4, 5}), {2, 0}, true, number, "outer axes", smooth);
    add(make.normal({2, 3, 2, 3, 2}), {0, 2, 4}, false, number, "axes that do not merge", smooth);
    if (kind == Kind::prod) continue;  // a product of many factors says little in 16 bits
    add(make.normal({3, 70}), {1}, false, number, "long rows", smooth);
    add(make.normal({70, 33}), {0}, false, number, "long columns", smooth);
  }
  const double number = numbers<kind>()[0];
  const bool one = kind == Kind::var || kind == Kind::std;  // with one element they are not a number
  add(make.normal({}), {}, false, one ? 0 : number, "scalar", !one);
  add(make.normal({}), {0}, true, one ? 0 : number, "scalar along axis 0", !one);
  add(make.normal({4, 1}), {1}, false, one ? 0 : number, "axis of size 1", !one);
  add(make.normal({0, 3}), {1}, false, number, "no outputs");
  if (!needs_elements(kind)) {
    add(make.normal({0, 3}), {0}, false, number, "no elements");
    add(make.normal({0}), {}, true, number, "no elements at all");
  }
  add(make.values({2, 4}, {1, 3, 3, -3, -2, -2, -2, -2}), {1}, false, number, "equal elements", false);
  if (kind == Kind::amax || kind == Kind::amin)  // shared by two, a gradient is what central differences say
    add(make.values({2, 4}, {3, -3, 3, -3, 2, -1, -1, 2}), {1}, false, number, "pairs of equal elements",
        false);
  add(make.values({3, 3}, {2, 0, 3, 0, 1, 0, 1, 2, 3}), {1}, false, number, "zeros", kind == Kind::prod);
  if (kind == Kind::norm) {
    add(make.values({2, 3}, {0, 0, 0, 0, 0, 1}), {1}, false, 2, "norm of nothing but zeros", false);
    add(make.values({2, 3}, {0, 0, 0, 0, 0, 1}), {1}, false, 3, "norm of order 3 of zeros", false);
  }
  if (kind == Kind::logsumexp) {
    add(make.values({2, 2}, {300, 301, -300, -302}), {1}, false, 0, "far from 0");
    const double inf = std::numeric_limits<double>::infinity();
    add(make.values({2, 2}, {-inf, 1, -inf, -inf}), {1}, false, 0, "minus infinity", false);
  }
  return out;
}

template <Kind kind>
std::vector<ErrorSample> error_samples(SampleMaker& make) {
  const double number = numbers<kind>()[0];
  std::vector<ErrorSample> out;
  out.push_back({{make.normal({2, 3})}, over({2}, false, number), "axis"});
  out.push_back({{make.normal({2, 3})}, over({-3}, false, number), "axis"});
  out.push_back({{make.normal({2, 3})},
                 over({1, -1}, false, number),
                 has_axis_only(kind) ? "axis" : "axis -1 is named twice"});
  if (needs_elements(kind)) {
    out.push_back({{make.normal({3, 0})}, over({1}, false, number), "no elements"});
  }
  if (has_axis_only(kind)) out.push_back({{make.normal({2, 3})}, over({0, 1}, false, 0), "one is wanted"});
  if (kind == Kind::norm) {
    out.push_back({{make.normal({2, 3})}, over({}, false, kNan), "p is nan"});
    out.push_back(
        {{make.normal({0})}, over({}, false, std::numeric_limits<double>::infinity()), "no elements"});
  }
  return out;
}

#define CT_INSTANTIATE(kind)                                                                           \
  template std::vector<Tensor> reference<Kind::kind>(std::span<const Tensor> inputs, AttrsView attrs); \
  template std::vector<Sample> samples<Kind::kind>(SampleMaker & make);                                \
  template std::vector<ErrorSample> error_samples<Kind::kind>(SampleMaker & make);
CT_INSTANTIATE(sum)
CT_INSTANTIATE(mean)
CT_INSTANTIATE(prod)
CT_INSTANTIATE(amax)
CT_INSTANTIATE(amin)
CT_INSTANTIATE(any)
CT_INSTANTIATE(all)
CT_INSTANTIATE(max)
CT_INSTANTIATE(min)
CT_INSTANTIATE(argmax)
CT_INSTANTIATE(argmin)
CT_INSTANTIATE(var)
CT_INSTANTIATE(std)
CT_INSTANTIATE(norm)
CT_INSTANTIATE(logsumexp)
#undef CT_INSTANTIATE

}  // namespace ct::reduction
