#pragma once

#include "options.h"

// Optimizers and schedules: params or an optimizer in front, then an options struct by position or name. generate/bindings.py
// writes a line for each.

namespace ct::python {

/// The number of the field that a name means, PyTorch's names included; -1 where there is none.
int option_place(std::string_view name, std::span<const char* const> known);

/// Sets the options of these names. Throws TypeError for a name that is none of them.
template <class Options>
void set_options(const char* op, Options& options, nb::handle named) {
  std::apply(
      [&](const auto&... fields) {
        const std::array<const char*, sizeof...(fields)> known{fields.name...};
        for (const auto& [key, value] : nb::borrow<nb::dict>(named)) {
          const auto name = nb::cast<std::string>(key);
          if constexpr (requires { options.beta1, options.beta2; }) {
            if (name == "betas") {
              if (!nb::isinstance<nb::sequence>(value) || nb::len(value) != 2)
                Argument{op, "betas"}.refuse(value, "a pair of numbers");
              read(Argument{op, "betas"}, value[0], options.beta1);
              read(Argument{op, "betas"}, value[1], options.beta2);
              continue;
            }
          }
          const int place = option_place(name, known);
          int i = 0;
          const auto set = [&](const auto& field) {
            if (i++ == place) read(Argument{op, field.name}, value, options.*field.place);
          };
          (set(fields), ...);
          if (place < 0) refuse_option(op, key, {fields.name...});
        }
      },
      fields_of(static_cast<const Options*>(nullptr)));
}

/// The options behind the first argument of a call, as a dict by the fields' names. Throws TypeError where one of the first
/// `required` is missing.
template <class Options>
nb::dict options_by_name(const char* op, const nb::args& args, const nb::kwargs& named, std::size_t required = 0) {
  nb::dict all;
  std::apply(
      [&](const auto&... fields) {
        if (args.size() > sizeof...(fields) + 1)
          throw nb::type_error(detail::cat('[', op, "] takes ", sizeof...(fields) + 1, " arguments, and ",
                                           args.size(), " were given")
                                   .c_str());
        std::size_t i = 1;
        const auto take = [&](const auto& field) {
          if (i < args.size()) all[field.name] = args[i];
          ++i;
        };
        (take(fields), ...);
        const std::array<const char*, sizeof...(fields)> known{fields.name...};
        for (const auto& [key, value] : named) {
          const auto name = nb::cast<std::string>(key);
          const int place = option_place(name, known);
          const nb::object ours = place < 0 ? nb::borrow(key) : nb::cast(known[static_cast<std::size_t>(place)]);
          if (all.contains(ours))
            throw nb::type_error(detail::cat('[', op, "] several values were given for '", name, '\'').c_str());
          all[ours] = value;
        }
        for (i = 0; i < required; ++i)
          if (!all.contains(known[i]))
            throw nb::type_error(detail::cat('[', op, "] missing a required argument: '", known[i], '\'').c_str());
      },
      fields_of(static_cast<const Options*>(nullptr)));
  return all;
}

/// The first argument of a call, by position or by this name.
nb::object first_argument(const char* op, const char* name, const nb::args& args, nb::kwargs& named);
/// Tensors, or pairs of a name and a tensor.
std::vector<Tensor> read_params(const char* op, nb::handle params);

template <class Options>
optim::ParamGroup<Options> read_group(const char* op, const Options& base, const nb::dict& group) {
  if (!group.contains("params"))
    throw nb::value_error(detail::cat('[', op, "] a group has no 'params'").c_str());
  nb::dict rest;
  for (const auto& [key, value] : group)
    if (nb::cast<std::string>(key) != "params") rest[key] = value;
  optim::ParamGroup<Options> made{read_params(op, group["params"]), base};
  set_options(op, made.options, rest);
  return made;
}

template <class O, class Options>
void bind_optimizer(nb::module_& m, const char* name, const char* signature, const char* doc) {
  nb::class_<O, optim::Optimizer> made(m, name, nb::dynamic_attr(), doc);
  made.def("__init__",
           [name](nb::pointer_and_handle<O> self, const nb::args& args, nb::kwargs named) {
             const nb::object params = first_argument(name, "params", args, named);
             const nb::dict given = options_by_name<Options>(name, args, named);
             Options base{};
             set_options(name, base, given);
             if (!nb::hasattr(params, "__iter__") || nb::isinstance<Tensor>(params))  // whose rows are no parameters
               Argument{name, "params"}.refuse(params, "a list of parameters");
             const nb::list list(params);
             if (nb::len(list) > 0 && nb::isinstance<nb::dict>(list[0])) {
               std::vector<optim::ParamGroup<Options>> groups;
               for (nb::handle one : list) groups.push_back(read_group(name, base, nb::cast<nb::dict>(one)));
               new (self.p) O(std::move(groups));
             } else {
               new (self.p) O(read_params(name, list), base);
             }
             self.h.attr("_defaults") = given;
           })
      .def(
          "add_param_group",
          [name](nb::handle self, const nb::dict& group) {
            Options base{};
            set_options(name, base, self.attr("_defaults"));
            nb::cast<O&>(self).add_param_group(read_group(name, base, group));
          },
          nb::arg("group"), "More parameters, {\"params\": .., \"lr\": ..}, with options of their own.");
  made.attr("__signature__") = nb::module_::import_("cotangent._signature").attr("of")(signature);
}

template <class S, class Options>
void bind_schedule(nb::module_& m, const char* name, const char* signature, const char* doc, std::size_t required) {
  nb::class_<S, optim::LRScheduler> made(m, name, nb::dynamic_attr(), doc);
  made.def("__init__", [name, required](nb::pointer_and_handle<S> self, const nb::args& args, nb::kwargs named) {
    const nb::object optimizer = first_argument(name, "optimizer", args, named);
    if (!nb::isinstance<optim::Optimizer>(optimizer)) Argument{name, "optimizer"}.refuse(optimizer, "an optimizer");
    Options options{};
    set_options(name, options, options_by_name<Options>(name, args, named, required));
    new (self.p) S(nb::cast<optim::Optimizer&>(optimizer), options);
    self.h.attr("optimizer") = optimizer;  // which the schedule refers to
  });
  made.attr("__signature__") = nb::module_::import_("cotangent._signature").attr("of")(signature);
}

}  // namespace ct::python
