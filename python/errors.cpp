#include "call_internal.h"

#include <new>
#include <regex>

// Errors: the classes that Python sees, and the library's texts in Python's words.

namespace ct::python {
namespace {

struct ErrorClass {
  const char* name;
  PyObject* alike;  // the class of Python's that a caller expects of its kind
  PyObject* type;
};
ErrorClass& error_class(std::size_t index) {
  static ErrorClass classes[] = {{"Error", PyExc_RuntimeError, nullptr},
                                 {"ShapeError", PyExc_ValueError, nullptr},
                                 {"DTypeError", PyExc_TypeError, nullptr},
                                 {"DeviceError", nullptr, nullptr},
                                 {"IndexError", PyExc_IndexError, nullptr},
                                 {"ValueError", PyExc_ValueError, nullptr},
                                 {"AutogradError", nullptr, nullptr},
                                 {"IoError", PyExc_OSError, nullptr},
                                 {"OutOfMemoryError", PyExc_MemoryError, nullptr},
                                 {"CudaError", nullptr, nullptr}};
  return classes[index];
}
constexpr std::size_t kErrorClasses = 10;

// {.strict = false} is strict=False, Slice and ct:: lose their namespace, true is True.
std::string in_python(std::string text) {
  static const std::pair<std::regex, const char*> words[] = {
      {std::regex(R"(\{\.(\w+) = (\w+)\})"), "$1=$2"},
      {std::regex(R"(\b(\w+)( ?= ?)true\b)"), "$1=True"},
      {std::regex(R"(\b(\w+)( ?= ?)false\b)"), "$1=False"},
      {std::regex(R"(\bct::nn::|\bct::)"), "ct."},
      {std::regex(R"(set_requires_grad\((true)?\))"), "requires_grad_()"},
      {std::regex(R"(to_vector<?\w*>?\(\))"), "tolist()"},
      {std::regex(R"(\bbest_device\(\))"), "\"auto\""},
      {std::regex(R"(NoGrad guard|a NoGrad|\bNoGrad\b)"), "ct.no_grad()"},
      {std::regex(R"(item<\w+>\(\))"), "item()"},
      {std::regex(R"(\bstd::)"), ""},
  };
  for (const auto& [from, to] : words) text = std::regex_replace(text, from, to);
  return text;
}

std::size_t class_of(const Error& error) {
  if (dynamic_cast<const ShapeError*>(&error) != nullptr) return 1;
  if (dynamic_cast<const DTypeError*>(&error) != nullptr) return 2;
  if (dynamic_cast<const DeviceError*>(&error) != nullptr) return 3;
  if (dynamic_cast<const IndexError*>(&error) != nullptr) return 4;
  if (dynamic_cast<const ValueError*>(&error) != nullptr) return 5;
  if (dynamic_cast<const AutogradError*>(&error) != nullptr) return 6;
  if (dynamic_cast<const IoError*>(&error) != nullptr) return 7;
  if (dynamic_cast<const OutOfMemoryError*>(&error) != nullptr) return 8;
  if (dynamic_cast<const CudaError*>(&error) != nullptr) return 9;
  return 0;
}

}  // namespace

void raise(const Error& error) {
  PyErr_SetString(error_class(class_of(error)).type, in_python(error.what()).c_str());
}

void raise_current() noexcept {
  try {
    throw;
  } catch (nb::python_error& error) { error.restore(); } catch (const Error& error) {
    raise(error);
  } catch (const nb::builtin_exception& error) {
    PyObject* const classes[] = {PyExc_RuntimeError, PyExc_StopIteration, PyExc_IndexError,
                                 PyExc_KeyError,     PyExc_ValueError,    PyExc_TypeError,
                                 PyExc_BufferError,  PyExc_ImportError,   PyExc_AttributeError};
    PyErr_SetString(classes[static_cast<int>(error.type())], error.what());
  } catch (const std::bad_alloc&) { PyErr_NoMemory(); } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

void bind_errors(nb::module_& m) {
  for (std::size_t i = 0; i < kErrorClasses; ++i) {
    ErrorClass& one = error_class(i);
    nb::object bases = nb::borrow(i == 0 ? one.alike : error_class(0).type);
    if (i > 0 && one.alike != nullptr) bases = nb::make_tuple(bases, nb::borrow(one.alike));
    const std::string name = detail::cat("cotangent.", one.name);
    one.type = PyErr_NewException(name.c_str(), bases.ptr(), nullptr);
    if (one.type == nullptr) throw nb::python_error();
    m.attr(one.name) = nb::borrow(one.type);
  }
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) { raise(error); }
  });
}

}  // namespace ct::python
