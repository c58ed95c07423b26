#include <cotangent/ops/dispatch.h>

#include <algorithm>
#include <optional>

#include <cotangent/autograd/autocast_mode.h>
#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/autograd/node.h>
#include <cotangent/ops/engine/walk/copy.h>

namespace ct {
namespace {

std::string list_dtypes(DTypeSet set) {
  std::string text;
  for (int i = 0; i < kDTypeCount; ++i)
    if (set >> i & 1u) text.append(text.empty() ? "" : ", ").append(name(static_cast<DType>(i)));
  return text;
}

// How dtypes rank in promotion: a scalar tensor only changes the result's dtype if its category is higher.
int category(DType t) { return t == DType::boolean ? 0 : is_integral(t) ? 1 : 2; }

// The dtype that the inputs of a promoting op are converted to.
DType common_dtype(const OpDef& op, std::span<const TensorRef> inputs) {
  bool any_dims = false, any_scalars = false;
  DType dims = DType::boolean, scalars = DType::boolean;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = *inputs[i];
    if (!t.defined() || mask_bit(op.free_dtype_inputs, i)) continue;
    DType& side = t.dim() > 0 ? dims : scalars;
    bool& any = t.dim() > 0 ? any_dims : any_scalars;
    side = any ? promote(side, t.dtype()) : t.dtype();
    any = true;
  }
  DType common = any_dims ? dims : scalars;
  if (any_dims && any_scalars && category(scalars) > category(dims)) common = scalars;
  if (op.int_to_float && !is_floating(common)) common = DType::f32;
  return common;
}

struct Checked {
  Device device;
  bool convert = false;  // some inputs need another dtype first
};

// Whether input i has 16 bits next to an f32 input 0, and may.
bool stays_low(const OpDef& op, std::size_t i, DType first, DType t) {
  return mask_bit(op.low_inputs, i) && first == DType::f32 && is_low_precision(t);
}

std::string list_inputs(const OpDef& op) {
  std::string text;
  for (const InputDef& in : op.inputs)
    text.append(text.empty() ? "" : ", ").append(in.name).append(in.optional ? " (or undefined)" : "");
  return text;
}

// Rules and kernels read inputs and attributes by place. Attributes that are numbers alone are 0 where they are left out.
void check_count(const OpDef& op, std::size_t inputs, AttrsView attrs) {
  const std::size_t wanted = op.inputs.size();
  const bool rest = op.inputs.back().rest;
  CT_CHECK(inputs == wanted || (rest && inputs > wanted), ValueError, op.name, "got ", inputs,
           " inputs; it takes ", wanted, rest ? " or more: " : ": ", list_inputs(op));
  std::size_t bytes = 0;
  bool numbers = true;
  for (const AttrDef& attr : op.attributes) {
    bytes = std::max(bytes, std::size_t{attr.offset} + attr.size);
    numbers = numbers && attr.type == AttrType::number;
  }
  CT_CHECK(attrs.size >= bytes || (attrs.size == 0 && numbers), ValueError, op.name, "got attributes of ",
           attrs.size, " bytes; its own have at least ", bytes);
}

void check_defined(const OpDef& op, std::size_t i, const Tensor& t) {
  CT_CHECK(t.defined(), Error, op.name, "input '", input_name(op, i),
           "' is undefined; create it with ct::zeros, ct::randn, ... first");
}

// Checks what can be checked without knowing the op: presence, devices, dtypes.
Checked check_inputs(const OpDef& op, std::span<const TensorRef> inputs, AttrsView attrs) {
  check_count(op, inputs.size(), attrs);
  const Tensor* first = nullptr;            // the input that the others are held against
  std::size_t unsupported = inputs.size();  // the first input of a dtype that the op does not have
  Checked result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = *inputs[i];
    if (!mask_bit(op.optional_inputs, i)) check_defined(op, i, t);
    if (!t.defined()) continue;
    if (i == 0) result.device = t.device();
    if (!(t.device() == result.device) && !mask_bit(op.free_device_inputs, i))
      detail::fail<DeviceError>(op.name, "inputs are on different devices: '", input_name(op, 0), "' is ",
                                describe(*inputs[0]), " (", to_string(result.device), "), '",
                                input_name(op, i), "' is ", describe(t), " (", to_string(t.device()),
                                "); move one of them with .to(device)");
    if (mask_bit(op.free_dtype_inputs, i)) continue;
    if (!first) {
      first = &t;
    } else if (t.dtype() != first->dtype() && !stays_low(op, i, first->dtype(), t.dtype())) {
      CT_CHECK(op.promotes, DTypeError, op.name, "inputs have different dtypes: ", describe(*first), " and ",
               describe(t), "; convert one of them with .to(dtype)");
      result.convert = true;
    }
    if (!(op.dtypes & dtype_bit(t.dtype()))) [[unlikely]] {
      if (op.int_to_float && !is_floating(t.dtype())) {
        result.convert = true;
      } else if (unsupported == inputs.size()) {
        unsupported = i;
      }
    }
  }
  // An unsupported dtype is fine if promotion takes it away: a bool mask times an f32 tensor.
  if (unsupported < inputs.size() && !result.convert) [[unlikely]]
    detail::fail<DTypeError>(op.name, "input '", input_name(op, unsupported), "' is ",
                             describe(*inputs[unsupported]), "; supported dtypes are ",
                             list_dtypes(op.dtypes), ": convert it with .to(dtype)");
  return result;
}

