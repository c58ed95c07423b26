#include <cotangent/autograd/functional.h>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>

namespace ct {
namespace {

// A function, recorded: leaves and what it made of them.
struct Recorded {
  std::vector<Tensor> leaves;
  Tensor value;
};

Recorded recorded(const char* name, const TensorsFunction& f, const std::vector<Tensor>& inputs) {
  CT_CHECK(f != nullptr, ValueError, name, "the function is empty; pass one that maps tensors to a tensor");
  Recorded run;
  for (const Tensor& x : inputs) run.leaves.push_back(x.detach().set_requires_grad());
  run.value = f(run.leaves);
  CT_CHECK(run.value.defined(), ValueError, name, "the function gave an undefined tensor");
  return run;
}

Recorded recorded_number(const char* name, const TensorsFunction& f, const std::vector<Tensor>& inputs) {
  Recorded run = recorded(name, f, inputs);
  CT_CHECK(run.value.numel() == 1, ShapeError, name, "the function gave ", describe(run.value),
           "; its derivative is that of one number: sum() it, or use jacobian()");
  return run;
}

// Calls grad(), with zeros for inputs that `value` does not depend on.
std::vector<Tensor> gradients(const Tensor& value, const std::vector<Tensor>& inputs, const Tensor& cotangent,
                              GradOptions options) {
  options.allow_unused = true;
  std::vector<Tensor> result(inputs.size());
  if (value.requires_grad() && !inputs.empty()) result = grad({value}, inputs, {cotangent}, options);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!result[i].defined()) result[i] = detail::filled(inputs[i].meta(), 0);
  return result;
}

Shape joined(const Shape& a, const Shape& b) {
  CT_CHECK(a.size() + b.size() <= kMaxRank, ShapeError, "jacobian", "the result is of shape ", a,
           " and an input ", b, "; their derivatives have the axes of both, and a tensor at most ", kMaxRank,
           " of them");
  Shape all = a;
  for (const std::int64_t size : b) all.push_back(size);
  return all;
}

// The derivatives of every element of `value`, one backward pass each.
std::vector<Tensor> all_derivatives(const Tensor& value, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> result;
  for (const Tensor& x : inputs)
    result.push_back(detail::filled({joined(value.shape(), x.shape()), x.dtype(), x.device()}, 0));
  for (std::int64_t k = 0; k < value.numel(); ++k) {
    const Tensor one = detail::filled(value.meta(), 0);
    one.view({-1}).narrow(0, k, 1).fill_(1);
    const std::vector<Tensor> row = gradients(value, inputs, one, {.retain_graph = true});
    const NoGrad guard;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      result[i].view({value.numel(), inputs[i].numel()})[k].copy_(row[i].reshape({-1}));
  }
  return result;
}

}  // namespace

ValueAndGrad value_and_grad(const TensorsFunction& f, const std::vector<Tensor>& inputs) {
  const EnableGrad guard;
  const Recorded run = recorded_number("value_and_grad", f, inputs);
  return {run.value.detach(), gradients(run.value, run.leaves, {}, {})};
}

ValueAndGrad vjp(const TensorsFunction& f, const std::vector<Tensor>& inputs, const Tensor& v) {
  const EnableGrad guard;
  const Recorded run = recorded("vjp", f, inputs);
  return {run.value.detach(), gradients(run.value, run.leaves, v, {})};
}

ValueAndDerivative jvp(const TensorsFunction& f, const std::vector<Tensor>& inputs,
                       const std::vector<Tensor>& v) {
  CT_CHECK(v.size() == inputs.size(), ValueError, "jvp", "got ", v.size(), " directions for ", inputs.size(),
           " inputs; each has one, of its shape");
  const EnableGrad guard;
  const Recorded run = recorded("jvp", f, inputs);
  Tensor derivative = detail::filled(run.value.meta(), 0);
  const Tensor u = detail::filled(run.value.meta(), 0).set_requires_grad();
  if (run.value.requires_grad()) {
    // Inputs that f does not use have no gradient, and so no part in the derivative.
    const std::vector<Tensor> all =
        grad({run.value}, run.leaves, {u}, {.allow_unused = true, .create_graph = true});
    std::vector<Tensor> used, directions;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].defined() || !all[i].requires_grad()) continue;
      used.push_back(all[i]);
      directions.push_back(v[i]);
    }
    if (!used.empty()) {
      const Tensor found = grad(used, {u}, directions, {.allow_unused = true})[0];
      if (found.defined()) derivative = found;
    }
  }
  return {run.value.detach(), derivative};
}

std::vector<Tensor> jacobian(const TensorsFunction& f, const std::vector<Tensor>& inputs) {
  const EnableGrad guard;
  const Recorded run = recorded("jacobian", f, inputs);
  return all_derivatives(run.value, run.leaves);
}

std::vector<std::vector<Tensor>> hessian(const TensorsFunction& f, const std::vector<Tensor>& inputs) {
  const EnableGrad guard;
  const Recorded run = recorded_number("hessian", f, inputs);
  std::vector<std::vector<Tensor>> result;
  for (const Tensor& first : gradients(run.value, run.leaves, {}, {.create_graph = true}))
    result.push_back(all_derivatives(first, run.leaves));
  return result;
}

}  // namespace ct
