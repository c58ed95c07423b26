#include "options.h"

#include <map>
#include <string_view>

#include <structmember.h>

namespace ct::python {
namespace {

// PyTorch's and NumPy's names of arguments, and ours; of several the one that the function has.
constexpr std::string_view kAliases =
    " dim:axis dim:axes dims:axes dims:repeats axis:axes axes:axis dim0:axis0 dim1:axis1 dim2:axis2 "
    "keepdims:keepdim start_dim:first_axis end_dim:last_axis input:x input:a input:logits "
    "input:log_probs input:indices input:like input:weights input:p other:b exponent:b self:x query:q "
    "key:k value:v is_causal:causal attn_mask:mask min:low max:high min_val:low max_val:high a_min:low "
    "a_max:high negative_slope:slope steps:count num_samples:count num_classes:classes size:shape "
    "fill_value:value tensor1:a tensor2:b mat1:a mat2:b vec2:b end:b src:source index:indices "
    "lambd:rate lower:low upper:high split_size_or_sections:size split_size:size sorted_sequence:sorted "
    "elementwise_affine:affine num_embeddings:count embedding_dim:dim T_max:steps T_0:steps "
    "T_mult:multiplier eta_min:min_lr total_iters:steps lr_lambda:factor line_search_fn:line_search "
    "adjust_lr_fn:adjust_lr "
    "max_grad_norm:max_norm n:rows m:columns shifts:shift reps:repeats k:diagonal N:classes "
    "normalized_shape:size src_key_padding_mask:key_padding_mask src_mask:attn_mask "
    "data_source:size dataset:size clip_value:limit source:params source:module mode:enabled mode:maximize "
    "threshold_mode:absolute anneal_strategy:linear "
    "tgt_mask:tgt_attn_mask memory_mask:memory_attn_mask input1:a input2:b input1:x1 input2:x2 x1:a "
    "x2:b x1:x x2:y batch1:a batch2:b tensor:b tensor:indices tensor:t val:value input:values "
    "pad:padding unflattened_size:sizes dimension:axis diagonal:offset split_size_or_sections:sizes "
    "encoder_layer:layer hx:h0 hx:h hx:state a:low b:high param:a ";

}  // namespace

void each_alias(std::string_view theirs, const std::function<bool(std::string_view)>& f) {
  const std::string start = detail::cat(' ', theirs, ':');
  for (std::size_t at = kAliases.find(start); at != std::string_view::npos;
       at = kAliases.find(start, at + 1)) {
    const std::string_view ours = kAliases.substr(at + start.size());
    if (f(ours.substr(0, ours.find(' ')))) return;
  }
}

namespace {

bool is_index(nb::handle value) {
  return PyIndex_Check(value.ptr()) && !PyBool_Check(value.ptr()) && !PySequence_Check(value.ptr());
}
bool is_tensor_like(nb::handle value) {
  return nb::isinstance<Tensor>(value) || nb::hasattr(value, "__dlpack__");
}

bool fits(Kind kind, nb::handle value) {
  switch (kind) {
    case Kind::any: return true;
    case Kind::module: return nb::isinstance<nn::Module>(value);
    case Kind::tensor: return is_tensor_like(value) || value.is_none();
    case Kind::tensors: return PySequence_Check(value.ptr()) && !nb::isinstance<nb::str>(value);
    case Kind::number: return value.is_none() || as_number(value).has_value();
    case Kind::real: return is_number(value) && !PyBool_Check(value.ptr());
    case Kind::flag: return as_number(value) && as_number(value)->kind() == Scalar::Kind::boolean;
    case Kind::integer: return is_index(value);
    case Kind::dtype: return !is_number(value);  // eye(2, 4): the columns
    case Kind::dims:
      return is_index(value) || value.is_none() ||
             (PySequence_Check(value.ptr()) && !is_tensor_like(value) && !nb::isinstance<nb::str>(value));
  }
  return false;
}

// Names are compared by their address: Python has one object for each name that a program is written with.
PyObject* interned(const char* name) {
  static std::map<std::string_view, PyObject*> names;
  PyObject*& found = names[name];
  if (found == nullptr) found = PyUnicode_InternFromString(name);
  return found;
}

int place_of(const Overload& overload, std::string_view name) {
  for (std::size_t i = 0; i < overload.slots.size(); ++i)
    if (overload.slots[i].name == name) return static_cast<int>(i);
  return -1;
}
int place_of(const Overload& overload, PyObject* name) {
  for (std::size_t i = 0; i < overload.slots.size(); ++i)
    if (interned(overload.slots[i].name) == name) return static_cast<int>(i);
  const char* const text = PyUnicode_AsUTF8(name);
  if (text == nullptr) throw nb::python_error();
  int place = place_of(overload, std::string_view(text));
  if (place < 0)
    each_alias(text, [&](std::string_view ours) { return (place = place_of(overload, ours)) >= 0; });
  return place;
}

constexpr std::size_t kMostSlots = 32;
using Places = std::array<PyObject*, kMostSlots>;

struct Given {
  PyObject* const* args;
  std::size_t positional;
  PyObject* names;  // a tuple, or null; their values follow the positional ones
};

// Puts the arguments into their places; false where they do not fit, and `why` then says it.
bool place(const Overload& overload, const Given& given, Places& places, nb::object& gathered,
           std::string* why) {
  places.fill(nullptr);
  std::size_t taken = given.positional;
  const auto first = static_cast<std::size_t>(overload.gathers);
  if (overload.gathers >= 0 && given.positional > first &&
      (is_index(given.args[first]) ||
       (overload.slots[first].kind == Kind::tensors && is_tensor_like(given.args[first])))) {
    nb::list sizes;
    for (std::size_t i = first; i < given.positional; ++i) sizes.append(nb::handle(given.args[i]));
    gathered = nb::tuple(sizes);
    taken = first + 1;
  }
  if (taken > overload.slots.size()) {
    if (why != nullptr)
      *why =
          detail::cat("takes ", overload.slots.size(), " arguments by position, and got ", given.positional);
    return false;
  }
  for (std::size_t i = 0; i < taken; ++i) places[i] = given.args[i];
  if (gathered.is_valid()) places[first] = gathered.ptr();
  const Py_ssize_t count = given.names == nullptr ? 0 : PyTuple_GET_SIZE(given.names);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(given.names, i);
    const int to = place_of(overload, name);
    if (to < 0 || places[static_cast<std::size_t>(to)] != nullptr) {
      if (why != nullptr)
        *why = detail::cat(to < 0 ? "there is no argument '" : "several values were given for '",
                           nb::cast<std::string>(nb::handle(name)), '\'');
      return false;
    }
    places[static_cast<std::size_t>(to)] = given.args[given.positional + static_cast<std::size_t>(i)];
  }
  for (std::size_t i = 0; i < overload.slots.size(); ++i)
    if (overload.slots[i].required && places[i] == nullptr) {
      if (why != nullptr) *why = detail::cat("missing a required argument: '", overload.slots[i].name, '\'');
      return false;
    }
  return true;
}
bool all_fit(const Overload& overload, const Places& places) {
  for (std::size_t i = 0; i < overload.slots.size(); ++i)
    if (places[i] != nullptr && !fits(overload.slots[i].kind, places[i])) return false;
  return true;
}

[[noreturn]] void refuse(const FunctionDef& def, const std::string& why) {
  throw nb::type_error(detail::cat('[', def.op, "] ", why, "; it is ", def.name, def.signature).c_str());
}

// ---- the type ---------------------------------------------------------------------------------------------

struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  const FunctionDef* def;
  PyObject* attributes;  // __module__, __doc__
};

