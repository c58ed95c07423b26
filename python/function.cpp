#include "bindings_internal.h"

#include <algorithm>
#include <any>
#include <unordered_set>

#include <cotangent/autograd/function_node.h>

// Functions that are written in Python, forward and backward (cotangent/function.py).

namespace ct::python {
namespace {

// Python's view of a FunctionContext, valid while forward or backward runs.
struct Context {
  FunctionNode* node = nullptr;
  int running = 0;  // in several threads, it may be
  nb::list needs;   // of each argument, tensor or not
  std::vector<Tensor> constants;

  FunctionNode& get(const char* what) const {
    CT_CHECK(running > 0, AutogradError, "Function", "ctx.", what,
             " was asked for when neither forward nor backward runs; keep what it gives, and not ctx");
    return *node;
  }
};
struct Visible : Fixed {
  explicit Visible(Context& seen) : context(seen) { ++context.running; }
  ~Visible() { --context.running; }
  Context& context;
};

// A call on the tape, for its backward.
struct Called {
  Called(const Node* node, const nb::object& function, const nb::object& context, std::vector<std::size_t> p)
      : held(static_cast<const RefCounted*>(node), function, context), places(std::move(p)) {}
  Held held;                        // the function and its context, for the node
  std::vector<std::size_t> places;  // of the tensors among the arguments
};
using Shared = std::shared_ptr<Called>;  // std::any copies

bool is_list(nb::handle made) { return nb::isinstance<nb::tuple>(made) || nb::isinstance<nb::list>(made); }
nb::tuple as_tuple(const nb::object& made) { return is_list(made) ? nb::tuple(made) : nb::make_tuple(made); }
nb::tuple python_of(const std::vector<Tensor>& tensors) { return nb::tuple(nb::cast(tensors)); }
std::string name_of(const nb::object& function) { return nb::cast<std::string>(function.attr("__name__")); }
nb::tuple joined(const nb::object& first, const nb::tuple& rest) {
  return nb::borrow<nb::tuple>(nb::make_tuple(first) + rest);
}
std::vector<Tensor> read_all(const char* op, const char* what, const nb::tuple& values) {
  std::vector<Tensor> tensors;
  for (nb::handle one : values) tensors.push_back(read_as<Tensor>({op, what}, one));
  return tensors;
}

std::vector<Tensor> backward(FunctionContext& context, const std::vector<Tensor>& cotangents) {
  const Acquired lock;
  const Shared called = std::any_cast<const Shared&>(context.data);
  const nb::object function = called->held.first(), given = called->held.second();
  CT_CHECK(function.is_valid(), AutogradError, "Function",
           "the garbage collector has taken this node apart; keep a reference to what it made");
  Context& seen = nb::cast<Context&>(given);
  const Visible visible(seen);
  const nb::tuple made =
      as_tuple(call_python(function.attr("backward"), joined(given, python_of(cotangents))));
  const std::string name = name_of(function);
  std::size_t count = made.size();
  while (count > seen.needs.size() && made[count - 1].is_none()) --count;
  CT_CHECK(count == seen.needs.size(), AutogradError, name.c_str(), "backward gave ", made.size(),
           " gradients, and forward has ", seen.needs.size(),
           " arguments; one for each is wanted, None where there is none");
  std::vector<Tensor> gradients;
  for (const std::size_t place : called->places)
    gradients.push_back(read_as<Tensor>({name.c_str(), "a gradient"}, made[place]));
  return gradients;
}

// The tensors among the arguments, as they were before forward ran.
struct Inputs {
  std::vector<Tensor> tensors;
  std::vector<std::size_t> places;
  std::vector<std::uint32_t> versions;

  void add(const Tensor& t, std::size_t place) {
    tensors.push_back(t), places.push_back(place), versions.push_back(t.impl()->storage->version());
  }
  // Its node would stand for a value that is there no more.
  void check_unchanged(const std::string& name) const {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      CT_CHECK(!tensors[i].requires_grad() || versions[i] == tensors[i].impl()->storage->version(),
               AutogradError, name.c_str(), "forward changed its argument ", places[i],
               " in place, whose gradient is wanted; let it work on a clone()");
  }
};

std::vector<Tensor> read_outputs(const std::string& name, const nb::object& made) {
  std::vector<Tensor> outputs;
  for (nb::handle one : as_tuple(made)) {
    if (!nb::isinstance<Tensor>(one)) Argument{name.c_str(), "what forward gave"}.refuse(one, "a Tensor");
    outputs.push_back(nb::cast<Tensor>(one));
  }
  return outputs;
}

// Gives the outputs their places on the tape, but those that were marked, or all where nothing is recorded.
void give_history(std::vector<Tensor>& outputs, const Inputs& inputs, const Context& context,
                  const Ref<FunctionNode>& node, bool recording) {
  std::vector<bool> constant;
  for (const Tensor& out : outputs)
    constant.push_back(!recording || std::any_of(context.constants.begin(), context.constants.end(),
                                                 [&](const Tensor& t) { return t.is_same(out); }));
  if (recording) node->set_outputs(outputs, inputs.tensors, node);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (constant[i] && outputs[i].requires_grad()) outputs[i] = outputs[i].detach();
}

nb::object apply(const nb::object& function, const nb::args& arguments) {
  const std::string name = name_of(function);
  Inputs inputs;
  Context context;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool tensor = nb::isinstance<Tensor>(arguments[i]);
    if (tensor) inputs.add(nb::cast<Tensor>(arguments[i]), i);
    context.needs.append(tensor && grad_enabled() && inputs.tensors.back().requires_grad());
  }
  const bool recording = grad_enabled() && detail::any_requires_grad(inputs.tensors);
  const auto node = make_ref<FunctionNode>(name, &backward, inputs.tensors);
  context.node = node.get();
  const nb::object given = nb::cast(std::move(context));
  Context& seen = nb::cast<Context&>(given);
  node->context().data = std::make_shared<Called>(node.get(), function, given, inputs.places);

