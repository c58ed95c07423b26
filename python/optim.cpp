#include "optimizers_internal.h"

#include <functional>
#include <string_view>

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
std::vector<Tensor> read_tensors(const char* op, nb::handle tensors) {
  return nb::isinstance<Tensor>(tensors) ? std::vector{nb::cast<Tensor>(tensors)} : read_params(op, tensors);
}

nb::dict own_names(const char* op, nb::handle given, const nb::args& more,
                   std::initializer_list<const char*> names) {
  static constexpr std::pair<std::string_view, const char*> kOthers[] = {
      {"T_max", "steps"},       {"T_0", "steps"},
      {"total_iters", "steps"}, {"eta_min", "min_lr"},
      {"T_mult", "multiplier"}, {"line_search_fn", "line_search"},
      {"lr_lambda", "factor"},  {"adjust_lr_fn", "adjust_lr"}};
  nb::dict result;
  const auto put = [&](const char* name, nb::handle value) {
    if (result.contains(name))
      throw nb::type_error(detail::cat('[', op, "] got '", name, "' twice; once is wanted").c_str());
    result[name] = value;
  };
  // PyTorch's word for what is a switch here.
  const auto put_switch = [&](const char* name, const std::string& theirs, nb::handle value,
                              const char* words) {
    std::uint64_t index = 0;
    read_choice({op, theirs.c_str()}, value, words, index);
    put(name, nb::bool_(index == 1));
  };
  const auto put_as_ours = [&](const std::string& name, nb::handle value) {
    const auto* other = std::find_if(std::begin(kOthers), std::end(kOthers),
                                     [&](const auto& pair) { return pair.first == name; });
    if (other != std::end(kOthers)) {
      put(other->second, value);
    } else if (name == "betas") {
      if (!nb::isinstance<nb::sequence>(value) || nb::len(value) != 2)
        Argument{op, "betas"}.refuse(value, "a pair of numbers");
      put("beta1", nb::object(value[0]));
      put("beta2", nb::object(value[1]));
    } else if (name == "mode") {
      put_switch("maximize", name, value, "min max");
    } else if (name == "threshold_mode") {
      put_switch("absolute", name, value, "rel abs");
    } else if (name == "anneal_strategy") {
      put_switch("linear", name, value, "cos linear");
    } else {
      put(name.c_str(), value);
    }
  };
  if (more.size() > names.size())
    throw nb::type_error(
        detail::cat('[', op, "] got ", more.size(), " options by position; it has ", names.size()).c_str());
  for (std::size_t i = 0; i < more.size(); ++i) put_as_ours(names.begin()[i], more[i]);
  for (const auto [key, value] : nb::borrow<nb::dict>(given))
    put_as_ours(read_as<std::string>({op, "an option's name"}, key), value);
  if (result.contains("epochs") && result.contains("steps_per_epoch")) {
    put("total_steps", result["epochs"] * result["steps_per_epoch"]);
    nb::del(result["epochs"]);
    nb::del(result["steps_per_epoch"]);
  }
  return result;
}

std::vector<nb::dict> read_groups(const char* op, nb::handle params, const nb::dict& defaults) {
  std::vector<nb::dict> groups;
  const auto add = [&](nb::handle tensors, const nb::dict& options) {
    auto whole = nb::borrow<nb::dict>(defaults.attr("copy")());
    whole.update(options);
    whole["params"] = tensors;
    groups.push_back(whole);
  };
  const bool listed =
      !nb::isinstance<Tensor>(params) && !nb::isinstance<nb::dict>(params) && nb::hasattr(params, "__iter__");
  const nb::object all = listed ? nb::object(nb::list(params)) : nb::borrow(params);  // a generator goes once
  if (!listed || nb::len(all) == 0 || !nb::isinstance<nb::dict>(all[0])) {
    add(all, nb::dict());
    return groups;
  }
  for (nb::handle one : all) {
    if (!nb::isinstance<nb::dict>(one)) Argument{op, "one of params"}.refuse(one, "a dict, as the first is");
    const nb::dict group = own_names(op, one);
    if (!group.contains("params"))
      throw nb::type_error(
          detail::cat('[', op, "] a group has no 'params'; {\"params\": tensors, ..} is wanted").c_str());
    const nb::object tensors = group["params"];
    add(nb::isinstance<Tensor>(tensors) ? nb::object(nb::make_tuple(tensors)) : tensors, group);
  }
  return groups;
}

