#pragma once

#include <initializer_list>

#include "options.h"

// Optimizers and schedules as classes of Python: their arguments by C++'s names, and by PyTorch's.

namespace ct::python {

/// What an optimizer is given: tensors, or pairs of a name and a tensor. Throws TypeError for a tensor by itself, which would
/// be taken for its rows.
std::vector<Tensor> read_params(const char* op, nb::handle params);
/// A tensor by itself is one.
std::vector<Tensor> read_tensors(const char* op, nb::handle tensors);
/// {"betas": (0.9, 0.99)} as {"beta1": 0.9, "beta2": 0.99}, and so on for what PyTorch names otherwise; `more` are the
/// values of the first of `names`.
nb::dict own_names(const char* op, nb::handle given, const nb::args& more = {},
                   std::initializer_list<const char*> names = {});
/// The groups of an optimizer's arguments, each as a dict with all options and "params".
std::vector<nb::dict> read_groups(const char* op, nb::handle params, const nb::dict& defaults);

nb::object option_of(optim::MuonLr value);
nb::object option_of(optim::LineSearch value);
template <std::size_t kCount>
nb::object option_of(const std::array<double, kCount>& value) {
  nb::list made;
  for (const double one : value) made.append(one);
  return nb::tuple(made);
}
template <class T>
nb::object option_of(const T& value) {
  return nb::cast(value);
}

/// All options by name: those of a struct, or with what was given.
template <class Options, class... Types>
nb::dict options_of(const Options& options, const Field<Options, Types>&... fields) {
  nb::dict all;
  ((all[fields.name] = option_of(options.*fields.place)), ...);
  return all;
}

/// A class of `O`, which is made of groups. What its options are is kept beside it, for param_groups.
template <class O, class Options, class... Types>
void bind_optimizer(nb::module_& m, const char* name, const char* doc,
                    const Field<Options, Types>&... fields) {
  const auto make = [name, fields...](nb::dict& group) {
    const std::vector<Tensor> params = read_params(name, group["params"]);
    nb::del(group["params"]);
    const Options options = read_options<Options>(name, nb::borrow<nb::kwargs>(group), fields...);
    group = options_of(options, fields...);
    return optim::ParamGroup<Options>{params, options};
  };
  nb::class_<O, optim::Optimizer>(m, name, nb::dynamic_attr(), doc)
      .def(
          "__init__",
          [name, make, fields...](nb::pointer_and_handle<O> self, nb::handle params, const nb::args& more,
                                  const nb::kwargs& given) {
            const nb::dict named = own_names(name, given, more, {fields.name...});
            const nb::dict defaults =
                options_of(read_options<Options>(name, nb::borrow<nb::kwargs>(named), fields...), fields...);
            std::vector<optim::ParamGroup<Options>> groups;
            nb::list kept;
            for (nb::dict& group : read_groups(name, params, defaults)) {
              groups.push_back(make(group));
              kept.append(group);
            }
            new (self.p) O(groups);
            self.h.attr("defaults") = defaults;
            self.h.attr("_options") = kept;
          },
          nb::arg("params").none(), nb::arg("more"), nb::arg("options"))
      .def(
          "add_param_group",
          [name, make](nb::handle self, nb::handle group, const nb::kwargs& options) {
            nb::dict given =
                nb::isinstance<nb::dict>(group) ? nb::borrow<nb::dict>(group) : nb::dict(options);
            if (!nb::isinstance<nb::dict>(group)) given["params"] = group;
            nb::list one;
            one.append(given);
            nb::dict whole = read_groups(name, one, nb::borrow<nb::dict>(self.attr("defaults")))[0];
            nb::cast<O&>(self).add_param_group(make(whole));
            self.attr("_options").attr("append")(whole);
          },
          nb::arg("param_group"), nb::arg("options"),
          "add_param_group({\"params\": tensors, \"lr\": ..}): more parameters. Options that are left out "
          "are those the "
          "optimizer was made with.");
}

template <class S, class Options, class... Types>
void bind_schedule(nb::module_& m, const char* name, const char* doc, std::size_t required,
                   const Field<Options, Types>&... fields) {
  nb::class_<S, optim::LRScheduler>(m, name, doc)
      .def(
          "__init__",
          [name, required, fields...](S* self, nb::handle optimizer, const nb::args& more, const nb::kwargs& given) {
            if (!nb::isinstance<optim::Optimizer>(optimizer))
              Argument{name, "optimizer"}.refuse(optimizer, "an optimizer");
            const nb::dict named = own_names(name, given, more, {fields.name...});
            const auto options = read_options<Options>(name, nb::borrow<nb::kwargs>(named), fields...);
            const std::array<const char*, sizeof...(fields)> known{fields.name...};
            for (std::size_t i = 0; i < required; ++i)  // they come first, and have no defaults
              if (!named.contains(known[i]))
                throw nb::type_error(
                    detail::cat('[', name, "] missing a required argument: '", known[i], '\'').c_str());
            new (self) S(nb::cast<optim::Optimizer&>(optimizer), options);
          },
          nb::keep_alive<1, 2>(), nb::arg("optimizer").none(), nb::arg("more"), nb::arg("options"));
}

}  // namespace ct::python