bool wants_gradient(const OpDef& op, std::span<const TensorRef> inputs) {
  if (!op.differentiable || !grad_enabled()) return false;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]->defined() && inputs[i]->requires_grad() && mask_bit(op.differentiable_inputs, i))
      return true;
  return false;
}

void record(const OpDef& op, std::span<const TensorRef> inputs, AttrsView attrs, std::span<Tensor> outputs) {
  Ref<OpNode> node = make_ref<OpNode>(op, inputs, attrs);
  node->set_outputs(outputs);
  if (anomaly_enabled())
    for (const Tensor& out : outputs) detail::check_finite(op.name, "forward", out, node->call_site());
  const auto note = [&](std::size_t k, Ref<OpNode> history) {
    if (mask_bit(op.differentiable_outputs, k) && is_floating(outputs[k].dtype()))
      detail::set_history(outputs[k], std::move(history), static_cast<std::uint32_t>(k));
  };
  for (std::size_t k = 1; k < outputs.size(); ++k) note(k, node);
  note(0, std::move(node));  // without counting it up
}

// Calls run() with change(i, t) in the place of each input that is there.
template <class Change, class Run>
void with_changed(std::span<const TensorRef> inputs, const Change& change, const Run& run) {
  InlineVector<Tensor, 4> tensors;
  InlineVector<TensorRef, 4> refs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    tensors.emplace_back(inputs[i]->defined() ? change(i, *inputs[i]) : Tensor());
  for (const Tensor& t : tensors) refs.emplace_back(&t);
  run(std::span<const TensorRef>(refs.begin(), refs.size()));
}

// Runs the kernel; on contiguous copies of those inputs that it wants so.
void run(const OpDef& op, Device device, const Forward& call) {
  const KernelKind kind = kernel_kind(op, device, call.in(0).dtype());
  const ForwardFn kernel = kernels_of(op, kind).forward;
  CT_CHECK(kernel != nullptr, DeviceError, op.name, "has no kernel for ", to_string(device),
           "; move the inputs with .to(device) to a device that it has one for");
  const std::uint32_t wanted = contiguous_for(op, kind, op.contiguous_inputs);
  const auto copied = [&](std::size_t i, const Tensor& t) { return wants_copy(op.inputs, wanted, i, t); };
  bool any = false;
  if (wanted != 0)
    for (std::size_t i = 0; i < call.inputs.size(); ++i) any = any || copied(i, *call.inputs[i]);
  if (!any) [[likely]]
    return detail::observed({.op = op, .forward = &call}, [&] { kernel(call); });
  with_changed(
      call.inputs, [&](std::size_t i, const Tensor& t) { return copied(i, t) ? contiguous(t) : t; },
      [&](std::span<const TensorRef> inputs) {
        const Forward with{op, inputs, call.outputs, call.attrs_view};
        detail::observed({.op = op, .forward = &with}, [&] { kernel(with); });
      });
}

void dispatch_plain(const OpDef& op, std::span<const TensorRef> inputs, AttrsView attrs,
                    std::span<Tensor> outputs);

