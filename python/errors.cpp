#include <new>
#include <regex>

#include "call_internal.h"

// Errors: the classes that Python sees, and the library's texts in Python's words.

namespace ct::python {
namespace {

struct ErrorClass {
  const char* name;
  PyObject* alike;  // the class of Python's that a caller expects of its kind
  bool (*is)(const Error&);
  PyObject* type = nullptr;
};
template <class E>
bool is(const Error& error) {
  return dynamic_cast<const E*>(&error) != nullptr;
}
std::span<ErrorClass> error_classes() {
  static ErrorClass classes[] = {{"Error", PyExc_RuntimeError, nullptr},
                                 {"ShapeError", PyExc_ValueError, is<ShapeError>},
                                 {"DTypeError", PyExc_TypeError, is<DTypeError>},
                                 {"DeviceError", nullptr, is<DeviceError>},
                                 {"IndexError", PyExc_IndexError, is<IndexError>},
                                 {"ValueError", PyExc_ValueError, is<ValueError>},
                                 {"AutogradError", nullptr, is<AutogradError>},
                                 {"IoError", PyExc_OSError, is<IoError>},
                                 {"OutOfMemoryError", PyExc_MemoryError, is<OutOfMemoryError>},
                                 {"CudaError", nullptr, is<CudaError>},
                                 {"CaptureError", nullptr, is<CaptureError>}};
  return classes;
}

// {.strict = false} is strict=False, ct:: is ct., true is True.
std::string in_python(std::string text) {
  static const std::pair<std::regex, const char*> words[] = {
      {std::regex(R"(\{\.(\w+) = (\w+)\})"), "$1=$2"},
      {std::regex(R"(\b(\w+)( ?= ?)true\b)"), "$1=True"},
      {std::regex(R"(\b(\w+)( ?= ?)false\b)"), "$1=False"},
      {std::regex(R"(\bct::nn::|\bct::)"), "ct."},
      {std::regex(R"(set_requires_grad\((true)?\))"), "requires_grad_()"},
      {std::regex(R"(to_vector(<\w+>)?\(\))"), "tolist()"},
      {std::regex(R"(\bbest_device\(\))"), "\"auto\""},
      {std::regex("a NoGrad guard"), "`with ct.no_grad():`"},
      {std::regex("stack, or use the out-of-place form"),
       "stack, or write `x[i] = x[i] + y` for `x[i] += y`"},
      {std::regex(R"(NoGrad guard|a NoGrad|\bNoGrad\b)"), "ct.no_grad()"},
      {std::regex(R"(item<\w+>\(\))"), "item()"}};
  for (const auto& [from, to] : words) text = std::regex_replace(text, from, to);
  return text;
}

void raise(const Error& error) {
  const ErrorClass* found = &error_classes()[0];
  for (const ErrorClass& one : error_classes().subspan(1))
    if (one.is(error)) found = &one;
  PyErr_SetString(found->type, in_python(error.what()).c_str());
}

}  // namespace

void raise_current() noexcept {
  static PyObject* const rethrow =
      nb::cpp_function([] { throw; }).release().ptr();  // nanobind knows what it is in Python
  Py_XDECREF(PyObject_CallNoArgs(rethrow));
}

void bind_errors(nb::module_& m) {
  for (ErrorClass& one : error_classes()) {
    nb::object bases = nb::borrow(&one == &error_classes()[0] ? one.alike : error_classes()[0].type);
    if (&one != &error_classes()[0] && one.alike != nullptr)
      bases = nb::make_tuple(bases, nb::borrow(one.alike));
    one.type = PyErr_NewException(detail::cat("cotangent.", one.name).c_str(), bases.ptr(), nullptr);
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
