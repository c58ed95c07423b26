#pragma once

#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <cotangent/core/device/in_call.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/core/tensor/tensor.h>

// A recorder of calls that holds no tensor, and their replay by kernels alone: without dispatch, tape or handles of the
// program's. The memory must still be there, as it is in a memory pool.

namespace ct::testing {

/// A tensor as a call had it: its storage by number, its place in it. Number 0 stands for an undefined one.
struct Seen {
  std::uint64_t storage = 0;
  void* data = nullptr;  // of the storage
  std::size_t bytes = 0;
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;
  DType dtype = f32;
  Device device;

  Seen() = default;
  explicit Seen(const Tensor& t) {
    if (!t.defined()) return;
    const Storage& memory = *t.impl()->storage;
    storage = memory.id(), data = memory.data(), bytes = memory.bytes();
    shape = t.shape(), strides = t.strides(), offset = t.storage_offset();
    dtype = t.dtype(), device = t.device();
  }
};

/// A call of an op: all that its kernel gets.
struct RecordedCall {
  explicit RecordedCall(const KernelCall& call)
      : op(&call.op), attrs(copied(call.forward ? call.forward->attrs_view : call.backward->attrs_view)) {
    if (call.forward) {
      for (const Tensor* t : call.forward->inputs) inputs.emplace_back(*t);
      return;
    }
    const Backward& b = *call.backward;
    backward = true, last = b.last;
    for (const Tensor& t : b.saved_inputs) inputs.emplace_back(t);
    for (const Tensor& t : b.saved_outputs) outputs.emplace_back(t);
    for (const Tensor& t : b.grads) grads.emplace_back(t);
    metas.assign(b.input_metas.begin(), b.input_metas.end());
    flags.assign(b.flags.begin(), b.flags.end());
  }
  /// Results that are known only once the kernel has run: those whose shape it tells, gradients.
  void finish(const KernelCall& call) {
    for (const Tensor& t : backward ? call.backward->grad_inputs : call.forward->outputs)
      results.emplace_back(t);
  }

  const OpDef* op;
  bool backward = false, last = false;
  AnyAttrs attrs;
  std::vector<Seen> inputs, outputs, grads, results;
  std::vector<TensorMeta> metas;
  std::vector<std::uint8_t> flags;

 private:
  static AnyAttrs copied(AttrsView view) {
    AnyAttrs attrs;
    if (view.size > 0) std::memcpy(attrs.bytes.data(), view.data, view.size);
    attrs.size = view.size;
    return attrs;
  }
};

/// Records the calls of its thread; those that a kernel makes are a part of its own. A backward kernel that is the op's rule
/// is nothing but calls of other ops: these are recorded in its place.
class CallRecorder : public Tracer {
 public:
  bool begin(const KernelCall& call) override {
    if (!is_rule(call) && depth_++ == 0) calls.emplace_back(call);
    return false;
  }
  void end(const KernelCall& call) override {
    if (!is_rule(call) && --depth_ == 0) calls.back().finish(call);
  }

  std::vector<RecordedCall> calls;

 private:
  static bool is_rule(const KernelCall& call) {
    if (!call.backward) return false;
    const TensorMeta& x = call.backward->input_metas[0];
    return kernels_of(call.op, kernel_kind(call.op, x.device, x.dtype)).backward == call.op.rule;
  }
  int depth_ = 0;
};

/// Runs recorded calls again, each kernel on the memory that it had.
class Replay {
 public:
  explicit Replay(const std::vector<RecordedCall>& calls) {
    for (const RecordedCall& call : calls) {
      Call& c = calls_.emplace_back();
      c.call = &call;
      c.inputs = tensors(call.inputs), c.outputs = tensors(call.outputs), c.grads = tensors(call.grads);
      const std::size_t known = storages_.size();
      c.results = tensors(call.results);
      if (storages_.size() == known) continue;
      for (const Tensor& t : c.results)
        if (t.defined() && t.impl()->storage->use_count() == 2) made.push_back(t.impl()->storage);
    }
  }

  void run() {
    for (const Call& call : calls_) run(call);
  }
  /// Memory that a recorded call was the first to touch, and wrote.
  std::vector<Ref<Storage>> made;
  /// Ops that put a result into memory of their own, from where it is copied to its place in the recording; those that
  /// allocate.
  std::set<std::string> strays, allocating;

 private:
  struct Call {
    const RecordedCall* call = nullptr;
    std::vector<Tensor> inputs, outputs, grads, results;
  };

  std::vector<Tensor> tensors(const std::vector<Seen>& list) {
    std::vector<Tensor> out;
    for (const Seen& seen : list) {
      Tensor& t = out.emplace_back();
      if (seen.storage == 0) continue;
      Ref<Storage>& memory = storages_[seen.storage];
      if (!memory) memory = Storage::wrap(seen.data, seen.bytes, seen.device, {});
      t = Tensor::from_storage(memory, seen.shape, seen.strides, seen.offset, seen.dtype);
    }
    return out;
  }

  void run(const Call& c) {
    const RecordedCall& r = *c.call;
    const std::string name = std::string(r.op->name) + (r.backward ? "'" : "");
    std::vector<Tensor> results = c.results;
    const std::uint64_t requests = memory_stats(cpu).requests;
    const detail::InCall inside;
    if (r.backward) {
      const KernelKind kind = kernel_kind(*r.op, r.metas[0].device, r.metas[0].dtype);
      kernels_of(*r.op, kind)
          .backward({*r.op, r.attrs.view(), c.grads, c.inputs, c.outputs, r.metas, results, r.flags, r.last});
    } else {
      std::vector<const Tensor*> inputs;
      for (const Tensor& t : c.inputs) inputs.push_back(&t);
      const KernelKind kind = kernel_kind(*r.op, c.inputs[0].device(), c.inputs[0].dtype());
      kernels_of(*r.op, kind).forward({*r.op, inputs, results, r.attrs.view()});
    }
    if (memory_stats(cpu).requests != requests) allocating.insert(name);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].defined() || results[i].raw_data() == c.results[i].raw_data()) continue;
      strays.insert(name);
      const Storage &from = *results[i].impl()->storage, &to = *c.results[i].impl()->storage;
      if (from.bytes() == to.bytes()) std::memcpy(to.data(), from.data(), to.bytes());
    }
  }

  std::map<std::uint64_t, Ref<Storage>> storages_;
  std::vector<Call> calls_;
};

}  // namespace ct::testing
