#include <limits>

#include <cotangent/ops/reduce/kinds_internal.h>
#include <cotangent/ops/testing/samples.h>

CT_ORACLE(reduce)

namespace ct {
namespace {

using namespace reduce;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr bool has_axis_only(Kind kind) { return kind == Kind::max || kind == Kind::min; }
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
  if (kind == Kind::var || kind == Kind::std)
    out.push_back({{make.normal({2, 3})}, over({0}, false, kNan), "correction is nan; it must be finite"});
  if (kind == Kind::sum || kind == Kind::mean || kind == Kind::prod) {
    Attrs attrs = over({0}, false, number);
    attrs.converts = true, attrs.dtype = DType::i64;
    out.push_back({{make.normal({2, 3})}, attrs, "can't reduce f64[2, 3] to i64 directly"});
  }
  if (kind == Kind::norm) {
    out.push_back({{make.normal({2, 3})}, over({}, false, kNan), "p is nan"});
    out.push_back(
        {{make.normal({0})}, over({}, false, std::numeric_limits<double>::infinity()), "no elements"});
  }
  return out;
}

template <Kind kind>
constexpr OpTests tests(const char* op) {
  return {op, samples<kind>, error_samples<kind>, nullptr, &oracle_kernels::reduce, 1, kind == Kind::prod};
}

}  // namespace
}  // namespace ct

CT_OP_TESTS(reduce, tests<Kind::sum>("sum"), tests<Kind::mean>("mean"), tests<Kind::prod>("prod"),
            tests<Kind::amax>("amax"), tests<Kind::amin>("amin"), tests<Kind::any>("any"),
            tests<Kind::all>("all"), tests<Kind::max>("max"), tests<Kind::min>("min"),
            tests<Kind::argmax>("argmax"), tests<Kind::argmin>("argmin"), tests<Kind::var>("var"),
            tests<Kind::std>("std"), tests<Kind::norm>("norm"), tests<Kind::logsumexp>("logsumexp"))