  const Visible visible(seen);
  nb::object made;
  {
    const NoGrad guard;
    const nb::object own = nb::getattr(function, "setup_context", nb::none());
    if (own.is_none()) {
      made = call_python(function.attr("forward"), joined(given, arguments));
    } else {
      made = call_python(function.attr("forward"), arguments);
      call_python(own, nb::make_tuple(given, arguments, made));
    }
  }
  std::vector<Tensor> outputs = read_outputs(name, made);
  if (recording) inputs.check_unchanged(name);
  give_history(outputs, inputs, seen, node, recording);
  seen.constants.clear();
  return is_list(made) ? nb::object(python_of(outputs)) : nb::cast(outputs[0]);
}

// ---- Queries of cotangent/torch.py about a tape

// Whether a tape leads from the results to a leaf that is none of `known`.
bool leads_elsewhere(const std::vector<Tensor>& results, const std::vector<Tensor>& known) {
  std::unordered_set<const void*> seen;
  for (const Tensor& t : known) seen.insert(t.impl());
  std::vector<Edge> open;
  for (const Tensor& t : results)
    if (t.requires_grad()) open.push_back(detail::gradient_edge(t));
  while (!open.empty()) {
    const Edge edge = std::move(open.back());
    open.pop_back();
    if (edge.leaf && seen.insert(edge.leaf.get()).second) return true;
    if (!edge.node || !seen.insert(edge.node.get()).second) continue;
    for (const Edge& next : edge.node->edges) open.push_back(next);
  }
  return false;
}

// The tensor, or a copy where somebody else may look at its memory.
Tensor own_memory(const Tensor& t) {
  const TensorImpl& impl = *t.impl();
  return impl.use_count() == 1 && impl.storage.unique() && impl.storage->is_owned() ? t : t.clone();
}

void bind_tape(nb::module_& m) {
  m.def("_memory", [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.impl()->storage.get()); });
  m.def("_version", [](const Tensor& t) { return t.impl()->storage->version(); });
  m.def("_touch", [](const Tensor& t) { t.impl()->storage->bump_version(); });
  m.def("_own", &own_memory);
  m.def("_leaves", &leads_elsewhere);
}

}  // namespace

void bind_function(nb::module_& m) {
  nb::class_<Context>(
      m, "FunctionContext", nb::dynamic_attr(), nb::is_weak_referenceable(),
      "What a Function's forward hands to its backward; attributes of one's own may be added.")
      .def(
          "save_for_backward",
          [](Context& context, const nb::args& tensors) {
            const auto kept = read_all("save_for_backward", "an argument", tensors);
            context.get("save_for_backward").context().save_for_backward(kept);
          },
          "Keeps tensors (or None) for backward; in-place changes to them are caught.")
      .def_prop_ro(
          "saved_tensors",
          [](Context& context) { return python_of(context.get("saved_tensors").context().saved()); },
          "What was kept, in order.")
      .def_prop_ro(
          "needs_input_grad", [](const Context& context) { return nb::tuple(context.needs); },
          "Whether the gradient of each argument is wanted.")
      .def(
          "mark_non_differentiable",
          [](Context& context, const nb::args& outputs) {
            context.get("mark_non_differentiable");
            for (Tensor& one : read_all("mark_non_differentiable", "an argument", outputs))
              context.constants.push_back(std::move(one));
          },
          "These outputs are constants.")
      .def(
          "set_materialize_grads",
          [](Context& context, bool value) {
            context.get("set_materialize_grads").take_undefined_grads(!value);
          },
          nb::arg("value"), "False: backward gets None for a cotangent that is missing, and not zeros.")
      .def("mark_dirty", [](const Context&, const nb::args&) {
        ct::detail::fail<AutogradError>("mark_dirty",
                                        "a Function that changes its arguments in place is not there; let "
                                        "forward work on a clone()");
      });
  m.def("_apply", &apply, nb::arg("function"), nb::arg("arguments"));
  bind_tape(m);
}

}  // namespace ct::python
