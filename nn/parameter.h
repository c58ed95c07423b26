#pragma once

#include <atomic>
#include <memory>
#include <string>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/tensor_members.h>

// Slots, to which the members of a module's struct are handles: names in the module, and the tensors there.

namespace ct::nn {

namespace detail {
/// How many substitutions (nn/functional_call.h) name a slot. A copy of the slot has none.
class Substitutes {
 public:
  Substitutes() = default;
  Substitutes(const Substitutes&) {}
  Substitutes& operator=(const Substitutes&) { return *this; }
  void add(int n) { count_.fetch_add(n, std::memory_order_relaxed); }
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }

 private:
  std::atomic<int> count_ = 0;
};

/// A tensor of a module, with the name it was made under: what Parameter and Buffer handles point to.
struct TensorSlot {
  std::string name;
  Tensor tensor;  // the module's own
  bool is_buffer = false;
  Substitutes substitutes = {};

  /// Tensor that a forward pass of this thread takes: the substitute of a functional_call(), or else the module's own.
  const Tensor& now() const { return substitutes.any() ? substituted(*this) : tensor; }
  CT_API static const Tensor& substituted(const TensorSlot& slot);
};

struct Entry;  // a name in a module and what it stands for

/// Whether a handle is the one that its module goes by: what add(), parameter() and buffer() gave, wherever it
/// has been moved to since. What is assigned to such a handle takes the place of what was registered. The
/// members of a struct that is copied, moved or assigned as a whole are what they were in the other struct
/// (module_seats.cpp tells how that is known); any other copy of a handle is just that.
class CT_API Seat {
 public:
  Seat() = default;
  Seat(const Seat& from);
  Seat(Seat&& from) noexcept;
  Seat& operator=(const Seat&) = delete;
  ~Seat() { release(); }

  /// Takes the seat of this name.
  void settle(std::shared_ptr<Entry> entry);
  /// At an assignment: the entry that is to be rewritten, or null where handles are just bound anew, which
  /// follow() is for. Throws Error if there are other handles that would go on with the old.
  Entry* to_rewrite(const Seat& from);
  void follow(const Seat& from);
  void follow(Seat&& from) noexcept;

 private:
  bool is_copy_in_struct(const Seat& from) const;
  bool is_move_in_struct(const Seat& from) const;
  bool is_left_behind(const Seat& from) const;
  void release() noexcept;

  std::shared_ptr<Entry> entry_;
  bool holds_ = false;  // false with an entry: moved out on its own, and takes it back when assigned to
};

/// The slot itself, or in a CloneScope (nn/module.h) its copy.
CT_API std::shared_ptr<TensorSlot> copy_or_clone(const std::shared_ptr<TensorSlot>& slot);

/// Common part of Parameter and Buffer.
class CT_API SlotHandle : public TensorHandle, public TensorMembers<SlotHandle> {
 public:
  SlotHandle() = default;
  explicit SlotHandle(std::shared_ptr<Entry> entry);
  SlotHandle(const SlotHandle& other);
  SlotHandle(SlotHandle&& other) noexcept;
  /// Assigning to a member that names a parameter or buffer replaces it in the module as well, by what the
  /// other handle names (by none, if that is nothing): the two share it from then on. Throws as assigning to a
  /// Module does.
  SlotHandle& operator=(const SlotHandle& other);
  SlotHandle& operator=(SlotHandle&& other);

  /// The tensor of now; undefined if there is none. Throws Error for a handle that was moved from.
  const Tensor& tensor() const {
    static const Tensor& none = *new Tensor;  // never destroyed: static objects may still ask at exit
    if (moved_from_) [[unlikely]]
      throw_moved_from();
    return slot_ ? slot_->now() : none;
  }
  bool defined() const { return tensor().defined(); }
  explicit operator bool() const = delete;  // defined(), or the truth of the value, tensor()?
  /// A handle is used wherever a tensor is wanted. It does not turn into a Tensor when it is about to go:
  /// `ct::Tensor w = parameter(...)` does not compile, because such a member would not follow clone().
  operator const Tensor&() const& { return tensor(); }
  operator const Tensor&() && = delete;
  const Tensor* operator->() const { return &tensor(); }
  const Tensor& operator*() const { return tensor(); }
  /// Puts another tensor in this place, for every handle to it: to share one tensor between two layers.
  /// Optimizers made before go on with the old tensor. In place of a parameter that requires a gradient the
  /// new tensor is made to require one. Throws ShapeError, DTypeError or DeviceError unless shape, dtype and
  /// device are the same, AutogradError for a parameter that is no leaf, ValueError for a tensor or a place
  /// that is undefined.
  void replace(const Tensor& tensor) const;

 private:
  [[noreturn]] static void throw_moved_from();
  bool rewrite(const SlotHandle& other);

  Seat seat_;
  std::shared_ptr<TensorSlot> slot_;
  bool moved_from_ = false;
};
}  // namespace detail

/// A member that names a parameter of its module: `nn::Parameter w = parameter("w", ct::zeros({3}));`
class CT_API Parameter : public detail::SlotHandle {
 public:
  using SlotHandle::SlotHandle;
};
/// A member that names a buffer of its module: state that is saved, but not trained.
class CT_API Buffer : public detail::SlotHandle {
 public:
  using SlotHandle::SlotHandle;
};

}  // namespace ct::nn
