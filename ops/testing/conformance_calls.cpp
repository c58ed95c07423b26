#include <cmath>
#include <cstring>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/testing/conformance_internal.h>

namespace ct::testing::conformance {

double tolerance(DType t) {
  switch (t) {
    case DType::f64: return 2e-13;
    case DType::f32: return 2e-6;
    case DType::f16: return 1e-3;
    case DType::bf16: return 8e-3;
    default: return 0;
  }
}

Tensors call(const OpDef& op, const Tensors& inputs, const AnyAttrs& attrs) {
  std::vector<TensorRef> refs;
  for (const Tensor& t : inputs) refs.push_back(&t);
  Tensors outputs(kMaxOutputs);
  dispatch(op, refs, attrs.view(), outputs);
  while (!outputs.empty() && !outputs.back().defined()) outputs.pop_back();
  return outputs;
}

Tensors convert(const OpDef& op, const Tensors& inputs, DType dtype, Device device) {
  NoGrad guard;
  Tensors out;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensor t = inputs[i];
    if (t.defined() && is_floating(t.dtype()) && !mask_bit(op.free_dtype_inputs, i)) {
      if (!is_floating(dtype) && dtype != DType::boolean) {
        Tensor scaled = Tensor::allocate(t.shape(), DType::f64, Device{});
        const std::vector<double> values = t.to_vector<double>();
        for (std::size_t j = 0; j < values.size(); ++j) {
          const double v = std::trunc(3 * values[j]);
          scaled.data<double>()[j] = dtype == DType::u8 ? std::abs(v) : v;
        }
        t = scaled;
      }
      t = t.to(dtype);
    }
    out.push_back(t.defined() ? t.to(device) : t);
  }
  return out;
}

const char* name_of(Layout layout) {
  return layout == Layout::contiguous ? "contiguous" : layout == Layout::strided ? "strided" : "transposed";
}

Tensor lay_out(const Tensor& t, Layout layout) {
  NoGrad guard;
  if (!t.defined() || t.dim() == 0 || layout == Layout::contiguous) return t;
  if (layout == Layout::strided) {
    Shape wide = t.shape();
    wide.back() *= 2;
    Tensor base = Tensor::allocate(wide, t.dtype(), t.device());
    base.zero_();
    Tensor view = base.slice(-1, 0, INT64_MAX, 2);
    view.copy_(t);
    return view;
  }
  Dims reversed;
  for (int i = t.dim() - 1; i >= 0; --i) reversed.push_back(i);
  return t.permute(reversed).contiguous().permute(reversed);
}

Tensors lay_out(const Tensors& ts, Layout layout) {
  Tensors out;
  for (const Tensor& t : ts) out.push_back(lay_out(t, layout));
  return out;
}

std::string difference(const Tensor& got, const Tensor& want, double tol) {
  if (!(got.shape() == want.shape())) return detail::cat("shape ", got.shape(), ", want ", want.shape());
  const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    // A value beyond a 16-bit format's range is its infinity.
    if (std::isinf(a[i]) && got.dtype() == DType::f16 && std::abs(b[i]) > 65504 &&
        std::signbit(a[i]) == std::signbit(b[i]))
      continue;
    if (std::abs(a[i] - b[i]) <= tol * (1 + std::abs(b[i]))) continue;
    return detail::cat("element ", i, " of ", describe(got), " is ", a[i], ", want ", b[i], " (tolerance ",
                       tol, ")");
  }
  return {};
}

std::string cost_problem(const OpDef& op, const Tensors& inputs, const Tensors& outputs,
                         const AnyAttrs& attrs) {
  const auto metas = [](const Tensors& tensors) {
    std::vector<TensorMeta> list;
    for (const Tensor& t : tensors) list.push_back(t.defined() ? t.meta() : TensorMeta{{0}, DType::f32, {}});
    return list;
  };
  const std::vector<TensorMeta> in = metas(inputs), out = metas(outputs);
  const Cost cost = cost_of(op, in, out, attrs.view());
  const double least = op.view ? 0 : bytes_of(out), most = op.view ? 0 : bytes_of(in) + 2 * bytes_of(out);
  if (cost.bytes < least || cost.bytes > most)
    return detail::cat("its cost is ", cost.bytes, " bytes; it must be from ", least, " to ", most);
  if (!(cost.flops >= 0) || !std::isfinite(cost.flops))
    return detail::cat("its cost is ", cost.flops, " operations");
  return {};
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) return false;
  NoGrad guard;
  const Tensor x = a.detach().to(cpu).contiguous(), y = b.detach().to(cpu).contiguous();
  return x.numel() == 0 || std::memcmp(x.raw_data(), y.raw_data(), static_cast<std::size_t>(x.nbytes())) == 0;
}

Gradients differentiate(const OpDef& op, const Tensors& inputs, const AnyAttrs& attrs,
                        const Tensors& cotangents, std::uint32_t wanted, int passes) {
  Tensors leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(inputs[i].defined() ? inputs[i].detach() : Tensor{});
    if (takes_gradient(op, i, inputs[i]) && mask_bit(wanted, i)) leaves[i].set_requires_grad();
  }
  Gradients result;
  for (int pass = 0; pass < passes; ++pass) {
    result.outputs = call(op, leaves, attrs);
    Tensors roots, weights;
    for (std::size_t k = 0; k < result.outputs.size() && k < cotangents.size(); ++k) {
      if (!cotangents[k].defined() || !result.outputs[k].requires_grad()) continue;
      roots.push_back(result.outputs[k]);
      weights.push_back(cotangents[k]);
    }
    if (!roots.empty()) backward(roots, weights);
  }
  for (const Tensor& t : leaves) result.grads.push_back(t.defined() ? t.grad() : Tensor{});
  return result;
}

std::string compare_grads(const Gradients& got, const Gradients& want, double tol, const char* what) {
  for (std::size_t i = 0; i < want.grads.size(); ++i) {
    if (!want.grads[i].defined()) continue;
    if (!got.grads[i].defined()) return detail::cat("gradient ", i, ' ', what, " is missing");
    if (std::string d = difference(got.grads[i], want.grads[i], tol); !d.empty())
      return detail::cat("gradient ", i, ' ', what, ": ", d);
  }
  return {};
}

}  // namespace ct::testing::conformance