namespace {
constexpr char kMuonLr[] = "original match_rms_adamw", kLineSearch[] = "none strong_wolfe";
nb::object word(std::string_view words, int index) {
  const std::size_t space = words.find(' ');
  return nb::cast(std::string(index == 0 ? words.substr(0, space) : words.substr(space + 1)));
}
}  // namespace
nb::object option_of(optim::MuonLr value) { return word(kMuonLr, static_cast<int>(value)); }
nb::object option_of(optim::LineSearch value) { return word(kLineSearch, static_cast<int>(value)); }

namespace {

void bind_base(nb::module_& m) {
  nb::class_<Optimizer>(m, "Optimizer", nb::dynamic_attr(), "What all optimizers have.")
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
          "before "
          "it, and what it gives is given.")
      .def("zero_grad", &Optimizer::zero_grad, nb::arg("set_to_none") = true,
           "Forgets all gradients, or fills them with zeros.")
      .def_prop_rw(
          "lr", [](const Optimizer& o) { return o.lr(); }, [](Optimizer& o, double lr) { o.set_lr(lr); },
          "The learning rate of the first group; set, it is that of all groups.")
      .def("_params", [](const Optimizer& o, int group) { return o.params(group); })
      .def("_lr", [](const Optimizer& o, int group) { return o.lr(group); })
      .def("_set_lr", [](Optimizer& o, int group, double lr) { o.set_lr(lr, group); })
      .def("_group_count", &Optimizer::group_count)
      .def(
          "state_dict", [](const Optimizer& o) { return to_python(o.state_dict()); },
          "Counts, moments, masters and learning rates by position: \"0.3.exp_avg\" is parameter 3's of "
          "group 0. "
          "They share memory with the optimizer.")
      .def(
          "load_state_dict",
          [](Optimizer& o, const nb::dict& state) {
            o.load_state_dict(read_state("load_state_dict", state));
          },
          nb::arg("state"),
          "Takes back what state_dict() gave. Throws ValueError, and changes nothing, for another's.")
      .def_prop_ro(
          "param_groups",
          [](nb::handle self) { return nb::module_::import_("cotangent.optim").attr("_groups_of")(self); },
          nb::sig("def param_groups(self) -> tuple[typing.Any, ...]"),
          "The groups, each a mapping of \"params\" and options, of which \"lr\" can be set. "
          "add_param_group() adds "
          "one.")
      .def(
          "__reduce_ex__",
          [](const Optimizer& o, nb::handle) -> nb::object {
            throw nb::type_error(
                detail::cat('[', o.name(),
                            "] an optimizer belongs to its tensors and can't be copied or pickled; make "
                            "a new one, and load this one's state_dict() into it")
                    .c_str());
          },
          nb::arg("protocol").none())
      .def("__repr__", [](const Optimizer& o) { return detail::cat('<', o.name(), ", lr ", o.lr(), '>'); });
}

