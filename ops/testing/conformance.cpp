#include <cotangent/ops/testing/conformance.h>

#include <algorithm>
#include <cmath>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/testing/conformance_internal.h>
#include <cotangent/ops/testing/gradcheck.h>

namespace ct {
namespace {

using namespace testing::conformance;

class Checker {
 public:
  Checker(const OpDef& op, const OpTests& tests, const ConformanceOptions& options)
      : op_(op), tests_(tests), options_(options) {
    report_.op = &op;
  }

  ConformanceReport run() {
    SampleMaker make(options_.seed);
    Kernels plain = kernels_of(op_, KernelKind::plain);
    if (tests_.oracle)
      for (const KernelEntry& entry : std::span(tests_.oracle->entries, tests_.oracle->size))
        if (std::string_view(entry.op) == op_.name) plain = entry.kernels;
    has_plain_ = plain.forward != kernels_of(op_, KernelKind::cpu).forward;
    if (has_plain_) plain_op_.plain = plain, plain_op_.fast_f64 = false;
    if (!has_plain_ && tests_.reference == nullptr)
      report_.failures.emplace_back("the op has neither a reference nor plain kernels");
    if (tests_.samples) samples_ = tests_.samples(make);
    if (samples_.empty())
      report_.failures.emplace_back(
          "the op has no samples; its NAME_samples.cpp brings them (CT_OP_TESTS), or the caller an OpTests");
    std::vector<Device> devices = options_.devices;
    if (devices.empty()) {
      devices.push_back(cpu);
      if (cuda_is_available()) devices.push_back(cuda(0));
    }
    BadCalls bad_calls(op_, tests_, samples_, report_);
    for (const Device device : devices) {
      for (int t = 0; t < kDTypeCount; ++t) check_dtype(device, static_cast<DType>(t));
      bad_calls.check(make, device);
    }
    return std::move(report_);
  }

 private:
  template <class F>
  void guarded(const std::string& where, F&& f) {
    ++report_.checks;
    try {
      if (std::string problem = f(); !problem.empty()) report_.failures.push_back(where + ": " + problem);
    } catch (const std::exception& e) { report_.failures.push_back(where + ": threw " + e.what()); }
  }

  void check_dtype(Device device, DType dtype) {
    if (!(op_.dtypes & dtype_bit(dtype))) return;
    const auto& only = options_.dtypes;
    if (!only.empty() && std::find(only.begin(), only.end(), dtype) == only.end()) return;
    ConformanceRow row{device, dtype, true, op_.differentiable && is_floating(dtype)};
    for (std::size_t s = 0; s < samples_.size(); ++s) {
      const Sample& sample = samples_[s];
      const std::string where =
          detail::cat("sample ", s, sample.label[0] ? " (" : "", sample.label, sample.label[0] ? ")" : "",
                      " on ", to_string(device), " in ", dtype);
      std::size_t before = report_.failures.size();
      check_forward(sample, device, dtype, where);
      row.forward = row.forward && report_.failures.size() == before;
      if (!op_.differentiable || !is_floating(dtype) || !options_.gradients) continue;
      before = report_.failures.size();
      check_backward(sample, device, dtype, where);
      row.backward = row.backward && report_.failures.size() == before;
    }
    report_.rows.push_back(row);
  }