// Calls a function; guarded() makes a C++ exception Python's error by nanobind's translators.
PyObject* call_function(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  const auto& function = *reinterpret_cast<FunctionObject*>(self);
  return guarded([&] {
    return call(*function.def, args, static_cast<std::size_t>(PyVectorcall_NARGS(flags)), names)
        .release()
        .ptr();
  });
}
PyObject* bound_method(PyObject* self, PyObject* to, PyObject*) {
  return to == nullptr ? Py_NewRef(self) : PyMethod_New(self, to);
}
PyObject* get_signature(PyObject* self, void*) {
  return guarded([&] {
    const auto& def = *reinterpret_cast<FunctionObject*>(self)->def;
    return nb::module_::import_("cotangent._signature").attr("of")(def.signature).release().ptr();
  });
}
PyObject* represent(PyObject* self) {
  const auto& def = *reinterpret_cast<FunctionObject*>(self)->def;
  return PyUnicode_FromFormat("<function %s%s>", def.name, def.signature);
}
PyObject* reduce(PyObject* self, PyObject*) {
  return PyUnicode_FromString(reinterpret_cast<FunctionObject*>(self)->def->name);
}
void release(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<FunctionObject*>(self)->attributes);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyTypeObject* function_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
      {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, attributes), READONLY, nullptr},
      {}};
  static PyGetSetDef attributes[] = {{"__signature__", get_signature, nullptr, nullptr, nullptr}, {}};
  static PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr}, {}};
  static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(bound_method)},
                                {Py_tp_repr, reinterpret_cast<void*>(represent)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(release)},
                                {Py_tp_members, members},
                                {Py_tp_getset, attributes},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec = {"cotangent.Function", sizeof(FunctionObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
                             slots};
  static auto* const type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (type == nullptr) throw nb::python_error();
  return type;
}

}  // namespace

nb::object call(const FunctionDef& def, PyObject* const* args, std::size_t positional, PyObject* names) {
  const Given given{args, positional, names};
  Places places;
  nb::object gathered;
  const bool alone = def.overloads.size() == 1;
  for (const Overload& overload : def.overloads) {
    gathered = {};
    if (place(overload, given, places, gathered, nullptr) && (alone || all_fit(overload, places)))
      return overload.run(Values(def.op, overload.slots, places.data()));
  }
  // No overload fits. The first one that has places for the arguments reports, as it reads them, which one is
  // wrong.
  for (const Overload& overload : def.overloads) {
    gathered = {};
    if (!alone && place(overload, given, places, gathered, nullptr)) {
      overload.run(Values(def.op, overload.slots, places.data()));
      break;
    }
  }
  std::string why = "no form of it takes these arguments";
  place(def.overloads.front(), given, places, gathered, &why);
  refuse(def, why);
}