void bind_clipping(nb::module_& m) {
  m.def(
      "clip_grad_norm_",
      [](nb::handle params, double max_norm, nb::handle norm_type, bool error_if_nonfinite) {
        const std::vector<Tensor> tensors = read_tensors("clip_grad_norm_", params);
        const double p = nb::cast<double>(nb::float_(norm_type));  // "inf" too
        const Released unlocked;
        return optim::clip_grad_norm_(tensors, max_norm,
                                      {.norm_type = p, .error_if_nonfinite = error_if_nonfinite});
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
  using optim::GradScaler, optim::GradScalerOptions;
  nb::class_<GradScaler>(
      m, "GradScaler",
      "Scales the loss for f16, whose gradients would vanish below 6e-8, as torch.amp.GradScaler:\n\n"
      "    scaler.scale(loss).backward()\n"
      "    scaler.unscale_(optimizer)     # only if something looks at the gradients\n"
      "    scaler.step(optimizer)         # not made if a gradient is infinite or NaN\n"
      "    scaler.update()\n\n"
      "Arguments: init_scale=65536, growth_factor=2, backoff_factor=0.5, growth_interval=2000, enabled=True.")
      .def("__init__",
           [](GradScaler* self, const nb::kwargs& options) {
             new (self) GradScaler(read_options<GradScalerOptions>(
                 "GradScaler", options, CT_FIELD(GradScalerOptions, init_scale),
                 CT_FIELD(GradScalerOptions, growth_factor), CT_FIELD(GradScalerOptions, backoff_factor),
                 CT_FIELD(GradScalerOptions, growth_interval), CT_FIELD(GradScalerOptions, enabled)));
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
      .def("is_enabled", &GradScaler::enabled)
      .def("state_dict", [](const GradScaler& s) { return to_python(s.state_dict()); })
      .def(
          "load_state_dict",
          [](GradScaler& s, const nb::dict& state) {
            s.load_state_dict(read_state("load_state_dict", state));
          },
          nb::arg("state"));
}

void bind_average(nb::module_& m) {
  using optim::Ema, optim::EmaOptions;
  using Averaged = Scope<optim::EmaScope, std::reference_wrapper<Ema>>;
  Averaged::bind(m, "_EmaScope", "What Ema.scope() gives.");
  nb::class_<Ema>(
      m, "Ema",
      "Ema(model or tensors, decay=0.999, warmup=False): the exponential moving average of parameters.\n\n"
      "    ema = optim.Ema(model)\n"
      "    for ..: ..; optimizer.step(); ema.update()\n"
      "    with ema.scope():              # the model computes with the averages in here\n"
      "        evaluate(model)\n\n"
      "With warmup the decay of update t is min(decay, (1 + t) / (10 + t)).")
      .def(
          "__init__",
          [](Ema* self, nb::handle source, const nb::kwargs& given) {
            const auto options = read_options<EmaOptions>("Ema", given, CT_FIELD(EmaOptions, decay),
                                                          CT_FIELD(EmaOptions, warmup));
            if (nb::isinstance<nn::Module>(source)) {
              new (self) Ema(nb::cast<const nn::Module&>(source), options);
            } else {
              new (self) Ema(read_params("Ema", source), options);
            }
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
          "with ema.scope(): the parameters are the averages in here.")
      .def(
          "state_dict", [](const Ema& e) { return to_python(e.state_dict()); },
          "The averages under the names of the parameters, and the number of updates.")
      .def(
          "load_state_dict",
          [](Ema& e, const nb::dict& state) { e.load_state_dict(read_state("load_state_dict", state)); },
          nb::arg("state"));
}

void bind_made_schedules(nb::module_& m) {
  using namespace optim;
  nb::class_<LRScheduler>(m, "LRScheduler", "What all schedules of learning rates have.")
      .def("step", &LRScheduler::step, "Moves the clock on by one and sets the rates.")
      .def_prop_ro("time", &LRScheduler::time, "The number of calls of step().")
      .def_prop_ro("last_lr", &LRScheduler::last_lr)
      .def("get_last_lr", &LRScheduler::last_lr, "The rates that were set last, by group.")
      .def("lr_at", &LRScheduler::lr_at, nb::arg("time"), nb::arg("group") = 0,
           "The rate of a group at any time.")
      .def("state_dict", [](const LRScheduler& s) { return to_python(s.state_dict()); })
      .def(
          "load_state_dict",
          [](LRScheduler& s, const nb::dict& state) {
            s.load_state_dict(read_state("load_state_dict", state));
          },
          nb::arg("state"));
  // The functions lie in the object's __dict__, where the garbage collector sees them.
  nb::class_<LambdaLR, LRScheduler>(m, "LambdaLR", nb::dynamic_attr(),
                                    "base * lr_lambda(t), of one function or of one for each group.")
      .def(
          "__init__",
          [](nb::pointer_and_handle<LambdaLR> self, Optimizer& optimizer, const nb::args& more,
             const nb::kwargs& given) {
            nb::dict named = own_names("LambdaLR", given, more, {"factor"});
            if (nb::len(named) != 1 || !named.contains("factor"))
              throw nb::type_error("[LambdaLR] it wants (optimizer, lr_lambda)");
            const nb::object f = named["factor"];
            const nb::list functions(PyCallable_Check(f.ptr()) ? nb::object(nb::make_tuple(f)) : f);
            self.h.attr("_factors") = functions;
            std::vector<LambdaLR::Factor> factors;
            for (std::size_t k = 0; k < functions.size(); ++k)
              factors.push_back([me = self.h, k](std::int64_t time) {
                const Acquired lock;
                return read_as<double>({"LambdaLR", "a factor"}, nb::object(me.attr("_factors")[k])(time));
              });
            new (self.p) LambdaLR(optimizer, std::move(factors));
          },
          nb::keep_alive<1, 2>(), nb::arg("optimizer"), nb::arg("more"), nb::arg("options"));
  nb::class_<SequentialLR, LRScheduler>(
      m, "SequentialLR",
      "One schedule after another: schedule k runs from milestone k - 1 on. Step this one alone.")
      .def(nb::init<Optimizer&, std::vector<std::shared_ptr<LRScheduler>>, std::vector<std::int64_t>>(),
           nb::keep_alive<1, 2>(), nb::arg("optimizer"), nb::arg("schedulers"), nb::arg("milestones"));
  using Plateau = ReduceLROnPlateau;
  using Options = ReduceLROnPlateauOptions;
  nb::class_<Plateau>(
      m, "ReduceLROnPlateau",
      "Multiplies the rates by `factor` when a value has not got better for more than `patience` steps. "
      "Arguments: mode=\"min\", factor=0.1, patience=10, threshold=1e-4, threshold_mode=\"rel\", "
      "cooldown=0, min_lr=0, eps=1e-8.")
      .def(
          "__init__",
          [](Plateau* self, Optimizer& optimizer, const nb::args& more, const nb::kwargs& given) {
            const char* op = "ReduceLROnPlateau";
            const nb::dict named = own_names(
                op, given, more,
                {"mode", "factor", "patience", "threshold", "threshold_mode", "cooldown", "min_lr", "eps"});
            new (self) Plateau(
                optimizer, read_options<Options>(op, nb::borrow<nb::kwargs>(named),
                                                 CT_FIELD(Options, maximize), CT_FIELD(Options, factor),
                                                 CT_FIELD(Options, patience), CT_FIELD(Options, threshold),
                                                 CT_FIELD(Options, absolute), CT_FIELD(Options, cooldown),
                                                 CT_FIELD(Options, min_lr), CT_FIELD(Options, eps)));
          },
          nb::keep_alive<1, 2>(), nb::arg("optimizer"), nb::arg("more"), nb::arg("options"))
      .def(
          "step",
          [](Plateau& p, nb::handle value) {
            return p.step(nb::isinstance<Tensor>(value) ? nb::cast<Tensor>(value).item<double>()
                                                        : read_as<double>({"step", "the value"}, value));
          },
          nb::arg("metrics"), "Takes the value of this epoch; True if the rates were reduced.")
      .def_prop_ro("best", &Plateau::best)
      .def("state_dict", [](const Plateau& p) { return to_python(p.state_dict()); })
      .def(
          "load_state_dict",
          [](Plateau& p, const nb::dict& state) { p.load_state_dict(read_state("load_state_dict", state)); },
          nb::arg("state"));
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