void dispatch_converted(const OpDef& op, std::span<const TensorRef> inputs, AttrsView attrs,
                        std::span<Tensor> outputs) {
  const DType common = common_dtype(op, inputs);
  with_changed(
      inputs,
      [&](std::size_t i, const Tensor& t) { return mask_bit(op.free_dtype_inputs, i) ? t : t.to(common); },
      [&](std::span<const TensorRef> converted) { dispatch_plain(op, converted, attrs, outputs); });
}

void dispatch_plain(const OpDef& op, std::span<const TensorRef> inputs, AttrsView attrs,
                    std::span<Tensor> outputs) {
  const Checked checked = check_inputs(op, inputs, attrs);
  if (checked.convert) [[unlikely]]
    return dispatch_converted(op, inputs, attrs, outputs);

  Infer infer(op, inputs, attrs);
  op.infer(infer);
  const auto count = static_cast<std::size_t>(infer.output_count());
  CT_ASSERT(count <= outputs.size());
  const std::span<Tensor> results = outputs.first(count);
  const DeviceGuard guard(checked.device);
  for (std::size_t k = 0; k < count; ++k) {
    const Infer::Output& out = infer.out(static_cast<int>(k));
    if (op.view) {
      results[k] =
          Tensor::from_storage(inputs[0]->impl()->storage, out.shape, out.strides, out.offset, out.dtype);
      results[k].impl()->is_view = true;
    } else {
      results[k] = Tensor::allocate(out.shape, out.dtype, out.placed ? out.device : checked.device);
      if (out.strides.size() > 0) {
        results[k].impl()->strides = out.strides;
        results[k].impl()->contiguous = is_contiguous(out.shape, out.strides);
      }
    }
  }
  if (!op.view) run(op, checked.device, Forward{op, inputs, results, attrs});
  if (wants_gradient(op, inputs)) record(op, inputs, attrs, results);
}

// The dtype that `op` wants its floating inputs in under Autocast; nothing if the call is to stay as it is.
std::optional<DType> autocast_target(const OpDef& op, std::span<const TensorRef> inputs) {
  bool any = false, mixed = false, all_floating = true;
  DType widest = DType::f32;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = *inputs[i];
    if (!t.defined() || mask_bit(op.free_dtype_inputs, i)) continue;
    if (!is_floating(t.dtype())) {
      all_floating = false;
      continue;
    }
    mixed = mixed || (any && t.dtype() != widest);
    widest = any ? promote(widest, t.dtype()) : t.dtype();
    any = true;
  }
  if (!any || widest == DType::f64) return {};  // f64 is asked for by name: dispatch deals with it
  switch (op.autocast) {
    case AutocastPolicy::lower:
      return all_floating ? std::optional(detail::autocast_mode().dtype) : std::nullopt;
    case AutocastPolicy::f32: return DType::f32;
    case AutocastPolicy::promote: return mixed && !op.promotes ? std::optional(widest) : std::nullopt;
  }
  return {};
}

// Runs `op` on inputs converted as its policy asks; the conversions are on the tape. False if there is
// nothing to convert.
[[gnu::noinline]] bool dispatch_autocast(const OpDef& op, std::span<const TensorRef> inputs, AttrsView attrs,
                                         std::span<Tensor> outputs) {
  const std::optional<DType> target = autocast_target(op, inputs);
  if (!target || !(op.dtypes & dtype_bit(*target))) return false;
  const DType lower = detail::autocast_mode().dtype;
  bool convert = false;
  InlineVector<Tensor, 4> converted;
  InlineVector<TensorRef, 4> refs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = *inputs[i];
    const bool change = t.defined() && !mask_bit(op.free_dtype_inputs, i) && is_floating(t.dtype()) &&
                        t.dtype() != *target && !(stays_low(op, i, *target, t.dtype()) && t.dtype() == lower);
    convert = convert || change;
    converted.emplace_back(change ? detail::autocast_convert(t, *target) : t);
  }
  if (!convert) return false;
  for (const Tensor& t : converted) refs.emplace_back(&t);
  dispatch_plain(op, std::span<const TensorRef>(refs.begin(), refs.size()), attrs, outputs);
  return true;
}

}  // namespace

void dispatch(const OpDef& op, std::span<const TensorRef> inputs, AttrsView attrs,
              std::span<Tensor> outputs) {
  if (detail::autocast_enabled() && dispatch_autocast(op, inputs, attrs, outputs)) [[unlikely]]
    return;
  dispatch_plain(op, inputs, attrs, outputs);
}

