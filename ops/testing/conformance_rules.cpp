#include <algorithm>
#include <cmath>
#include <limits>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/testing/conformance_internal.h>

// Rules held to kernels, at ordinary points and at those where formulas change their branch.

namespace ct::testing::conformance {
namespace {

using Values = std::vector<double>;

bool finite(const Values& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

// A call on the tape, back through it once: its gradients are on the tape as well, as functions of inputs and cotangents.
struct Recorded {
  Tensors leaves, wanted, weights, grads;  // grads of `wanted`, undefined where there is none

  Recorded(const OpDef& op, const Tensors& inputs, const AnyAttrs& attrs, const Tensors& cotangents,
           std::uint32_t subset) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      leaves.push_back(inputs[i].defined() ? inputs[i].detach() : Tensor{});
      if (takes_gradient(op, i, inputs[i]) && mask_bit(subset, i))
        wanted.push_back(leaves[i].set_requires_grad());
    }
    const Tensors outputs = call(op, leaves, attrs);
    Tensors roots;
    for (std::size_t k = 0; k < outputs.size() && k < cotangents.size(); ++k) {
      if (!cotangents[k].defined() || !outputs[k].requires_grad()) continue;
      roots.push_back(outputs[k]);
      weights.push_back(cotangents[k].detach().set_requires_grad());
    }
    grads = grad(roots, wanted, weights, {.allow_unused = true, .create_graph = true});
  }

  /// The derivatives of sum(directions[i] grads[i]) in `of`; zeros where it does not depend on them.
  std::vector<Values> derivatives(const Tensors& directions, const Tensors& of) const {
    Tensors roots, along;
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined() || !grads[i].requires_grad()) continue;
      roots.push_back(grads[i]);
      along.push_back(directions[i]);
    }
    Tensors found(of.size());
    if (!roots.empty()) found = grad(roots, of, along, {.retain_graph = true, .allow_unused = true});
    std::vector<Values> result;
    for (std::size_t i = 0; i < of.size(); ++i)
      result.push_back(found[i].defined() ? found[i].to_vector<double>()
                                          : Values(static_cast<std::size_t>(of[i].numel())));
    return result;
  }
};

Tensors directions_for(const Tensors& tensors, std::uint64_t seed) {
  const NoGrad guard;
  SampleMaker make(seed);
  Tensors list;
  for (const Tensor& t : tensors) list.push_back(make.normal(t.shape()).to(t.device(), t.dtype()));
  return list;
}

// sum(a b), and of the sizes of its terms.
struct Product {
  double sum = 0, size = 0;
  Product(const std::vector<Values>& a, const Tensors& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const Values other = b[i].to_vector<double>();
      for (std::size_t j = 0; j < other.size(); ++j) {
        sum += a[i][j] * other[j];
        size += std::abs(a[i][j] * other[j]);
      }
    }
  }
};

// One point of an op.
struct Point {
  const OpDef& op;
  const AnyAttrs& attrs;
  Tensors inputs, cotangents;
  std::uint32_t all;

  // The kernel's gradients, of inputs that take one.
  std::vector<Values> plain(const Tensors& at) const {
    std::vector<Values> list;
    const Gradients found = differentiate(op, at, attrs, cotangents, all);
    for (std::size_t i = 0; i < at.size(); ++i)
      if (takes_gradient(op, i, at[i]) && mask_bit(all, i))
        list.push_back(found.grads[i].to_vector<double>());
    return list;
  }

