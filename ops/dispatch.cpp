#include <cotangent/ops/dispatch.h>

#include <algorithm>
#include <optional>

#include <cotangent/autograd/autocast_mode.h>
#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/autograd/node.h>
#include <cotangent/core/op/execute.h>
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

// Attributes that are numbers alone are 0 where they are left out.
bool has_attributes(const OpDef& op, AttrsView attrs) {
  return attrs.size >= op.attr_bytes || (attrs.size == 0 && op.optional_attributes);
}

// Rules and kernels read inputs and attributes by place.
void check_count(const OpDef& op, std::size_t inputs, AttrsView attrs) {
  const std::size_t wanted = op.inputs.size();
  const bool rest = op.inputs.back().rest;
  CT_CHECK(inputs == wanted || (rest && inputs > wanted), ValueError, op.name, "got ", inputs,
           " inputs; it takes ", wanted, rest ? " or more: " : ": ", list_inputs(op));
  CT_CHECK(has_attributes(op, attrs), ValueError, op.name, "got attributes of ", attrs.size,
           " bytes; its own have at least ", op.attr_bytes);
}

void check_defined(const OpDef& op, std::size_t i, const Tensor& t) {
  CT_CHECK(t.defined(), Error, op.name, "input '", input_name(op, i),
           "' is undefined; create it with ct::zeros, ct::randn, ... first");
}

// Checks what can be checked without knowing the op: presence, devices, dtypes. True if some inputs need another dtype
// first.
[[gnu::noinline]] bool check_inputs(const OpDef& op, std::span<const TensorRef> inputs, AttrsView attrs) {
  check_count(op, inputs.size(), attrs);
  const Tensor* first = nullptr;            // the input that the others are held against
  std::size_t unsupported = inputs.size();  // the first input of a dtype that the op does not have
  Device device;
  bool convert = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = *inputs[i];
    if (!mask_bit(op.optional_inputs, i)) check_defined(op, i, t);
    if (!t.defined()) continue;
    if (i == 0) device = t.device();
    if (!(t.device() == device) && !mask_bit(op.free_device_inputs, i))
      detail::fail<DeviceError>(op.name, "inputs are on different devices: '", input_name(op, 0), "' is ",
                                describe(*inputs[0]), " (", to_string(device), "), '", input_name(op, i),
                                "' is ", describe(t), " (", to_string(t.device()),
                                "); move one of them with .to(device)");
    if (mask_bit(op.free_dtype_inputs, i)) continue;
    if (!first) {
      first = &t;
    } else if (t.dtype() != first->dtype() && !stays_low(op, i, first->dtype(), t.dtype())) {
      CT_CHECK(op.promotes, DTypeError, op.name, "inputs have different dtypes: ", describe(*first), " and ",
               describe(t), "; convert one of them with .to(dtype)");
      convert = true;
    }
    if (!(op.dtypes & dtype_bit(t.dtype()))) [[unlikely]] {
      if (op.int_to_float && !is_floating(t.dtype())) {
        convert = true;
      } else if (unsupported == inputs.size()) {
        unsupported = i;
      }
    }
  }
  // An unsupported dtype is fine if promotion takes it away: a bool mask times an f32 tensor.
  if (unsupported < inputs.size() && !convert) [[unlikely]]
    detail::fail<DTypeError>(op.name, "input '", input_name(op, unsupported), "' is ",
                             describe(*inputs[unsupported]), "; supported dtypes are ",
                             list_dtypes(op.dtypes), ": convert it with .to(dtype)");
  return convert;
}

// The common call: every input is there, on one device, in one dtype that the op has.
bool is_plain_call(const OpDef& op, std::span<const TensorRef> inputs, AttrsView attrs) {
  if (inputs.size() != op.inputs.size() || !has_attributes(op, attrs) || !inputs[0]->defined()) return false;
  const TensorImpl& first = *inputs[0]->impl();
  const Device device = first.storage->device();
  for (const TensorRef input : inputs.subspan(1)) {
    const TensorImpl* const t = input->impl();
    if (!t || t->dtype != first.dtype || !(t->storage->device() == device)) return false;
  }
  return (op.dtypes & dtype_bit(first.dtype)) != 0;
}

