#pragma once

#include "options.h"

// Optimizers as classes of Python. cotangent/optim.py makes groups of their arguments.

namespace ct::python {

/// All options by name.
template <class Options>
nb::object options_of(const Options& options) {
  nb::dict all;
  std::apply([&](const auto&... fields) { ((all[fields.name] = give(options.*fields.place)), ...); },
             fields_of(&options));
  return all;
}

/// A class of `O`, which is made of groups, or of one. `def` has what reads its options.
template <class O, class Options>
void bind_optimizer(nb::handle m, const FunctionDef& def) {
  using Group = optim::ParamGroup<Options>;
  const auto group_of = [&def](nb::handle one) {
    return Group{read_params({def.name, "params"}, one[0]),
                 options_from<Options>(def.name, nb::borrow<nb::dict>(one[1]))};
  };
  nb::class_<O, optim::Optimizer> made(m, def.name, nb::dynamic_attr(), def.doc);
  made.attr("__signature__") = nb::module_::import_("cotangent._signature").attr("of")(def.signature);
  made.attr("_read_options") = make_function(def, "cotangent");
  made.def(
      "__init__", [=, &def](nb::pointer_and_handle<O> self, const nb::args& args, const nb::kwargs& named) {
        std::vector<Group> groups;
        for (nb::handle one : nb::module_::import_("cotangent.optim").attr("_groups")(self.h, *args, **named))
          groups.push_back(group_of(one));
        if constexpr (std::is_constructible_v<O, std::vector<Group>>) {
          new (self.p) O(groups);
        } else {
          CT_CHECK(groups.size() == 1, ValueError, def.name, "got ", groups.size(), " groups; it takes one");
          new (self.p) O(groups[0].params, groups[0].options);
        }
      });
  made.def("_add", [=, &def](O& o, nb::handle one) {
    if constexpr (requires(Group group) { o.add_param_group(group); })
      o.add_param_group(group_of(one));
    else
      ct::detail::fail<ValueError>(def.name, "it takes one group of parameters; make another one");
  });
}

}  // namespace ct::python