  void check_forward(const Sample& sample, Device device, DType dtype, const std::string& where) {
    NoGrad guard;
    const Tensors inputs = convert(op_, sample.inputs, dtype, device);
    Tensors first;
    guarded(where, [&]() -> std::string {
      first = call(op_, inputs, sample.attrs);
      if (!tests_.reference && runs_plain(device, dtype))
        return {};  // held to central differences and to the rule
      Tensors wide;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Tensor& t = inputs[i];
        wide.push_back(t.defined() ? t.to(cpu) : t);
        if (t.defined() && !mask_bit(op_.free_dtype_inputs, i))
          wide[i] = wide[i].to(f64);
        else if (t.defined() && is_floating(t.dtype()))
          wide[i] = wide[i].to(f64);
      }
      const Tensors want =
          tests_.reference ? tests_.reference(wide, sample.attrs.view()) : call(oracle(), wide, sample.attrs);
      for (std::size_t k = 0; k < want.size() && k < first.size(); ++k) {
        if (!want[k].defined()) continue;
        // Integer inputs of ops that compute in f32 (mean, exp) are judged as f32; a wider result of 16-bit
        // inputs (a loss) as those, for what lies between may be rounded to them.
        const double tol =
            std::max(tolerance(first[k].dtype()),
                     is_floating(dtype) && is_floating(first[k].dtype()) ? tolerance(dtype) : 0) *
            tests_.tolerance_scale;
        if (std::string d = difference(first[k], want[k], tol); !d.empty())
          return detail::cat("output ", k, ": ", d);
      }
      return {};
    });
    if (first.empty()) return;
    guarded(where, [&] { return cost_problem(op_, inputs, first, sample.attrs); });
    const double tol = tolerance(dtype) * tests_.tolerance_scale;
    for (const Layout layout : {Layout::strided, Layout::transposed}) {
      guarded(where, [&]() -> std::string {
        const Tensors again = call(op_, lay_out(inputs, layout), sample.attrs);
        for (std::size_t k = 0; k < first.size(); ++k)
          if (std::string d = difference(again[k], first[k], tol); !d.empty())
            return detail::cat(name_of(layout), " inputs change output ", k, ": ", d);
        return {};
      });
    }
    const int threads = num_threads();
    if (device.is_cpu()) set_num_threads(threads == 1 ? 3 : 1);
    guarded(where, [&]() -> std::string {
      const Tensors again = call(op_, inputs, sample.attrs);
      for (std::size_t k = 0; k < first.size(); ++k)
        if (!same_bits(again[k], first[k])) return detail::cat("a second run gave other bits in output ", k);
      return {};
    });
    if (device.is_cpu()) set_num_threads(threads);
  }

  void check_backward(const Sample& sample, Device device, DType dtype, const std::string& where) {
    const Tensors inputs = convert(op_, sample.inputs, dtype, device);
    std::uint32_t all = 0;
    for (std::size_t i = 0; i < inputs.size() && i < 31; ++i)
      if (takes_gradient(op_, i, inputs[i])) all |= 1u << i;
    if (inputs.size() > 31) all |= 1u << 31;
    if (all == 0) return;

    Tensors cotangents;
    Gradients full;
    guarded(where, [&]() -> std::string {
      {
        NoGrad guard;
        SampleMaker make(options_.seed + 7);
        const Tensors outputs = call(op_, inputs, sample.attrs);
        for (std::size_t k = 0; k < outputs.size(); ++k) {
          const bool flows = mask_bit(op_.differentiable_outputs, k) && is_floating(outputs[k].dtype());
          cotangents.push_back(
              flows ? make.normal(outputs[k].shape()).to(outputs[k].device(), outputs[k].dtype()) : Tensor{});
        }
      }
      full = differentiate(op_, inputs, sample.attrs, cotangents, all);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!mask_bit(all, i) || !takes_gradient(op_, i, inputs[i])) continue;
        if (!full.grads[i].defined()) return detail::cat("input ", i, " got no gradient");
        if (!(full.grads[i].shape() == inputs[i].shape()) || full.grads[i].dtype() != inputs[i].dtype())
          return detail::cat("the gradient of input ", i, " is ", describe(full.grads[i]));
      }
      return {};
    });
    if (full.grads.empty()) return;