// Throws what the call's inputs call for. False where some of them need another dtype first.
bool check_call(const OpDef& op, std::span<const TensorRef> inputs, AttrsView attrs) {
  return is_plain_call(op, inputs, attrs) || !check_inputs(op, inputs, attrs);
}
Device device_of(std::span<const TensorRef> inputs) {
  return inputs[0]->defined() ? inputs[0]->device() : cpu;
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

void dispatch_plain(const OpDef& op, std::span<const TensorRef> inputs, AttrsView attrs,
                    std::span<Tensor> outputs);

[[gnu::noinline]] void dispatch_converted(const OpDef& op, std::span<const TensorRef> inputs, AttrsView attrs,
                                          std::span<Tensor> outputs) {
  const DType common = common_dtype(op, inputs);
  with_changed(
      inputs,
      [&](std::size_t i, const Tensor& t) { return mask_bit(op.free_dtype_inputs, i) ? t : t.to(common); },
      [&](std::span<const TensorRef> converted) { dispatch_plain(op, converted, attrs, outputs); });
}

[[noreturn, gnu::cold, gnu::noinline]] void fail_too_many_outputs(const OpDef& op, std::size_t count) {
  detail::fail<Error>(op.name, "its shape rule declares ", count, " outputs, of which its records name ",
                      op.outputs.size(), "; give each a record");
}

[[gnu::noinline]] void take_views(const Infer& infer, const Forward& call) {
  for (std::size_t k = 0; k < call.outputs.size(); ++k) {
    const Infer::Output& out = infer.out(static_cast<int>(k));
    call.outputs[k] =
        Tensor::from_storage(call.in(0).impl()->storage, out.shape, out.strides, out.offset, out.dtype);
    call.outputs[k].impl()->is_view = true;
  }
}

inline void allocate(const Infer::Output& out, Device device, Tensor& result) {
  result = Tensor::allocate(out.shape, out.dtype, out.placed ? out.device : device);
  if (out.strides.size() == 0) return;
  result.impl()->strides = out.strides;
  result.impl()->contiguous = is_contiguous(out.shape, out.strides);
}

void dispatch_plain(const OpDef& op, std::span<const TensorRef> inputs, AttrsView attrs,
                    std::span<Tensor> outputs) {
  if (!check_call(op, inputs, attrs)) [[unlikely]]
    return dispatch_converted(op, inputs, attrs, outputs);

  Infer infer(op, inputs, attrs);
  op.infer(infer);
  const auto count = static_cast<std::size_t>(infer.output_count());
  if (count > outputs.size()) [[unlikely]]
    fail_too_many_outputs(op, count);
  const Forward call{op, inputs, outputs.first(count), attrs};
  const Device device = device_of(inputs);
  const DeviceGuard guard(device);
  if (op.view) {
    take_views(infer, call);
  } else {
    for (std::size_t k = 0; k < count; ++k) allocate(infer.out(static_cast<int>(k)), device, call.outputs[k]);
    execute(device, call);
  }
  if (wants_gradient(op, inputs)) record(op, inputs, attrs, call.outputs);
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

[[gnu::noinline]] static Tensor first_of_several(const OpDef& op, std::span<const TensorRef> inputs,
                                                 AttrsView attrs) {
  std::array<Tensor, kMaxOutputs> outputs;
  dispatch(op, inputs, attrs, outputs);
  return std::move(outputs[0]);
}

Tensor dispatch(const OpDef& op, std::initializer_list<detail::InputRef> inputs, AttrsView attrs) {
  static_assert(sizeof(detail::InputRef) == sizeof(TensorRef));
  const std::span refs(reinterpret_cast<const TensorRef*>(inputs.begin()), inputs.size());
  if (op.outputs.size() == 1 && !op.outputs[0].rest) {
    Tensor y;
    if (!detail::autocast_enabled() || !dispatch_autocast(op, refs, attrs, {&y, 1})) [[likely]]
      dispatch_plain(op, refs, attrs, {&y, 1});
    return y;
  }
  return first_of_several(op, refs, attrs);
}

namespace {

// Runs what most calls in place are: a plain call off the tape, whose other inputs lie elsewhere. False where it is not.
bool run_in_place(const OpDef& op, Tensor& self, std::span<const TensorRef> inputs, AttrsView attrs) {
  if (!is_plain_call(op, inputs, attrs) || wants_gradient(op, inputs)) return false;
  if (grad_enabled() && self.requires_grad()) return false;
  Storage& storage = *self.impl()->storage;
  for (const TensorRef input : inputs.subspan(1))
    if (input->impl()->storage.get() == &storage) return false;
  Infer infer(op, inputs, attrs);
  op.infer(infer);
  if (!(infer.out(0).shape == self.shape()) || infer.out(0).dtype != self.dtype()) return false;
  const DeviceGuard guard(storage.device());
  detail::note_change(storage);
  execute(storage.device(), Forward{op, inputs, std::span<Tensor>(&self, 1), attrs});
  return true;
}

}  // namespace

Tensor& dispatch_inplace(const OpDef& op, Tensor& self, std::initializer_list<detail::InputRef> others,
                         AttrsView attrs) {
  check_defined(op, 0, self);
  walk::check_writable(op.name, self);
  InlineVector<TensorRef, 4> given, inputs;
  given.emplace_back(&self);
  for (const detail::InputRef& other : others) given.emplace_back(other.tensor);
  if (run_in_place(op, self, given, attrs)) [[likely]]
    return self;

  InlineVector<Tensor, 3> changed;  // what takes the place of an input; undefined elsewhere
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
  CT_CHECK(check_call(op, inputs, attrs), DTypeError, op.name, "can't run in place on ", describe(self),
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
  const DeviceGuard guard(self.device());
  Storage& storage = *self.impl()->storage;
  recorded ? storage.bump_version() : detail::note_change(storage);
  if (recorded) node->set_outputs(std::span<const Tensor>(&self, 1));
  execute(self.device(), Forward{op, inputs, std::span<Tensor>(&self, 1), attrs});
  if (recorded) {
    storage.bump_history_version();
    self.impl()->history_version = storage.history_version();
    std::shared_ptr<Tensor> retained = detail::take_retained(self);
    detail::set_history(self, std::move(node), 0);
    detail::put_retained(self, std::move(retained));
  }
  return self;
}

}  // namespace ct
