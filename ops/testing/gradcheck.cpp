#include <cotangent/ops/testing/gradcheck.h>

#include <algorithm>
#include <cmath>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/ops/testing/layout_copy_internal.h>
#include <cotangent/ops/testing/samples.h>

namespace ct {
namespace {

bool is_checked(const Tensor& t) { return t.defined() && t.dtype() == DType::f64; }

// Sets the element at row-major position `position`, wherever the tensor lives.
void set_element(const Tensor& t, std::int64_t position, double value) {
  std::int64_t offset = 0;
  for (int i = t.dim() - 1; i >= 0; --i) {
    offset += position % t.shape()[i] * t.strides()[i];
    position /= t.shape()[i];
  }
  copy_bytes(static_cast<double*>(t.raw_data()) + offset, t.device(), &value, Device{}, sizeof value);
}

double weighted_sum(const std::vector<Tensor>& outputs, const std::vector<std::vector<double>>& weights) {
  double sum = 0;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (weights[k].empty()) continue;
    const std::vector<double> values = outputs[k].to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * weights[k][i];
  }
  return sum;
}

// `constants`: outputs that depend on no input are held to that.
GradcheckResult check_on(const GradcheckFunction& f, const std::vector<Tensor>& inputs,
                         const GradcheckOptions& options, bool constants) {
  std::vector<Tensor> leaves = inputs;
  for (Tensor& t : leaves)
    if (is_checked(t)) t = testing::copy_with_layout(t, t.device()).set_requires_grad();

  const std::vector<Tensor> outputs = f(leaves);
  SampleMaker make(options.seed);
  std::vector<Tensor> roots, cotangents;
  std::vector<std::vector<double>> weights;
  for (const Tensor& out : outputs) {
    weights.emplace_back();
    if (!is_checked(out) || !(out.requires_grad() || constants)) continue;
    const Tensor c = make.normal(out.shape());
    weights.back() = c.to_vector<double>();
    if (!out.requires_grad()) continue;
    roots.push_back(out);
    cotangents.push_back(c.to(out.device()));
  }
  CT_CHECK(constants || !roots.empty(), AutogradError, "gradcheck",
           "no output of the function depends on an f64 input; make the inputs f64 and check that recording "
           "is on");
  if (!roots.empty()) backward(roots, cotangents);

  NoGrad guard;
  for (std::size_t n = 0; n < leaves.size(); ++n) {
    if (!is_checked(leaves[n])) continue;
    const std::int64_t count = leaves[n].numel();
    // An undefined gradient means zero: the outputs do not depend on this input.
    std::vector<double> analytic(static_cast<std::size_t>(count), 0.0);
    if (const Tensor g = leaves[n].grad(); g.defined()) analytic = g.to_vector<double>();
    const std::vector<double> values = leaves[n].to_vector<double>();
    std::vector<Tensor> shifted = leaves;
    for (Tensor& t : shifted)
      if (t.defined()) t = t.detach();
    const std::int64_t step = std::max<std::int64_t>(1, count / options.max_elements);
    for (std::int64_t i = 0; i < count; i += step) {
      const double x = values[static_cast<std::size_t>(i)];
      set_element(shifted[n], i, x + options.eps);
      const double up = weighted_sum(f(shifted), weights);
      set_element(shifted[n], i, x - options.eps);
      const double down = weighted_sum(f(shifted), weights);
      set_element(shifted[n], i, x);
      const double numeric = (up - down) / (2 * options.eps);
      const double got = analytic[static_cast<std::size_t>(i)];
      if (std::abs(numeric - got) <= options.atol + options.rtol * std::abs(numeric)) continue;
      return {false,
              detail::cat("gradient of input ", n, " (", describe(inputs[n]), ") at element ", i, " is ", got,
                          ", central differences give ", numeric, " (x = ", x, ", eps = ", options.eps, ")")};
    }
  }
  return {};
}

GradcheckResult check(const char* op, const GradcheckFunction& f, const std::vector<Tensor>& inputs,
                      const GradcheckOptions& options, bool constants) {
  CT_CHECK(f, ValueError, op, "the function is empty; pass one that computes with the inputs");
  detail::check_positive(op, "eps", options.eps);
  detail::check_not_negative(op, "atol", options.atol);
  detail::check_not_negative(op, "rtol", options.rtol);
  CT_CHECK(options.max_elements > 0, ValueError, op, "max_elements is ", options.max_elements,
           "; it must be > 0");
  CT_CHECK(std::any_of(inputs.begin(), inputs.end(), is_checked), DTypeError, op,
           "no input is f64; convert the inputs to check with .to(ct::f64)");
  GradcheckResult result = check_on(f, inputs, options, constants);
  if (!result.ok || !options.all_devices || !cuda_is_available()) return result;
  std::vector<Tensor> moved = inputs;
  bool any = false;
  for (Tensor& t : moved) {
    if (!t.defined() || !t.is_cpu()) continue;
    any = true;
    t = testing::copy_with_layout(t, cuda(0));
  }
  if (!any) return result;
  result = check_on(f, moved, options, constants);
  if (!result.ok) result.message = "on cuda:0: " + result.message;
  return result;
}

}  // namespace

GradcheckResult gradcheck(const GradcheckFunction& f, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options) {
  return check("gradcheck", f, inputs, options, false);
}

GradcheckResult gradgradcheck(const GradcheckFunction& f, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options) {
  CT_CHECK(f, ValueError, "gradgradcheck", "the function is empty; pass one that computes with the inputs");
  const std::size_t count = inputs.size();
  std::vector<Tensor> all = inputs;
  {
    const NoGrad guard;
    SampleMaker make(options.seed + 1);
    for (const Tensor& out : f(inputs))
      all.push_back(is_checked(out) ? make.normal(out.shape()).to(out.device()) : Tensor{});
  }
  const GradcheckFunction gradients = [&](const std::vector<Tensor>& given) {
    const EnableGrad guard;  // differences are taken without recording, but f's gradient needs its tape
    std::vector<Tensor> in(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(count)), wanted, roots,
        cotangents;
    for (Tensor& t : in) {
      if (!is_checked(t)) continue;
      if (!t.requires_grad()) t = t.detach().set_requires_grad();
      wanted.push_back(t);
    }
    const std::vector<Tensor> outputs = f(in);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (!is_checked(outputs[k]) || !outputs[k].requires_grad()) continue;
      roots.push_back(outputs[k]);
      cotangents.push_back(given[count + k]);
    }
    return grad(roots, wanted, cotangents, {.allow_unused = true, .create_graph = true});
  };
  return check("gradgradcheck", gradients, all, options, true);
}

}  // namespace ct
