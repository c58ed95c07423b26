#include "optimizers_internal.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>

// Parts around optimizers: parameters, averages, and the schedules that take functions or other schedules.
// cotangent/optim.py has the rest.

namespace ct::python {

using optim::Optimizer;

std::vector<Tensor> read_params(const Argument& argument, nb::handle params, bool one) {
  if (one && nb::isinstance<Tensor>(params)) return {nb::cast<Tensor>(params)};
  if (nb::isinstance<Tensor>(params)) argument.refuse(params, "a list of tensors: [x]");
  if (!nb::hasattr(params, "__iter__") || nb::isinstance<nb::str>(params))
    argument.refuse(params, "an iterable of tensors, of (name, tensor), or of dicts");
  std::vector<Tensor> result;
  for (nb::handle one :
       nb::isinstance<nb::dict>(params) ? nb::object(params.attr("values")()) : nb::borrow(params)) {
    const bool named = nb::isinstance<nb::tuple>(one) && nb::len(one) == 2 && nb::isinstance<nb::str>(one[0]);
    const nb::object tensor = named ? nb::object(one[1]) : nb::borrow(one);
    if (!nb::isinstance<Tensor>(tensor)) Argument{argument.op, "one of params"}.refuse(tensor, "a Tensor");
    result.push_back(nb::cast<Tensor>(tensor));
  }
  return result;
}

namespace {

void bind_average(nb::module_& m) {
  using Averaged = Scope<optim::EmaScope, std::reference_wrapper<optim::Ema>>;
  Averaged::bind(m, "_EmaScope", "What Ema.scope() gives.");
  nb::borrow<nb::class_<optim::Ema>>(m.attr("Ema"))
      .def(
          "scope", [](optim::Ema& e) { return std::make_unique<Averaged>(e); }, nb::keep_alive<0, 1>(),
          "with ema.scope(): the parameters are the averages in here.");
  nb::borrow<nb::class_<optim::GradScaler>>(m.attr("GradScaler"))
      .def(
          "update",
          [](optim::GradScaler& s, std::optional<double> scale) { scale ? s.update(*scale) : s.update(); },
          nb::arg("new_scale") = nb::none(),
          "Lowers the scale if a step was left out, raises it after growth_interval steps in a row.");
}

void bind_made_schedules(nb::module_& m) {
  using namespace optim;
  nb::borrow<nb::class_<LRScheduler>>(m.attr("LRScheduler"))
      .def_prop_ro("optimizer", &LRScheduler::optimizer, nb::rv_policy::reference);
  // The functions lie in the object's __dict__, where the garbage collector sees them.
  nb::class_<LambdaLR, LRScheduler>(m, "LambdaLR", nb::dynamic_attr(),
                                    "base * lr_lambda(t), of one function or of one for each group.")
      .def(
          "__init__",
          [](nb::pointer_and_handle<LambdaLR> self, Optimizer& optimizer, nb::handle f) {
            const nb::list functions(PyCallable_Check(f.ptr()) ? nb::object(nb::make_tuple(f))
                                                               : nb::borrow(f));
            self.h.attr("_factors") = functions;
            std::vector<LambdaLR::Factor> factors;
            for (std::size_t k = 0; k < functions.size(); ++k)
              factors.push_back([me = self.h, k](std::int64_t time) {
                const Acquired lock;
                return read_as<double>({"LambdaLR", "a factor"}, nb::object(me.attr("_factors")[k])(time));
              });
            new (self.p) LambdaLR(optimizer, std::move(factors));
          },
          nb::keep_alive<1, 2>(), nb::arg("optimizer"), nb::arg("lr_lambda"));
  nb::class_<SequentialLR, LRScheduler>(
      m, "SequentialLR",
      "One schedule after another: schedule k runs from milestone k - 1 on. Step this one alone.")
      .def(nb::init<Optimizer&, std::vector<std::shared_ptr<LRScheduler>>, std::vector<std::int64_t>>(),
           nb::keep_alive<1, 2>(), nb::arg("optimizer"), nb::arg("schedulers"), nb::arg("milestones"));
  nb::borrow<nb::class_<LBFGS>>(m.attr("LBFGS"))
      .def("step", &LBFGS::step, nb::arg("closure"), Unlocked(),
           "closure() clears the gradients, computes the loss, calls backward() and gives the loss. Gives "
           "the loss of before.");
  nb::borrow<nb::class_<ReduceLROnPlateau>>(m.attr("ReduceLROnPlateau"))
      .def(
          "step",
          [](ReduceLROnPlateau& p, nb::handle value) {
            return p.step(nb::isinstance<Tensor>(value) ? nb::cast<Tensor>(value).item<double>()
                                                        : read_as<double>({"step", "the value"}, value));
          },
          nb::arg("metrics"), "Takes the value of this epoch; True if the rates were reduced.");
}

}  // namespace

void bind_optim(nb::module_& core) {
  nb::module_ m = core.attr("_optim");
  bind_average(m);
  bind_optimizers(m);
  bind_made_schedules(m);
}

}  // namespace ct::python