  std::string check(std::uint64_t seed, double tol, bool extreme, bool second) const {
    const std::vector<Values> want = plain(inputs);
    double largest = 0;  // what is left of large numbers may be as large as their rounding
    bool all_finite = true;
    if (extreme)
      for (const Tensor& t : inputs)
        if (t.defined() && is_floating(t.dtype()))
          for (const double v : t.to_vector<double>()) {
            all_finite = all_finite && std::isfinite(v);
            if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
          }
    const Recorded r(op, inputs, attrs, cotangents, all);
    for (std::size_t i = 0; i < want.size(); ++i) {
      double size = largest;
      for (const double v : want[i])
        if (std::isfinite(v)) size = std::max(size, std::abs(v));
      const Values got = r.grads[i].defined() ? r.grads[i].to_vector<double>() : Values(want[i].size());
      for (std::size_t j = 0; j < got.size(); ++j) {
        all_finite = all_finite && std::isfinite(want[i][j]);
        if (std::isfinite(want[i][j]) && !(std::abs(got[j] - want[i][j]) <= tol * (1 + size)))
          return detail::cat("element ", j, " of gradient ", i, " is ", got[j], " by the rule, ", want[i][j],
                             " by the kernel (tolerance ", tol * (1 + size), ")");
      }
    }
    if (!all_finite) return {};
    const Tensors v = directions_for(r.wanted, seed + 1);
    const std::vector<Values> forward = r.derivatives(v, r.weights);
    const Product back(want, v), along(forward, r.weights);
    if (back.size < 1e4 && !(std::abs(back.sum - along.sum) <= 4 * tol * (1 + back.size + along.size)))
      return detail::cat("the derivative along a direction is ", along.sum, ", and by the gradient ",
                         back.sum);
    return second && !extreme ? check_second(r, v, want, seed) : std::string();
  }

  // Symmetric; and where differences of the gradient on both sides agree, equal to them.
  std::string check_second(const Recorded& r, const Tensors& v, const std::vector<Values>& want,
                           std::uint64_t seed) const {
    const Tensors w = directions_for(r.wanted, seed + 2);
    const std::vector<Values> along_v = r.derivatives(v, r.wanted), along_w = r.derivatives(w, r.wanted);
    for (const Values& values : along_v)
      if (!finite(values)) return "a second derivative is not finite, and the gradient is";
    const Product one(along_v, w), other(along_w, v);
    if (one.size < 1e8 && !(std::abs(one.sum - other.sum) <= 1e-9 * (1 + one.size + other.size)))
      return detail::cat("second derivatives are not symmetric: v'Hw is ", one.sum, ", w'Hv ", other.sum);
    constexpr double kStep = 1e-6;
    const auto moved = [&](double step) {
      const NoGrad guard;
      Tensors at = inputs;
      std::size_t next = 0;
      for (std::size_t i = 0; i < at.size(); ++i)
        if (takes_gradient(op, i, at[i]) && mask_bit(all, i)) at[i] = at[i].detach() + v[next++] * step;
      const EnableGrad recording;
      return plain(at);
    };
    const std::vector<Values> up = moved(kStep), down = moved(-kStep), far = moved(8 * kStep);
    for (const Values& values : far)
      if (!finite(values)) return {};  // there is no function
    for (std::size_t i = 0; i < want.size(); ++i)
      for (std::size_t j = 0; j < want[i].size(); ++j) {
        const auto slope = [&](double to, double from, double step) { return (to - from) / step; };
        const double right = slope(up[i][j], want[i][j], kStep), left = slope(want[i][j], down[i][j], kStep),
                     wide = slope(far[i][j], want[i][j], 8 * kStep), near = 1e-3 * (1 + std::abs(left));
        if (!(std::abs(right - left) <= near && std::abs(wide - left) <= near))
          continue;  // a kink, or too steep
        const double numeric = (right + left) / 2, got = along_v[i][j];
        if (!(std::abs(numeric - got) <= 2e-3 * (1 + std::abs(numeric))))
          return detail::cat("the second derivative of input ", i, " at ", j, " is ", got,
                             ", differences of the gradient give ", numeric);
      }
    return {};
  }
};

