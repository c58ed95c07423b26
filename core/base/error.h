#pragma once

#include <initializer_list>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/number.h>

// Typed errors. Every message has the form
//     [op] what was found; what is wanted, or what to do
// for example
//     [matmul] inner dimensions differ: a is f32[64, 784], b is f32[783, 10]; a.size(-1) must equal
//     b.size(-2)
// A failed call changes nothing, and the next correct call works. (Of a failed backward() some gradients may
// remain: see autograd/engine.h.)

namespace ct {

/// Base of every exception that this library throws on purpose.
class CT_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Shapes, ranks, axes or sizes do not fit.
class CT_API ShapeError : public Error {
 public:
  using Error::Error;
};
/// An element type is not supported, or two of them do not fit.
class CT_API DTypeError : public Error {
 public:
  using Error::Error;
};
/// A device is missing, unknown, or differs from the other operands' device.
class CT_API DeviceError : public Error {
 public:
  using Error::Error;
};
/// An index, label or token lies outside its range.
class CT_API IndexError : public Error {
 public:
  using Error::Error;
};
/// A number or setting lies outside its range (a negative learning rate, a probability above 1).
class CT_API ValueError : public Error {
 public:
  using Error::Error;
};
/// The tape is used in a way that has no meaning (second backward, in-place change of a saved tensor).
class CT_API AutogradError : public Error {
 public:
  using Error::Error;
};
/// A file or directory can't be read or written, or its contents are malformed.
class CT_API IoError : public Error {
 public:
  using Error::Error;
};
/// An allocator has no more memory to give. The message says what is in use and what to try.
class CT_API OutOfMemoryError : public Error {
 public:
  using Error::Error;
};
/// A CUDA, cuBLAS or driver call failed.
class CT_API CudaError : public Error {
 public:
  using Error::Error;
};

/// A step can't be captured, or a captured one can't be replayed (nn/capture/capture.h). The message says what is in the way.
class CT_API CaptureError : public Error {
 public:
  using Error::Error;
};

namespace detail {

/// A stream for texts: what it writes is the same under every locale of the program.
CT_API std::ostringstream text_stream();
/// 1.5 with 2 decimals: "1.50", and "1.50e+00". Under every locale.
CT_API std::string fixed(double value, int decimals);
CT_API std::string scientific(double value, int decimals);

/// Prints numbers with as many digits as tell them from their neighbours, other things through operator<<.
CT_API void show(std::ostream& out, double value);
CT_API void show(std::ostream& out, float value);
template <class T>
void show(std::ostream& out, const T& value) {
  out << value;
}
template <class T>
void show(std::ostream& out, const Exactly<T>& value) {
  show(out, static_cast<T>(value));
}

/// A part of a text: what is shown, and how. Texts differ in the types of their parts, and there are hundreds of them, so
/// what puts them together is one function that knows none of these types.
struct Shown {
  const void* what;
  void (*write)(std::ostream& out, const void* what);

  Shown(const char* text) : what(text), write(write_text) {}
  template <class T>
  Shown(const T& value) : what(std::addressof(value)), write(write_value<T>) {}

 private:
  CT_API static void write_text(std::ostream& out, const void* text);
  template <class T>
  static void write_value(std::ostream& out, const void* value) {
    show(out, *static_cast<const T*>(value));
  }
};
CT_API std::string joined(std::initializer_list<Shown> parts);

/// Prints its arguments one after the other.
template <class... Args>
std::string cat(const Args&... args) {
  return joined({Shown(args)...});
}

template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void fail_with(std::initializer_list<Shown> parts) {
  throw E(joined(parts));
}
template <class E, class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const char* op, const Args&... args) {
  fail_with<E>({"[", op, "] ", Shown(args)...});
}

}  // namespace detail
}  // namespace ct

/// Throws `type` with the message "[op] ..." unless `cond` holds. The message is only built on failure.
#define CT_CHECK(cond, type, op, ...)              \
  do {                                             \
    if (!(cond)) [[unlikely]]                      \
      ::ct::detail::fail<type>((op), __VA_ARGS__); \
  } while (false)

/// An internal invariant: checked in debug builds only, never used for user input.
#ifdef NDEBUG
#define CT_ASSERT(cond) ((void)0)
#else
#define CT_ASSERT(cond) \
  CT_CHECK(cond, ::ct::Error, "internal", "invariant broken: " #cond " at " __FILE__ ":", __LINE__)
#endif
