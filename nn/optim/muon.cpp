#include <cotangent/nn/optim/muon.h>

#include <algorithm>
#include <cmath>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/nn/optim/step_internal.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/matmul/products.h>
#include <cotangent/ops/reduce/reduce.h>

namespace ct::optim {
template class GroupedOptimizer<MuonOptions>;
namespace {

ParamGroup<MuonOptions> checked(ParamGroup<MuonOptions> group) {
  for (const Tensor& p : group.params)
    CT_CHECK(!p.defined() || p.dim() == 2, ShapeError, "Muon", "got the parameter ", describe(p),
             "; it is for matrices: give others to AdamW, and a convolution's weight as a leaf [out, rest]");
  return group;
}
std::vector<ParamGroup<MuonOptions>> checked(std::vector<ParamGroup<MuonOptions>> groups) {
  for (auto& group : groups) group = checked(std::move(group));
  return groups;
}

// The matrix nearest to `x` whose singular values are about 1. Products are smallest with the short side in front.
Tensor orthogonalized(const Tensor& x, const MuonOptions& o) {
  const bool tall = x.size(0) > x.size(1);
  const auto [a, b, c] = o.ns_coefficients;
  Tensor y = x.to(o.ns_dtype);
  if (tall) y = y.transpose(0, 1);
  y = y / maximum(norm(y), o.eps);
  for (int k = 0; k < o.ns_steps; ++k) {
    const Tensor s = matmul(y, y.transpose(0, 1));
    y = addmm(y, addmm(s, s, s, {.beta = b, .alpha = c}), y, {.beta = a});
  }
  return tall ? y.transpose(0, 1) : y;
}

double adjustment(const MuonOptions& o, const Shape& shape) {
  const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
  return o.adjust_lr == MuonLr::original ? std::sqrt(std::max(1.0, rows / columns))
                                         : 0.2 * std::sqrt(std::max(rows, columns));
}

}  // namespace

void check_options(const char* op, const MuonOptions& o) {
  detail::check_not_negative(op, "weight_decay", o.weight_decay);
  CT_CHECK(o.momentum >= 0 && o.momentum < 1, ValueError, op, "momentum is ", o.momentum,
           "; it must lie in [0, 1)");
  for (const double c : o.ns_coefficients) detail::check_finite(op, "a coefficient", c);
  detail::check_not_negative(op, "eps", o.eps);
  CT_CHECK(o.ns_steps >= 0 && o.ns_steps < 100, ValueError, op, "ns_steps is ", o.ns_steps,
           "; it must lie in [0, 100), and 5 are enough");
  CT_CHECK(is_floating(o.ns_dtype), DTypeError, op, "ns_dtype is ", o.ns_dtype,
           "; the steps are computed in a floating dtype");
}

Muon::Muon(std::vector<Tensor> params, const MuonOptions& options)
    : Muon(std::vector<ParamGroup<MuonOptions>>{{std::move(params), options}}) {}
Muon::Muon(std::vector<ParamGroup<MuonOptions>> groups)
    : GroupedOptimizer("Muon", checked(std::move(groups))) {}
void Muon::add_param_group(ParamGroup<MuonOptions> group) {
  GroupedOptimizer::add_param_group(checked(std::move(group)));
}

void Muon::update(int group, std::span<const int> members) {
  Group& g = group_at(group);
  const MuonOptions& o = options(group);
  for (const int& member : members) {
    const auto i = static_cast<std::size_t>(member);
    const Shape& shape = g.params[i].shape();
    if (g.params[i].numel() == 0) continue;
    Tensor& momentum = g.states[i].moments[0];
    const Tensor grad = g.grads[i].to(momentum.dtype());
    const Tensor average = lerp(momentum, grad, 1 - o.momentum);
    const Tensor nearest = orthogonalized(o.nesterov ? lerp(grad, average, o.momentum) : average, o);
    // The result replaces the gradient; a step of SGD follows.
    g.grads[i] = nearest.to(g.params[i].dtype()).contiguous();
    momentum.copy_(average);  // in place: a captured step finds it where it was
    const double factor = adjustment(o, shape);
    internal::step_one(g, member, update::SgdRule{{factor, 0, 0, o.weight_decay / factor, false}});
  }
}

}  // namespace ct::optim
