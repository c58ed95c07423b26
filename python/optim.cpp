#include "optimizers_internal.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>

// What is around optimizers: how their arguments are read, clipping, loss scaling, averages, and the schedules that take
// functions or other schedules. cotangent/optim.py has the rest.

namespace ct::python {

using optim::Optimizer;

std::vector<Tensor> read_params(const char* op, nb::handle params) {
  if (nb::isinstance<Tensor>(params)) Argument{op, "params"}.refuse(params, "a list of tensors: [x]");
  if (!nb::hasattr(params, "__iter__") || nb::isinstance<nb::str>(params))
    Argument{op, "params"}.refuse(params, "an iterable of tensors, of (name, tensor), or of dicts");
  std::vector<Tensor> result;
  for (nb::handle one :
       nb::isinstance<nb::dict>(params) ? nb::object(params.attr("values")()) : nb::borrow(params)) {
    const bool named = nb::isinstance<nb::tuple>(one) && nb::len(one) == 2 && nb::isinstance<nb::str>(one[0]);
    const nb::object tensor = named ? nb::object(one[1]) : nb::borrow(one);
    if (!nb::isinstance<Tensor>(tensor)) Argument{op, "one of params"}.refuse(tensor, "a Tensor");
    result.push_back(nb::cast<Tensor>(tensor));
  }
  return result;
}

namespace {

template <class... Parts>
[[noreturn]] void refuse(const char* op, const Parts&... parts) {
  throw nb::type_error(detail::cat('[', op, "] ", parts...).c_str());
}
// A tensor by itself is one.
std::vector<Tensor> read_tensors(const char* op, nb::handle tensors) {
  return nb::isinstance<Tensor>(tensors) ? std::vector{nb::cast<Tensor>(tensors)} : read_params(op, tensors);
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
  if (nb::isinstance<Tensor>(params)) read_params(op, params);  // which refuses it
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
  bind_state(nb::class_<Optimizer>(m, "Optimizer", nb::dynamic_attr(), "What all optimizers have."),
             "Counts, moments, masters and learning rates by position: \"0.3.exp_avg\" is parameter 3's of "
             "group 0. They share memory with the optimizer.")
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
      .def("zero_grad", &Optimizer::zero_grad, nb::arg("set_to_none") = true,
           "Forgets all gradients, or fills them with zeros.")
      .def_prop_rw(
          "lr", [](const Optimizer& o) { return o.lr(); }, nb::overload_cast<double>(&Optimizer::set_lr),
          "The learning rate of the first group; set, it is that of all groups.")
      .def("_params", &Optimizer::params)
      .def("_lr", &Optimizer::lr)
      .def("_set_lr", nb::overload_cast<double, int>(&Optimizer::set_lr))
      .def("_group_count", &Optimizer::group_count)
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
  bind_state(bind_optimizer<optim::LBFGS, optim::LBFGSOptions>(
                 m, "LBFGS", "L-BFGS, as torch.optim.LBFGS; line_search is \"none\" or \"strong_wolfe\"."))
      .def("step", &optim::LBFGS::step, nb::arg("closure"), Unlocked(),
           "closure() clears the gradients, computes the loss, calls backward() and gives the loss. Gives "
           "the loss of before.")
      .def_prop_ro("iterations", &optim::LBFGS::iterations)
      .def_prop_ro("evaluations", &optim::LBFGS::evaluations);
}

void bind_clipping(nb::module_& m) {
  m.def(
      "clip_grad_norm_",
      [](nb::handle params, double max_norm, nb::handle norm_type, bool error_if_nonfinite) {
        const std::vector<Tensor> tensors = read_tensors("clip_grad_norm_", params);
        const double p = nb::cast<double>(nb::float_(norm_type));  // "inf" too
        const Released unlocked;
        return optim::clip_grad_norm_(tensors, max_norm, {p, error_if_nonfinite});
      },
      nb::arg("params"), nb::arg("max_norm"), nb::arg("norm_type") = 2.0,
      nb::arg("error_if_nonfinite") = false,
      "Scales all gradients so that their norm, as one vector, is at most max_norm; gives the norm before.");
  m.def(
      "clip_grad_value_",
      [](nb::handle params, double limit) {
        optim::clip_grad_value_(read_tensors("clip_grad_value_", params), limit);
      },
      nb::arg("params"), nb::arg("clip_value"),
      "Clamps every element of every gradient to [-clip_value, clip_value].");
}

void bind_scaler(nb::module_& m) {
  using optim::GradScaler;
  bind_state(nb::class_<GradScaler>(
                 m, "GradScaler",
                 R"(Scales the loss for f16, whose gradients would vanish below 6e-8, as torch.amp.GradScaler:

    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)     # only if something looks at the gradients
    scaler.step(optimizer)         # not made if a gradient is infinite or NaN
    scaler.update()

Arguments: init_scale=65536, growth_factor=2, backoff_factor=0.5, growth_interval=2000, enabled=True.)"))
      .def("__init__",
           [](GradScaler* self, const nb::kwargs& options) {
             new (self) GradScaler(options_from<optim::GradScalerOptions>("GradScaler", options));
           })
      .def("scale", &GradScaler::scale, nb::arg("loss"), "loss * scale, on the tape.")
      .def("unscale_", &GradScaler::unscale_, nb::arg("optimizer"), Unlocked(),
           "Divides the gradients by the scale and looks for infinities; at most once before update().")
      .def("step", &GradScaler::step, nb::arg("optimizer"), Unlocked(),
           "optimizer.step(), unless a gradient is infinite or NaN.")
      .def(
          "update", [](GradScaler& s, std::optional<double> scale) { scale ? s.update(*scale) : s.update(); },
          nb::arg("new_scale") = nb::none(),
          "Lowers the scale if a step was left out, raises it after growth_interval steps in a row.")
      .def("get_scale", &GradScaler::get_scale, Unlocked(), "The scale of this moment; waits for the device.")
      .def("is_enabled", &GradScaler::enabled);
}

void bind_average(nb::module_& m) {
  using optim::Ema;
  using Averaged = Scope<optim::EmaScope, std::reference_wrapper<Ema>>;
  Averaged::bind(m, "_EmaScope", "What Ema.scope() gives.");
  bind_state(
      nb::class_<Ema>(
          m, "Ema",
          R"(Ema(model or tensors, decay=0.999, warmup=False): the exponential moving average of parameters.

    ema = optim.Ema(model)
    for ..: ..; optimizer.step(); ema.update()
    with ema.scope():              # the model computes with the averages in here
        evaluate(model)

With warmup the decay of update t is min(decay, (1 + t) / (10 + t)).)"),
      "The averages under the names of the parameters, and the number of updates.")
      .def(
          "__init__",
          [](Ema* self, nb::handle source, const nb::kwargs& given) {
            const auto options = options_from<optim::EmaOptions>("Ema", given);
            nb::isinstance<nn::Module>(source) ? new (self) Ema(nb::cast<const nn::Module&>(source), options)
                                               : new (self) Ema(read_params("Ema", source), options);
          },
          nb::arg("source"), nb::arg("options"))
      .def("update", &Ema::update, Unlocked(), "Once after each step of the optimizer.")
      .def_prop_ro("updates", &Ema::updates)
      .def("apply", &Ema::apply, "Puts the averages into the parameters, and keeps what was there.")
      .def("restore", &Ema::restore, "Puts back what apply() kept.")
      .def_prop_ro("applied", &Ema::applied)
      .def_prop_ro("averages", &Ema::averages, "In the order of the parameters.")
      .def(
          "scope", [](Ema& e) { return std::make_unique<Averaged>(e); }, nb::keep_alive<0, 1>(),
          "with ema.scope(): the parameters are the averages in here.");
}

void bind_made_schedules(nb::module_& m) {
  using namespace optim;
  bind_state(nb::class_<LRScheduler>(m, "LRScheduler", "What all schedules of learning rates have."))
      .def("step", &LRScheduler::step, "Moves the clock on by one and sets the rates.")
      .def_prop_ro("optimizer", &LRScheduler::optimizer, nb::rv_policy::reference)
      .def_prop_ro("time", &LRScheduler::time, "The number of calls of step().")
      .def_prop_ro("last_lr", &LRScheduler::last_lr)
      .def("get_last_lr", &LRScheduler::last_lr, "The rates that were set last, by group.")
      .def("lr_at", &LRScheduler::lr_at, nb::arg("time"), nb::arg("group") = 0,
           "The rate of a group at any time.");
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
  using Plateau = ReduceLROnPlateau;
  bind_state(bind_schedule<Plateau, ReduceLROnPlateauOptions>(
                 m, "ReduceLROnPlateau",
                 "Multiplies the rates by `factor` when a value has not got better for more than `patience` "
                 "steps. Arguments: mode=\"min\", factor=0.1, patience=10, threshold=1e-4, "
                 "threshold_mode=\"rel\", cooldown=0, min_lr=0, eps=1e-8.",
                 0))
      .def(
          "step",
          [](Plateau& p, nb::handle value) {
            return p.step(nb::isinstance<Tensor>(value) ? nb::cast<Tensor>(value).item<double>()
                                                        : read_as<double>({"step", "the value"}, value));
          },
          nb::arg("metrics"), "Takes the value of this epoch; True if the rates were reduced.")
      .def_prop_ro("best", &Plateau::best);
}

}  // namespace

void bind_optim(nb::module_& m) {
  bind_base(m);
  bind_clipping(m);
  bind_scaler(m);
  bind_average(m);
  bind_made_schedules(m);
}

}  // namespace ct::python
