#include "bindings_internal.h"

#include <any>

#include <cotangent/autograd/function_node.h>

// Functions that are written in Python, forward and backward (cotangent/function.py).

namespace ct::python {
namespace {

// What Python sees of a FunctionContext: it is there while forward or backward runs.
struct Context {
  FunctionContext* now = nullptr;
  std::vector<bool> needs;  // of each argument, tensor or not

  FunctionContext& get(const char* what) const {
    CT_CHECK(now != nullptr, AutogradError, "Function", "ctx.", what,
             " was asked for when neither forward nor backward runs; keep what it gives, and not ctx");
    return *now;
  }
};
class Visible {
 public:
  Visible(Context& context, FunctionContext& now) : context_(context) { context.now = &now; }
  ~Visible() { context_.now = nullptr; }
  Visible(const Visible&) = delete;
  Visible& operator=(const Visible&) = delete;

 private:
  Context& context_;
};

// A call that is on the tape: what goes back through it.
struct Called {
  nb::object function, context;
  std::vector<std::size_t> places;  // of the tensors among the arguments
};
using Held = std::shared_ptr<Kept<Called>>;  // std::any copies

nb::tuple as_tuple(const nb::object& made) {
  return nb::isinstance<nb::tuple>(made) || nb::isinstance<nb::list>(made) ? nb::tuple(made)
                                                                           : nb::make_tuple(made);
}
nb::object python_of(const Tensor& t) { return t.defined() ? nb::cast(t) : nb::none(); }
nb::list python_of(const std::vector<Tensor>& tensors) {
  nb::list list;
  for (const Tensor& t : tensors) list.append(python_of(t));
  return list;
}

std::vector<Tensor> backward(FunctionContext& context, const std::vector<Tensor>& cotangents) {
  const nb::gil_scoped_acquire lock;
  const Called& called = *std::any_cast<const Held&>(context.data)->value;
  Context& seen = nb::cast<Context&>(called.context);
  const Visible visible(seen, context);
  const nb::tuple made = as_tuple(called.function.attr("backward")(called.context, *python_of(cotangents)));
  const auto name = nb::cast<std::string>(called.function.attr("__name__"));
  CT_CHECK(made.size() == seen.needs.size(), AutogradError, name.c_str(), "backward gave ", made.size(),
           " gradients, and forward has ", seen.needs.size(),
           " arguments; one for each is wanted, None where there is none");
  std::vector<Tensor> gradients;
  for (const std::size_t place : called.places)
    gradients.push_back(read_as<Tensor>({name.c_str(), "a gradient"}, made[place]));
  return gradients;
}

nb::object apply(const nb::object& function, const nb::args& arguments) {
  const auto name = nb::cast<std::string>(function.attr("__name__"));
  std::vector<Tensor> inputs;
  std::vector<std::size_t> places;
  Context context;
  const bool recording = grad_enabled();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool tensor = nb::isinstance<Tensor>(arguments[i]);
    if (tensor) inputs.push_back(nb::cast<Tensor>(arguments[i])), places.push_back(i);
    context.needs.push_back(tensor && recording && inputs.back().requires_grad());
  }
  const nb::object seen = nb::cast(std::move(context));
  const auto node = make_ref<FunctionNode>(name, &backward, inputs);
  node->context().data = std::make_shared<Kept<Called>>(Called{function, seen, places});

  nb::object made;
  {
    const Visible visible(nb::cast<Context&>(seen), node->context());
    const NoGrad guard;
    made = function.attr("forward")(seen, *arguments);
  }
  std::vector<Tensor> outputs;
  for (nb::handle one : as_tuple(made)) {
    if (!nb::isinstance<Tensor>(one)) Argument{name.c_str(), "what forward gave"}.refuse(one, "a Tensor");
    outputs.push_back(nb::cast<Tensor>(one));
  }
  if (recording && detail::any_requires_grad(inputs)) node->set_outputs(outputs, inputs, node);
  const bool several = nb::isinstance<nb::tuple>(made) || nb::isinstance<nb::list>(made);
  return several ? nb::object(nb::tuple(python_of(outputs))) : nb::cast(outputs[0]);
}

}  // namespace

void bind_function(nb::module_& m) {
  nb::class_<Context>(
      m, "FunctionContext", nb::dynamic_attr(), nb::is_weak_referenceable(),
      "What a Function's forward hands to its backward; attributes of one's own may be added.")
      .def(
          "save_for_backward",
          [](Context& context, const nb::args& tensors) {
            std::vector<Tensor> kept;
            for (nb::handle one : tensors)
              kept.push_back(read_as<Tensor>({"save_for_backward", "an argument"}, one));
            context.get("save_for_backward").save_for_backward(kept);
          },
          "Keeps tensors (or None) for backward; in-place changes to them are caught.")
      .def_prop_ro(
          "saved_tensors",
          [](Context& context) { return nb::tuple(python_of(context.get("saved_tensors").saved())); },
          "What was kept, in order.")
      .def_prop_ro(
          "needs_input_grad",
          [](const Context& context) {
            nb::list list;
            for (const bool one : context.needs) list.append(one);
            return nb::tuple(list);
          },
          "Whether the gradient of each argument is wanted.");
  m.def("_apply", &apply, nb::arg("function"), nb::arg("arguments"));
}

}  // namespace ct::python