    if (dtype == f64) check_differences(sample, inputs, where);
    const bool alike = has_plain_ ? runs_plain(device, dtype) : dtype == f64 && device.is_cpu();
    if (!alike) {
      guarded(where, [&]() -> std::string {
        Tensors wide, wide_cotangents;
        for (const Tensor& t : inputs)
          wide.push_back(!t.defined() ? t : is_floating(t.dtype()) ? t.to(cpu).to(f64) : t.to(cpu));
        for (const Tensor& t : cotangents) wide_cotangents.push_back(t.defined() ? t.to(cpu).to(f64) : t);
        const Gradients want = differentiate(oracle(), wide, sample.attrs, wide_cotangents, all);
        // Saved results are rounded to the dtype, hence the factor.
        const double tol = 4 * tolerance(dtype) * tests_.tolerance_scale;
        return compare_grads(full, want, tol, has_plain_ ? "against the plain kernels" : "against f64");
      });
    }
    const double tol = 4 * tolerance(dtype) * tests_.tolerance_scale;
    guarded(where, [&] {
      const Gradients g = differentiate(op_, lay_out(inputs, Layout::transposed), sample.attrs,
                                        lay_out(cotangents, Layout::transposed), all);
      return compare_grads(g, full, tol, "with transposed inputs and cotangents");
    });
    guarded(where, [&] {
      const Gradients g = differentiate(op_, lay_out(inputs, Layout::strided), sample.attrs,
                                        lay_out(cotangents, Layout::strided), all);
      return compare_grads(g, full, tol, "with strided inputs and cotangents");
    });
    guarded(where, [&] {
      Tensors constant;
      for (const Tensor& t : cotangents) {
        if (!t.defined()) {
          constant.push_back(t);
          continue;
        }
        Tensor one = Tensor::allocate({}, t.dtype(), t.device());
        one.fill_(0.75);
        constant.push_back(one.expand(t.shape()));
      }
      Tensors plain;
      for (const Tensor& t : constant) plain.push_back(t.defined() ? t.clone() : t);
      const Gradients want = differentiate(op_, inputs, sample.attrs, plain, all);
      const Gradients g = differentiate(op_, inputs, sample.attrs, constant, all);
      return compare_grads(g, want, tol, "with an expanded cotangent");
    });
    const int threads = num_threads();
    if (device.is_cpu()) set_num_threads(threads == 1 ? 3 : 1);
    guarded(where, [&]() -> std::string {
      const Gradients again = differentiate(op_, inputs, sample.attrs, cotangents, all);
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (!same_bits(again.grads[i], full.grads[i]))
          return detail::cat("a second run gave other bits in gradient ", i);
      return {};
    });
    if (device.is_cpu()) set_num_threads(threads);
    const double rule_tol = dtype == f64 ? 5 * tol : tol;
    if (op_.rule) check_rule(sample, inputs, cotangents, full, all, rule_tol, where);
    check_subsets(sample, inputs, cotangents, full, all, tol, rule_tol, where);
    guarded(where, [&]() -> std::string {
      const Gradients twice = differentiate(op_, inputs, sample.attrs, cotangents, all, 2);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!twice.grads[i].defined()) continue;
        NoGrad guard;
        const std::vector<double> got = twice.grads[i].to_vector<double>(),
                                  once = full.grads[i].to_vector<double>();
        for (std::size_t j = 0; j < got.size(); ++j)
          if (std::isfinite(once[j]) && std::isfinite(got[j]) &&
              std::abs(got[j] - 2 * once[j]) > tol * (1 + 2 * std::abs(once[j])))
            return detail::cat("two passes accumulate ", got[j], " in gradient ", i, ", want ", 2 * once[j]);
      }
      return {};
    });
  }

  // The gradient, and that of the rule, against central differences. Inputs that take no gradient (weights of a
  // loss) are constants of the function.
  void check_differences(const Sample& sample, const Tensors& inputs, const std::string& where) {
    if (!sample.smooth) return;
    Tensors variables;
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!takes_gradient(op_, i, inputs[i])) continue;
      variables.push_back(inputs[i]);
      elements += inputs[i].numel();
    }
    const GradcheckFunction f = [&](const Tensors& in) {
      Tensors all = inputs;
      std::size_t next = 0;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (takes_gradient(op_, i, inputs[i])) all[i] = in[next++];
      return call(op_, all, sample.attrs);
    };
    GradcheckOptions options{.seed = options_.seed + 13, .max_elements = 64, .all_devices = false};
    options.atol *= tests_.tolerance_scale;
    options.rtol *= tests_.tolerance_scale;
    guarded(where, [&] { return gradcheck(f, variables, options).message; });
    constexpr std::int64_t kSmall = 512;  // each difference of second order goes through all of them
    if (!op_.rule || elements == 0 || elements > kSmall) return;
    options.max_elements = 8;
    guarded(where, [&]() -> std::string {
      const std::string problem = gradgradcheck(f, variables, options).message;
      return problem.empty() ? problem : "second derivatives: " + problem;
    });
  }

  // The rule against the backward kernel. It rounds after each of its ops; in 16 bits these compute in f32.
  void check_rule(const Sample& sample, const Tensors& inputs, const Tensors& cotangents,
                  const Gradients& full, std::uint32_t all, double tol, const std::string& where) {
    guarded(where, [&] {
      return compare_grads(differentiate_recorded(op_, inputs, sample.attrs, cotangents, all), full, tol,
                           "by the rule");
    });
    guarded(where, [&] {
      return check_special_points(op_, inputs, sample.attrs, cotangents, all, tol, !tests_.ordinary_rule,
                                  options_.seed + 17, options_.volume);
    });
  }

  // Every proper subset of the inputs that want a gradient (if there are many, each alone and all but each).
  void check_subsets(const Sample& sample, const Tensors& inputs, const Tensors& cotangents,
                     const Gradients& full, std::uint32_t all, double tol, double rule_tol,
                     const std::string& where) {
    const bool few = inputs.size() <= 5;
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(inputs.size(), 31));
    for (std::uint32_t n = 0; n < (few ? 1u << count : 2 * count); ++n) {
      const std::uint32_t subset = few ? n : n < count ? 1u << n : all & ~(1u << (n - count));
      if ((subset & all) != subset || subset == all || subset == 0) continue;
      const auto compare = [&](const Gradients& g, double allowed, const char* by) -> std::string {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const bool wanted = mask_bit(subset, i) && takes_gradient(op_, i, inputs[i]);
          if (g.grads[i].defined() != wanted)
            return detail::cat("subset ", subset, by, ": gradient ", i,
                               wanted ? " is missing" : " was not asked for");
          if (!wanted) continue;
          if (std::string d = difference(g.grads[i], full.grads[i], allowed); !d.empty())
            return detail::cat("subset ", subset, by, " changes gradient ", i, ": ", d);
        }
        return {};
      };
      guarded(where,
              [&] { return compare(differentiate(op_, inputs, sample.attrs, cotangents, subset), tol, ""); });
      if (op_.rule)
        guarded(where, [&] {
          return compare(differentiate_recorded(op_, inputs, sample.attrs, cotangents, subset), rule_tol,
                         " by the rule");
        });
    }
  }

  // Whether such a call runs the plain kernels itself.
  bool runs_plain(Device device, DType dtype) const {
    return has_plain_ && kernel_kind(op_, device, dtype) == KernelKind::plain;
  }

  // Source of the values and gradients to compare with.
  const OpDef& oracle() const { return has_plain_ ? plain_op_ : op_; }

  const OpDef& op_;
  const OpTests& tests_;
  const ConformanceOptions& options_;
  bool has_plain_ = false;
  // The same op, whose calls in f64 run its plain kernels, forward and back.
  OpDef plain_op_ = op_;
  std::vector<Sample> samples_;
  ConformanceReport report_;
};

}  // namespace

ConformanceReport check_conformance(const OpDef& op, const OpTests& tests,
                                    const ConformanceOptions& options) {
  return Checker(op, tests, options).run();
}

}  // namespace ct
