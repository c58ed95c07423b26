#include <cotangent/nn/capture/calls_internal.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <thread>

#include <cotangent/core/base/generator_state.h>
#include <cotangent/core/base/inline_vector.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/nn/capture/fusion_internal.h>

namespace ct::capture_impl {

Place::Place(const Tensor& t) {
  if (!t.defined()) return;
  const Storage& memory = *t.impl()->storage;
  if (memory.bytes() > 0) storage = memory.id(), data = memory.data(), bytes = memory.bytes();
  shape = t.shape(), strides = t.strides(), offset = t.storage_offset();
  dtype = t.dtype(), device = t.device();
  defined = true;
}

bool Place::laid_out_as(const Place& other) const {
  return defined == other.defined && shape == other.shape && strides == other.strides &&
         offset == other.offset && dtype == other.dtype && device == other.device;
}

Tensor tensor_at(const Place& p) {
  if (!p.defined) return {};
  return Tensor::from_storage(Storage::wrap(p.data, p.bytes, p.device, {}), p.shape, p.strides, p.offset,
                              p.dtype);
}

namespace {
AnyAttrs copied(AttrsView view) {
  AnyAttrs attrs;
  if (view.size > 0) std::memcpy(attrs.bytes.data(), view.data, view.size);
  attrs.size = view.size;
  return attrs;
}
}  // namespace

RecordedCall::RecordedCall(const KernelCall& call)
    : op(&call.op),
      forward_kernel(call.forward_kernel),
      backward_kernel(call.backward_kernel),
      backward(call.backward != nullptr),
      attrs(copied(call.attrs())) {
  std::vector<Place>* const lists[] = {&inputs, &outputs, &grads};
  call.for_each_tensor([&](const Tensor& t, KernelCall::Part part) {
    if (part != KernelCall::Part::result) lists[static_cast<int>(part)]->emplace_back(t);
  });
  if (!backward) return;
  const Backward& b = *call.backward;
  last = b.last;
  metas.assign(b.input_metas.begin(), b.input_metas.end());
  flags.assign(b.flags.begin(), b.flags.end());
}

void RecordedCall::finish(const KernelCall& call) {
  for (const Tensor& t : call.results()) results.emplace_back(t);
}

std::string RecordedCall::name() const { return backward ? std::string(op->name) + "'" : op->name; }

namespace {
bool same_number(const Scalar& a, const Scalar& b) {
  return a.kind() == b.kind() && (a.is_floating() ? std::bit_cast<std::int64_t>(a.to<double>()) ==
                                                        std::bit_cast<std::int64_t>(b.to<double>())
                                                  : a.to<std::int64_t>() == b.to<std::int64_t>());
}
}  // namespace

// Field by field: the bytes between them mean nothing.
bool same_attributes(const OpDef& op, const AnyAttrs& a, const AnyAttrs& b, const char** differing) {
  if (a.size != b.size) return *differing = "attributes", false;
  for (const AttrDef& field : op.attributes) {
    if (field.offset + field.size > a.size) continue;
    const std::byte *x = a.bytes.data() + field.offset, *y = b.bytes.data() + field.offset;
    const auto equal = [&]<class T>(const T*) {
      return *reinterpret_cast<const T*>(x) == *reinterpret_cast<const T*>(y);
    };
    const bool same = field.type == AttrType::dims     ? equal(static_cast<const Dims*>(nullptr))
                      : field.type == AttrType::draw   ? equal(static_cast<const GeneratorState*>(nullptr))
                      : field.type == AttrType::number ? same_number(*reinterpret_cast<const Scalar*>(x),
                                                                     *reinterpret_cast<const Scalar*>(y))
                      : field.type == AttrType::device ? equal(static_cast<const Device*>(nullptr))
                                                       : std::memcmp(x, y, field.size) == 0;
    if (!same) return *differing = field.name, false;
  }
  return true;
}

namespace {
bool is_rule(const KernelCall& call) { return call.backward && call.backward_kernel == call.op.rule; }
}  // namespace

bool CallRecorder::begin(const KernelCall& call) {
  if (is_rule(call)) return false;
  if (depth_ == 0) {
    beginning(call);
    calls.emplace_back(call);
  }
  ++depth_;
  return false;
}

void CallRecorder::end(const KernelCall& call) {
  if (is_rule(call) || --depth_ > 0) return;
  calls.back().finish(call);
  ended(call);
}

CallList::CallList(const std::vector<RecordedCall>& calls, std::shared_ptr<FusionPlan> plan)
    : plan_(std::move(plan)) {
  calls_.reserve(calls.size());
  for (const RecordedCall& call : calls) {
    Call& c = calls_.emplace_back();
    c.call = &call;
    c.inputs = tensors(call.inputs), c.outputs = tensors(call.outputs), c.grads = tensors(call.grads);
    const std::size_t known = storages_.size();
    c.results = tensors(call.results);
    for (const Tensor& t : c.inputs) c.arguments.push_back(&t);
    if (storages_.size() == known) continue;
    for (const Tensor& t : c.results)
      if (t.defined() && t.impl()->storage->use_count() == 2) made.push_back(t.impl()->storage);
  }
  if (plan_) add_groups();
}

// A GPU's kernels are compiled side by side.
void CallList::add_groups() {
  const std::size_t count = plan_->groups.size();
  for (const FusedCalls& group : plan_->groups) {
    Group& g = groups_.emplace_back();
    g.inputs = tensors(group.inputs), g.outputs = tensors(group.outputs);
  }
  std::vector<char> ready(count);
  std::atomic<std::size_t> next = 0;
  const auto make = [&](Device device) noexcept {
    try {
      const DeviceGuard guard(device);
      for (std::size_t k; (k = next++) < count;) {
        const FusedCalls& group = plan_->groups[k];
        Group& g = groups_[k];
        std::vector<const Tensor*> outputs;
        for (const Tensor& t : g.inputs) g.arguments.push_back(&t);
        for (const Tensor& t : g.outputs) outputs.push_back(&t);
        ready[k] = !group.rows ? map::chain::ready(group.program, outputs, g.arguments)
                               : device.is_cpu() ||
                                     run_whole(group, g.arguments, g.outputs, detail::Around::Ask::ready);
      }
    } catch (...) {  // NOLINT: what is not ready runs call by call
    }
  };
  {
    const Device device = count == 0 ? Device{} : groups_[0].outputs[0].device();
    std::vector<std::jthread> helpers;
    const std::size_t most = std::min<std::size_t>(count, std::thread::hardware_concurrency());
    while (device.is_cuda() && helpers.size() + 1 < most) helpers.emplace_back(make, device);
    make(device);
  }
  for (std::size_t k = 0; k < count; ++k)
    if (!ready[k]) plan_->dissolve(k, "there is no compiler for the GPU's kernel");
}

std::vector<Tensor> CallList::tensors(const std::vector<Place>& list) {
  std::vector<Tensor> out;
  for (const Place& place : list) {
    Tensor& t = out.emplace_back();
    if (!place.defined) continue;
    Ref<Storage> empty;
    Ref<Storage>& memory = place.storage == 0 ? empty : storages_[place.storage];
    if (!memory) memory = Storage::wrap(place.data, place.bytes, place.device, {});
    t = Tensor::from_storage(memory, place.shape, place.strides, place.offset, place.dtype);
  }
  return out;
}

bool CallList::run(std::size_t i) const {
  if (plan_ && plan_->group_of[i] != FusionPlan::kNone) {
    Group& g = groups_[plan_->group_of[i]];
    if (const FusedCalls* const group = plan_->ending_with(i)) run_fused(*group, g.arguments, g.outputs);
    return false;
  }
  const Call& c = calls_[i];
  const RecordedCall& r = *c.call;
  if (r.runs != RecordedCall::Runs::each) return false;
  InlineVector<Tensor, 4> results;
  for (const Tensor& t : c.results) results.emplace_back(t);
  const std::span<Tensor> to(results.begin(), results.size());
  if (r.backward) {
    const Backward call{*r.op, r.attrs.view(), c.grads, c.inputs, c.outputs, r.metas, to, r.flags, r.last};
    observed(call, r.backward_kernel);
  } else {
    const Forward call{*r.op, c.arguments, to, r.attrs.view()};
    observed(call, r.forward_kernel);
  }
  bool copied = false;
  for (std::size_t k = 0; k < results.size(); ++k) {
    Tensor wanted = c.results[k];
    if (results[k].defined() && results[k].raw_data() != wanted.raw_data())
      wanted.copy_(results[k]), copied = true;
  }
  return copied;
}

}  // namespace ct::capture_impl
