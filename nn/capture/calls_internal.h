#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/core/tensor/tensor.h>

// Calls of ops as a list: recorded without holding a tensor, run again by kernels alone. The memory must still be there then,
// as it is in a memory pool.

namespace ct::capture_impl {

using namespace detail;

/// A tensor as a call had it: its storage by number, its place in it. Number 0 stands for an undefined or empty one.
struct Place {
  std::uint64_t storage = 0;
  void* data = nullptr;  // of the storage
  std::size_t bytes = 0;
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;
  DType dtype = DType::f32;
  Device device;
  bool defined = false;

  Place() = default;
  CT_API explicit Place(const Tensor& t);
  /// Whether shape, strides, offset, dtype and device are the same.
  bool laid_out_as(const Place& other) const;
};

/// The tensor there, whose memory others hold; undefined where it was.
Tensor tensor_at(const Place& place);

/// A call of an op: all that its kernel gets.
struct CT_API RecordedCall {
  explicit RecordedCall(const KernelCall& call);
  /// Results that are known only once the kernel has run: gradients.
  void finish(const KernelCall& call);

  /// "softmax", backward "softmax'".
  std::string name() const;
  template <class F>
  void for_each_place(F&& f) const {
    for (const auto* list : {&inputs, &outputs, &grads, &results})
      for (const Place& p : *list) f(p);
  }

  /// Whether a replay makes the call: `once` has been made before the first one, `elsewhere` is a part of another call.
  enum class Runs : std::uint8_t { each, once, elsewhere };

  const OpDef* op;
  Runs runs = Runs::each;
  ForwardFn forward_kernel;
  BackwardFn backward_kernel;
  bool backward = false, last = false;
  AnyAttrs attrs;
  std::vector<Place> inputs, outputs, grads, results;
  std::vector<TensorMeta> metas;
  std::vector<std::uint8_t> flags;
};

/// Whether two calls of `op` have the same attributes; `differing` is then the name of one that is not.
CT_API bool same_attributes(const OpDef& op, const AnyAttrs& a, const AnyAttrs& b, const char** differing);

/// Records the calls of its thread; those that a kernel makes are a part of its own. A backward kernel that is the op's rule
/// is nothing but calls of other ops: these are recorded in its place.
class CT_API CallRecorder : public Tracer {
 public:
  bool begin(const KernelCall& call) override;
  void end(const KernelCall& call) override;

  std::vector<RecordedCall> calls;

 protected:
  virtual void beginning(const KernelCall&) {}
  virtual void ended(const KernelCall&) {}

 private:
  int depth_ = 0;
};

struct FusionPlan;

/// Runs recorded calls again, each kernel on the memory that it had. The calls must outlive it.
class CT_API CallList {
 public:
  /// Calls of one group of the plan run together; those that the device has no kernel for leave it.
  explicit CallList(const std::vector<RecordedCall>& calls, std::shared_ptr<FusionPlan> plan = nullptr);
  /// Runs call i, or the group that ends with it. True if its kernel made a result of its own, which was copied to where the
  /// recording had it.
  bool run(std::size_t i) const;
  std::size_t size() const { return calls_.size(); }
  /// Null where none was given.
  const FusionPlan* plan() const { return plan_.get(); }

  /// Memory that a recorded call was the first to touch, and wrote.
  std::vector<Ref<Storage>> made;

 private:
  struct Call {
    const RecordedCall* call = nullptr;
    std::vector<Tensor> inputs, outputs, grads, results;
    std::vector<const Tensor*> arguments;  // a forward call's inputs
  };
  // The tensors of a group.
  struct Group {
    std::vector<Tensor> inputs, outputs;
    std::vector<const Tensor*> arguments;
  };
  std::vector<Tensor> tensors(const std::vector<Place>& list);
  void add_groups();

  std::unordered_map<std::uint64_t, Ref<Storage>> storages_;
  std::vector<Call> calls_;
  std::shared_ptr<FusionPlan> plan_;
  mutable std::vector<Group> groups_;
};

}  // namespace ct::capture_impl
