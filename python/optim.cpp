#include "optimizers_internal.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>

// What is around optimizers: how their arguments are read, clipping, loss scaling, averages, and the schedules that take
// functions or other schedules. cotangent/optim.py has the rest.

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

template <class... Parts>
[[noreturn]] void refuse(const char* op, const Parts&... parts) {
  throw nb::type_error(detail::cat('[', op, "] ", parts...).c_str());
}
// PyTorch's words for what is a switch here.
constexpr struct {
  const char *theirs, *ours, *words;
} kSwitches[] = {{"mode", "maximize", "min max"},
                 {"threshold_mode", "absolute", "rel abs"},
                 {"anneal_strategy", "linear", "cos linear"}};

}  // namespace

nb::dict own_names(const char* op, const nb::dict& given, nb::handle more, const Names& names) {
  nb::dict result;
  const auto has = [&](std::string_view name) { return std::ranges::count(names, name) != 0; };
  const auto put = [&](const std::string& name, nb::handle value) {
    if (result.contains(name.c_str())) refuse(op, "got '", name, "' twice; once is wanted");
    result[name.c_str()] = value;
  };
  const auto put_as_ours = [&](std::string name, nb::handle value) {
    if (name == "betas") {
      if (!nb::isinstance<nb::sequence>(value) || nb::len(value) != 2)
        Argument{op, "betas"}.refuse(value, "a pair of numbers");
      put("beta1", nb::object(value[0]));
      return put("beta2", nb::object(value[1]));
    }
    for (const auto& one : kSwitches)
      if (name == one.theirs || (name == one.ours && nb::isinstance<nb::str>(value))) {
        std::uint64_t index = 0;
        read_choice({op, one.theirs}, value, one.words, index);
        return put(one.ours, nb::bool_(index == 1));
      }
    if (!has(name))
      each_alias(std::string(name), [&](std::string_view ours) { return has(ours) && (name = ours, true); });
    put(name, value);
  };
  const std::size_t count = more.is_valid() ? nb::len(more) : 0;
  if (count > names.size()) refuse(op, "got ", count, " options by position; it has ", names.size());
  for (std::size_t i = 0; i < count; ++i) put_as_ours(names[i], nb::object(more[i]));
  for (const auto& [key, value] : given)
    put_as_ours(read_as<std::string>({op, "an option's name"}, key), value);
  if (result.contains("epochs") && result.contains("steps_per_epoch"))
    put("total_steps", result.attr("pop")("epochs") * result.attr("pop")("steps_per_epoch"));
  return result;
}

std::vector<nb::dict> read_groups(const char* op, nb::handle params, const nb::dict& defaults,
                                  const Names& names) {
  if (nb::isinstance<Tensor>(params)) read_params({op, "params"}, params);  // which refuses it
  const bool listed = !nb::isinstance<nb::dict>(params) && nb::hasattr(params, "__iter__");
  nb::list all;
  if (listed) all.extend(params);  // a generator goes once
  if (all.size() == 0 || !nb::isinstance<nb::dict>(all[0])) {
    nb::dict group;
    group["params"] = listed ? nb::object(all) : nb::borrow(params);
    all = nb::list();
    all.append(group);
  }
  std::vector<nb::dict> groups;
  for (nb::handle one : all) {
    if (!nb::isinstance<nb::dict>(one)) Argument{op, "one of params"}.refuse(one, "a dict, as the first is");
    auto group = nb::borrow<nb::dict>(defaults.attr("copy")());
    group.update(own_names(op, nb::borrow<nb::dict>(one), {}, names));
    if (!group.contains("params")) refuse(op, "a group has no 'params'; {\"params\": tensors, ..} is wanted");
    if (nb::isinstance<Tensor>(group["params"])) group["params"] = nb::make_tuple(group["params"]);
    groups.push_back(group);
  }
  return groups;
}

namespace {

void bind_base(nb::module_& m) {
  nb::borrow<nb::class_<Optimizer>>(m.attr("Optimizer"))
      .def(
          "step",
          [](Optimizer& o, nb::handle closure) {
            nb::object loss = nb::none();
            if (!closure.is_none()) {
              const EnableGrad recorded;
              loss = closure();
            }
            const Released unlocked;
            o.step();
            return loss;
          },
          nb::arg("closure") = nb::none(),
          "One update of every parameter that has a gradient. closure() computes the loss and its gradients "
          "before it, and what it gives is given.")
      .def_prop_rw(
          "lr", [](const Optimizer& o) { return o.lr(); }, nb::overload_cast<double>(&Optimizer::set_lr),
          "The learning rate of the first group; set, it is that of all groups.")
      .def_prop_ro(
          "param_groups",
          [](nb::handle self) { return nb::module_::import_("cotangent.optim").attr("_groups_of")(self); },
          nb::sig("def param_groups(self) -> tuple[typing.Any, ...]"),
          "The groups, each a mapping of \"params\" and options, of which \"lr\" can be set. "
          "add_param_group() adds one.")
      .def(
          "__reduce_ex__",
          [](const Optimizer& o, nb::handle) -> nb::object {
            refuse(o.name(),
                   "an optimizer belongs to its tensors and can't be copied or pickled; make a new one, and "
                   "load this one's state_dict() into it");
          },
          nb::arg("protocol").none())
      .def("__repr__", [](const Optimizer& o) { return detail::cat('<', o.name(), ", lr ", o.lr(), '>'); });
}

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

void bind_optim(nb::module_& m) {
  bind_base(m);
  bind_average(m);
  bind_optimizers(m);
  bind_made_schedules(m);
}

}  // namespace ct::python
