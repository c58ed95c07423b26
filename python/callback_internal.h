#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <utility>

#include <nanobind/nanobind.h>

// Python state in C++: whether the interpreter's lock is held, and objects that outlive the call that brought them.
//
// An interpreter that ends kills each other thread that asks for its lock: the thread is unwound through C++ that throws
// nothing, which aborts. So here a thread asks only while there is an answer, and once there is none waits for the end of
// the process; ops that run are waited for (close() in callbacks.cpp).

namespace ct::python {

namespace nb = nanobind;

/// The base of objects that are not moved.
struct Fixed {
  Fixed() = default;
  Fixed(Fixed&&) = delete;
};

/// Other threads may run Python while this lives.
class Released : Fixed {
 public:
  Released() noexcept;
  ~Released();

 private:
  PyThreadState* state_ = nullptr;  // null where another one of the thread's lives
};
/// The interpreter is free while a function that touches C++ alone runs.
using Unlocked = nb::call_guard<Released>;

/// The interpreter's lock, in any thread, whether it has it or not. In a thread of C++'s own it throws Error once the
/// interpreter closes.
class Acquired : Fixed {
 public:
  Acquired();
  /// Takes the lock in a destructor: false once the interpreter closes, and then there is nothing to be done.
  explicit Acquired(std::nothrow_t) noexcept;
  ~Acquired();
  explicit operator bool() const { return how_ != How::refused; }

 private:
  enum class How { refused, had, taken, taken_back };
  How how_ = How::refused;
  PyGILState_STATE state_{};
};

/// Something of Python's that C++ keeps: it may go in any thread, and after the interpreter itself.
template <class T>
struct Kept : Fixed {
  explicit Kept(T from) : value(new T(std::move(from))) {}
  ~Kept() {
    if (const Acquired lock{std::nothrow}) delete value;
  }
  T* value;
};

/// Objects that C++ keeps on behalf of `owner`: a leaf's TensorImpl, a Node. The garbage
/// collector sees them through the Python object that alone holds the owner; no owner, and it does not.
class Held : Fixed {
 public:
  explicit Held(const void* owner, nb::handle first, nb::handle second = {});
  ~Held();
  const void* owner() const { return owner_; }
  nb::object first() const { return nb::borrow(objects_[0]); }  // null once the collector has cleared them
  nb::object second() const { return nb::borrow(objects_[1]); }
  /// first(*arguments). Throws Error once the collector has cleared it.
  nb::object call(const nb::tuple& arguments) const;
  /// Throws TypeError: what first() gave is of a kind that C++ has no use for.
  [[noreturn]] void refuse(nb::handle made) const;
  int visit(visitproc visit, void* arg) const;
  void clear();

 private:
  const void* owner_;
  PyObject* objects_[2];
};
/// f(*arguments), in a thread that the interpreter may kill in there.
nb::object call_python(nb::handle f, const nb::tuple& arguments);

/// Slots for nb::type_slots of Tensor.
extern PyType_Slot tensor_slots[3];

/// A function of Python's as C++ calls it.
template <class Signature>
struct Callback;
template <class R, class... Args>
struct Callback<R(Args...)> {
  std::shared_ptr<Held> held;
  R operator()(Args... args) const {
    const Acquired lock;
    const nb::object made = held->call(nb::make_tuple(std::forward<Args>(args)...));
    if constexpr (!std::is_void_v<R>) {
      R result;
      if (!nb::try_cast(made, result)) held->refuse(made);
      return result;
    }
  }
};

/// Whether the interpreter is ending, as seen from another thread than the one that ends it.
bool closed() noexcept;
/// Once, as the module is made.
void start_process();

}  // namespace ct::python

namespace nanobind::detail {

// Replaces nanobind's caster, which knows neither owners nor the end of the interpreter.
template <class R, class... Args>
struct type_caster<std::function<R(Args...)>> {
  using Result = make_caster<std::conditional_t<std::is_void_v<R>, void_type, R>>;
  NB_TYPE_CASTER(std::function<R(Args...)>, const_name("collections.abc.Callable[[") +
                                                concat(make_caster<Args>::Name...) + const_name("], ") +
                                                Result::Name + const_name("]"))

  bool from_python(handle source, uint32_t flags, cleanup_list*) noexcept {
    if (source.is_none()) return flags & cast_flags::convert;
    if (!PyCallable_Check(source.ptr())) return false;
    using namespace ct::python;
    value = Callback<R(Args...)>{std::make_shared<Held>(nullptr, source)};
    return true;
  }
  static handle from_cpp(const Value& value, rv_policy, cleanup_list*) noexcept {
    const auto* function = value.template target<ct::python::Callback<R(Args...)>>();
    return function ? function->held->first().release() : none().release();
  }
};

}  // namespace nanobind::detail