nb::object make_function(const FunctionDef& def, const char* module) {
  PyTypeObject* const type = function_type();
  auto* const made = reinterpret_cast<FunctionObject*>(PyType_GenericAlloc(type, 0));
  if (made == nullptr) throw nb::python_error();
  made->vectorcall = call_function;
  made->def = &def;
  nb::dict attributes;
  attributes["__module__"] = module;
  attributes["__doc__"] = def.doc;
  attributes["__name__"] = attributes["__qualname__"] = nb::str(def.name);
  made->attributes = attributes.release().ptr();
  return nb::steal(reinterpret_cast<PyObject*>(made));
}

void construct(const FunctionDef& def, nb::handle self, void* place, const nb::args& args,
               const nb::kwargs& named) {
  const nb::capsule where(place);
  std::vector<PyObject*> values{where.ptr()};
  for (nb::handle one : args) values.push_back(one.ptr());
  nb::list names;
  for (const auto& [name, value] : named) {
    names.append(name);
    values.push_back(value.ptr());
  }
  const nb::tuple keywords(names);
  call(def, values.data(), args.size() + 1, keywords.size() == 0 ? nullptr : keywords.ptr());
  if (!nb::hasattr(self, "__dict__")) return;
  const nb::object attributes = self.attr("__dict__");
  attributes["_made"] = nb::make_tuple(nb::borrow<nb::tuple>(args), nb::borrow<nb::dict>(named));
  nb::dict options;  // by our names
  const Overload& first = def.overloads.front();
  for (const auto& [name, value] : named) {
    const int to = place_of(first, name.ptr());
    options[to < 0 ? nb::borrow(name) : nb::cast(first.slots[static_cast<std::size_t>(to)].name)] = value;
  }
  attributes["_settings"] =
      nb::module_::import_("cotangent._signature").attr("bound")(def.signature, args, options);
}

void read(const Argument& argument, nb::handle value, OptionalScale2d& to) {
  if (value.is_none() || is_number(value)) {
    to = value.is_none() ? OptionalScale2d() : OptionalScale2d(read_as<double>(argument, value));
    return;
  }
  if (!nb::isinstance<nb::sequence>(value) || nb::len(value) != 2)
    argument.refuse(value, "a number or a pair of numbers");
  to = OptionalScale2d(read_as<double>(argument, value[0]), read_as<double>(argument, value[1]));
}

Tensor Values::tensor(std::size_t i) const {
  const nb::handle value = values_[i];
  if (nb::isinstance<Tensor>(value)) return nb::cast<Tensor>(value);
  if (const std::optional<Scalar> number = as_number(value)) {
    for (std::size_t k = 0; k < slots_.size(); ++k)
      if (k != i && values_[k] != nullptr && slots_[k].kind == Kind::tensor && is_tensor_like(values_[k])) {
        const Tensor beside = read_as<Tensor>(argument(k), values_[k]);
        return full({}, *number, {.dtype = promote(beside.dtype(), *number), .device = beside.device()});
      }
    argument(i).refuse(value, "a tensor");
  }
  if (value.is_none() && slots_[i].required) argument(i).refuse(value, "a tensor");
  return read_as<Tensor>(argument(i), value);
}
std::vector<Tensor> Values::tensors(std::size_t i) const {
  const nb::handle value = values_[i];
  if (nb::isinstance<Tensor>(value) || nb::isinstance<nb::str>(value) || !nb::hasattr(value, "__iter__"))
    argument(i).refuse(value, "a list of tensors");
  std::vector<Tensor> made;
  for (nb::handle one : nb::iter(value)) {
    if (one.is_none()) argument(i).refuse(one, "a list of tensors");
    made.push_back(read_as<Tensor>({op_, slots_[i].name}, one));
  }
  return made;
}
Generator& Values::generator(std::size_t i) const {
  return given(i) && values_[i] != Py_None ? object<Generator>(i) : default_generator();
}
void Values::refuse_object(std::size_t i, nb::handle type) const {
  argument(i).refuse(values_[i],
                     detail::cat("a cotangent.", nb::cast<std::string>(type.attr("__name__"))).c_str());
}

void publish(nb::module_& m, nb::handle tensor, const FunctionDef& def, bool function, bool method) {
  const nb::object made = make_function(def, "cotangent");
  if (function) m.attr(def.name) = made;
  if (method &&
      PyDict_GetItemString(reinterpret_cast<PyTypeObject*>(tensor.ptr())->tp_dict, def.name) == nullptr)
    tensor.attr(def.name) = made;
}

nb::object make_named(const char* name, const char* fields) {
  return nb::module_::import_("collections")
      .attr("namedtuple")(name, fields, nb::arg("module") = "cotangent");
}

}  // namespace ct::python