// Values to replace a sample's by: those at which formulas change their branch, the call's own numbers among them.
Values special_values(const OpDef& op, const AnyAttrs& attrs, DType dtype, bool extreme) {
  Values pool = {0, -0.0, 1, -1, 0.5, -0.5, 2, 3, -3, 6};
  const auto* bytes = static_cast<const std::byte*>(attrs.view().data);
  for (const AttrDef& attr : op.attributes) {
    if (attrs.view().size < attr.offset + std::size_t{attr.size}) continue;
    double number = 0;
    if (attr.type == AttrType::real)
      number = *reinterpret_cast<const double*>(bytes + attr.offset);
    else if (attr.type == AttrType::number)
      number = reinterpret_cast<const Scalar*>(bytes + attr.offset)->to<double>();
    if (number != 0 && std::abs(number) < 100) pool.insert(pool.end(), {number, -number});
  }
  if (!extreme) return pool;
  const bool half = dtype == f16, wide = dtype == f64;
  const double large = half ? 3e4 : wide ? 1e200 : 1e30, inf = std::numeric_limits<double>::infinity();
  pool.insert(pool.end(), {100, -100, large, -large, half ? 1e-7 : 1 / large, inf, -inf,
                           std::numeric_limits<double>::quiet_NaN()});
  return pool;
}

}  // namespace

Gradients differentiate_recorded(const OpDef& op, const Tensors& inputs, const AnyAttrs& attrs,
                                 const Tensors& cotangents, std::uint32_t wanted) {
  const Recorded r(op, inputs, attrs, cotangents, wanted);
  Gradients result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    result.grads.push_back(takes_gradient(op, i, inputs[i]) && mask_bit(wanted, i) ? r.grads[next++].detach()
                                                                                   : Tensor{});
  return result;
}

std::string check_special_points(const OpDef& op, const Tensors& inputs, const AnyAttrs& attrs,
                                 const Tensors& cotangents, std::uint32_t all, double tol, bool extremes,
                                 std::uint64_t seed, int volume) {
  std::int64_t elements = 0;
  DType dtype = f64;  // the narrowest
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!takes_gradient(op, i, inputs[i])) continue;
    elements += inputs[i].numel();
    if (size_of(inputs[i].dtype()) < size_of(dtype)) dtype = inputs[i].dtype();
  }
  constexpr std::int64_t kSmall = 256;  // cost, and the rest of a large sample is more of the same
  if (elements == 0 || elements > kSmall) return {};
  const auto at = [&](const char* what, bool extreme, auto value) -> std::string {
    Tensors moved = inputs;
    {
      const NoGrad guard;
      for (std::size_t i = 0; i < moved.size(); ++i) {
        if (!takes_gradient(op, i, moved[i])) continue;
        Values values = moved[i].to_vector<double>();
        for (double& v : values) v = value(v);
        Tensor t = Tensor::allocate(moved[i].shape(), f64, cpu);
        std::copy(values.begin(), values.end(), t.data<double>());
        moved[i] = t.to(moved[i].device(), moved[i].dtype());
      }
    }
    std::string problem;
    try {
      // Values of all sizes cancel more of what was rounded to 16 bits.
      const double allowed = is_low_precision(dtype) ? (extreme ? 16 : 4) * tol : tol;
      problem = Point{op, attrs, moved, cotangents, all}.check(seed, allowed, extreme, dtype == f64);
    } catch (const ValueError&) {}  // the op takes no such values
    return problem.empty() ? problem : detail::cat("at ", what, ": ", problem);
  };
  const auto pick = [&](std::uint64_t n, const Values& pool, double share) {
    // Draws of the generator of samples; uniform numbers choose a place in the pool.
    return [make = SampleMaker(seed + 101 * n), pool, share](double v) mutable {
      const Values drawn = make.uniform({2}, 0, 1).to_vector<double>();
      return drawn[0] < share ? pool[static_cast<std::size_t>(drawn[1] * static_cast<double>(pool.size()))]
                              : v;
    };
  };
  if (std::string s = at("0", false, [](double) { return 0.0; }); !s.empty()) return s;
  if (std::string s = at("1", false, [](double) { return 1.0; }); !s.empty()) return s;
  const Values tame = special_values(op, attrs, dtype, false), wild = special_values(op, attrs, dtype, true);
  for (std::uint64_t n = 0; n < static_cast<std::uint64_t>(volume); ++n) {
    if (std::string s = at("special values", false, pick(2 * n, tame, 0.6)); !s.empty()) return s;
    if (!extremes) continue;
    if (std::string s = at("extreme values", true, pick(2 * n + 1, wild, 0.3)); !s.empty()) return s;
  }
  return {};
}

}  // namespace ct::testing::conformance