Tensor dispatch(const OpDef& op, std::initializer_list<detail::InputRef> inputs, AttrsView attrs) {
  static_assert(sizeof(detail::InputRef) == sizeof(TensorRef));
  std::array<Tensor, kMaxOutputs> outputs;
  dispatch(op, {reinterpret_cast<const TensorRef*>(inputs.begin()), inputs.size()}, attrs, outputs);
  return std::move(outputs[0]);
}

Tensor& dispatch_inplace(const OpDef& op, Tensor& self, std::initializer_list<detail::InputRef> others,
                         AttrsView attrs) {
  check_defined(op, 0, self);
  detail::check_writable(op.name, self);
  InlineVector<Tensor, 3> changed;  // what takes the place of an input; undefined elsewhere
  InlineVector<TensorRef, 3> inputs;
  changed.resize(1 + others.size());
  inputs.emplace_back(&self);
  for (const detail::InputRef& other : others) {
    const Tensor& t = *other.tensor;
    const bool convert = op.promotes && t.defined() && t.dtype() != self.dtype();
    CT_CHECK(!convert || category(t.dtype()) <= category(self.dtype()), DTypeError, op.name,
             "a result of dtype ", promote(self.dtype(), t.dtype()), " can't be written in place into ",
             describe(self), "; use the out-of-place form");
    inputs.emplace_back(convert ? &(changed[inputs.size()] = t.to(self.dtype())) : &t);
  }
  const Checked checked = check_inputs(op, inputs, attrs);
  CT_CHECK(!checked.convert, DTypeError, op.name, "can't run in place on ", describe(self),
           "; use the out-of-place form");

  Infer infer(op, inputs, attrs);
  op.infer(infer);
  CT_CHECK(infer.out(0).shape == self.shape(), ShapeError, op.name, "the result has shape ",
           infer.out(0).shape, " and can't be written in place into ", describe(self),
           "; use the out-of-place form");
  CT_CHECK(infer.out(0).dtype == self.dtype(), DTypeError, op.name, "a result of dtype ", infer.out(0).dtype,
           " can't be written in place into ", describe(self), "; use the out-of-place form");

  const bool recorded = wants_gradient(op, inputs);
  if (grad_enabled() && self.requires_grad() && self.is_leaf())
    detail::fail<AutogradError>(
        op.name, "a leaf that requires a gradient, ", describe(self),
        ", can't be changed in place while recording; wrap the change in a NoGrad guard");
  if (recorded && self.impl()->is_view)
    detail::fail<AutogradError>(
        op.name, "an in-place change of a view, ", describe(self),
        ", can't be recorded on the tape; build the whole with ct::concat or ct::stack, or use "
        "the out-of-place form");
  // The kernel may read an input after it wrote the same place: give it a copy where the layouts differ.
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const Tensor& t = *inputs[i];
    if (!t.defined() || !(t.impl()->storage == self.impl()->storage)) continue;
    const bool same_place = t.storage_offset() == self.storage_offset() && t.strides() == self.strides() &&
                            t.shape() == self.shape();
    if (!same_place || recorded) inputs[i] = &(changed[i] = t.clone());
  }
  // A gradient that needs self's old value gets a copy of it, since the value is about to be overwritten.
  if (recorded) {
    bool saves_self = false;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      saves_self =
          saves_self || (inputs[i]->defined() && inputs[i]->requires_grad() && saves_of(op, i).inputs & 1u);
    if (saves_self) inputs[0] = &(changed[0] = self.clone());
  }

  // All that may fail comes first. The node takes self's place on the tape as it was before the change. The
  // storage counts as changed before the kernel runs, as one that fails may leave half of it changed.
  Ref<OpNode> node = recorded ? make_ref<OpNode>(op, inputs, attrs) : Ref<OpNode>();
  const DeviceGuard guard(checked.device);
  Storage& storage = *self.impl()->storage;
  storage.bump_version();
  if (recorded) node->set_outputs(std::span<const Tensor>(&self, 1));
  run(op, checked.device, Forward{op, inputs, std::span<Tensor>(&self, 1), attrs});
  if (recorded) {
    storage.bump_history_version();
    self.impl()->history_version = storage.history_version();
    detail::set_history(self, std::move(node), 0);
  }
  return self;
}

}  // namespace ct
