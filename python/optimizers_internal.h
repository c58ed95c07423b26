#pragma once

#include "options.h"

// Optimizers and schedules as classes of Python: their arguments by C++'s names, and by PyTorch's.

namespace ct::python {

using Names = std::vector<const char*>;
template <class Options>
Names names_of() {
  return std::apply([](const auto&... fields) { return Names{fields.name...}; },
                    fields_of(static_cast<const Options*>(nullptr)));
}
/// {"betas": (0.9, 0.99)} as {"beta1": 0.9, "beta2": 0.99}, and so on for what PyTorch names otherwise than `names`; `more` are
/// the values of the first of them.
nb::dict own_names(const char* op, const nb::dict& given, nb::handle more, const Names& names);
/// The groups of an optimizer's arguments, each as a dict with all options and "params".
std::vector<nb::dict> read_groups(const char* op, nb::handle params, const nb::dict& defaults,
                                  const Names& names);

/// All options by name.
template <class Options>
nb::dict options_of(const Options& options) {
  nb::dict all;
  std::apply([&](const auto&... fields) { ((all[fields.name] = give(options.*fields.place)), ...); },
             fields_of(&options));
  return all;
}

/// A class of `O`, which is made of groups, or of one. What its options are is kept beside it, for param_groups.
template <class O, class Options>
nb::class_<O, optim::Optimizer> bind_optimizer(nb::module_& m, const char* name, const char* doc) {
  using Group = optim::ParamGroup<Options>;
  const auto make = [name](nb::dict& group) {
    const std::vector<Tensor> params = read_params({name, "params"}, group["params"]);
    nb::del(group["params"]);
    const auto options = options_from<Options>(name, group);
    group = options_of(options);
    return Group{params, options};
  };
  nb::class_<O, optim::Optimizer> made(m, name, nb::dynamic_attr(), doc);
  made.def(
      "__init__",
      [name, make](nb::pointer_and_handle<O> self, nb::handle params, const nb::args& more,
                   const nb::kwargs& given) {
        const Names names = names_of<Options>();
        const nb::dict defaults =
            options_of(options_from<Options>(name, own_names(name, given, more, names)));
        std::vector<Group> groups;
        nb::list kept;
        for (nb::dict& group : read_groups(name, params, defaults, names)) {
          groups.push_back(make(group));
          kept.append(group);
        }
        if constexpr (std::is_constructible_v<O, std::vector<Group>>) {
          new (self.p) O(groups);
        } else {
          CT_CHECK(groups.size() == 1, ValueError, name, "got ", groups.size(), " groups; it takes one");
          new (self.p) O(groups[0].params, groups[0].options);
        }
        self.h.attr("defaults") = defaults;
        self.h.attr("_options") = kept;
      },
      nb::arg("params").none(), nb::arg("more"), nb::arg("options"));
  if constexpr (requires(O & o, Group group) { o.add_param_group(group); })
    made.def(
        "add_param_group",
        [name, make](nb::handle self, nb::handle group, nb::kwargs options) {
          if (!nb::isinstance<nb::dict>(group)) options["params"] = group;
          const nb::object one = nb::isinstance<nb::dict>(group) ? nb::borrow(group) : nb::object(options);
          nb::dict whole = read_groups(name, nb::make_tuple(one), nb::borrow<nb::dict>(self.attr("defaults")),
                                       names_of<Options>())[0];
          nb::cast<O&>(self).add_param_group(make(whole));
          self.attr("_options").attr("append")(whole);
        },
        nb::arg("param_group"), nb::arg("options"),
        "add_param_group({\"params\": tensors, \"lr\": ..}): more parameters. Options that are left out are "
        "those the optimizer was made with.");
  return made;
}

template <class S, class Options, class... Base>
nb::class_<S, Base...> bind_schedule(nb::module_& m, const char* name, const char* doc,
                                     std::size_t required) {
  nb::class_<S, Base...> made(m, name, doc);
  made.def(
      "__init__",
      [name, required](S* self, nb::handle optimizer, const nb::args& more, const nb::kwargs& given) {
        if (!nb::isinstance<optim::Optimizer>(optimizer))
          Argument{name, "optimizer"}.refuse(optimizer, "an optimizer");
        const Names names = names_of<Options>();
        const nb::dict named = own_names(name, given, more, names);
        const auto options = options_from<Options>(name, named);
        for (std::size_t i = 0; i < required; ++i)  // they come first, and have no defaults
          if (!named.contains(names[i]))
            throw nb::type_error(
                detail::cat('[', name, "] missing a required argument: '", names[i], '\'').c_str());
        new (self) S(nb::cast<optim::Optimizer&>(optimizer), options);
      },
      nb::keep_alive<1, 2>(), nb::arg("optimizer").none(), nb::arg("more"), nb::arg("options"));
  return made;
}

}  // namespace ct::python
