#include <cotangent/nn/module.h>

#include <algorithm>
#include <ostream>
#include <unordered_set>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/error.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/nn/module_internal.h>

namespace ct::nn {

using detail::Entry;
using detail::ModuleState;
using detail::TensorSlot;
using detail::visit_slots;

namespace {

void check_name(const ModuleState& state, const char* op, const std::string& name) {
  CT_CHECK(!name.empty() && name.find('.') == std::string::npos, ValueError, op, "got the name '", name,
           "'; a name is not empty and contains no '.', which separates the names of a path");
  const bool used = std::ranges::any_of(state.slots, [&](const auto& s) { return s->name == name; }) ||
                    std::ranges::any_of(state.children, [&](const auto& c) { return c->name == name; });
  CT_CHECK(!used, ValueError, op, "the name '", name, "' is taken in this module; choose another one");
}

std::vector<Named<Tensor>> list_tensors(const Module& root, bool buffers) {
  std::vector<Named<Tensor>> list;
  visit_slots(root, true, [&](const std::string& path, const Entry& entry) {
    if (entry.slot->is_buffer == buffers) list.push_back({path, entry.slot->now()});
  });
  return list;
}

std::vector<Tensor> values_of(std::vector<Named<Tensor>> list) {
  std::vector<Tensor> tensors;
  tensors.reserve(list.size());
  for (Named<Tensor>& entry : list) tensors.push_back(std::move(entry.value));
  return tensors;
}

}  // namespace

ModuleState& Module::state() const {
  CT_CHECK(state_, Error, "module",
           "the module is empty because it was moved from; use the one it was moved to");
  return *state_;
}

const detail::ForwardHooks* detail::hooks_of(const Module& module) {
  using State = detail::ModuleState;
  const State& own = State::of(module);
  if (Recording* const recording = ct::detail::recording()) [[unlikely]] {
    const auto changes = [](const State& state) { return state.hooks ? state.hooks->changes : 0; };
    recording->guard(
        "other hooks of a module",
        [state = State::shared(module), changes, then = changes(own)] { return changes(*state) == then; },
        false, true);
  }
  return own.hooks.get();
}

void detail::check_no_place(const Module& module, const Tensor& given) {
  CT_CHECK(!given.defined(), ValueError, "module", "a forward hook of a ", readable_type_name(typeid(module)),
           " gave ", describe(given),
           ", and its forward() has no tensor there that it could take the place of; give an undefined one");
}

detail::ModuleExtra* Module::extra() const { return state().extra.get(); }
void Module::set_extra(std::unique_ptr<detail::ModuleExtra> extra) { state().extra = std::move(extra); }

std::shared_ptr<Entry> Module::add_child(std::string name, const Module& child, const std::type_info& type) {
  ModuleState& own = state();
  check_name(own, "add", name);
  ModuleState::visit(child, [&](const std::string&, const Module& m) {
    CT_CHECK(!m.is_same(*this), ValueError, "add", "the module '", name,
             "' contains the one it is added to; modules form a tree");
  });
  if (child.state().kind.empty()) child.state().kind = detail::readable_type_name(type);
  detail::note_reach(*this);
  for (detail::Stray& stray : detail::find_strays(child)) child.state().strays.push_back(std::move(stray));
  return own.children.emplace_back(
      std::make_shared<Entry>(std::move(name), child.state_, nullptr, true, &own));
}

Parameter Module::parameter(std::string name, Tensor tensor) {
  check_name(state(), "parameter", name);
  detail::prepare_parameter("parameter", name, tensor);
  return Parameter(add_slot({std::move(name), std::move(tensor)}, true));
}

void detail::prepare_parameter(const char* op, const std::string& name, Tensor& tensor) {
  if (!tensor.defined()) return;
  CT_CHECK(is_floating(tensor.dtype()), DTypeError, op, '\'', name, "' is ", describe(tensor),
           "; a parameter has a floating dtype: use buffer() for other state");
  check_leaf(op, name, tensor);
  if (!tensor.requires_grad()) tensor.set_requires_grad();
}

std::shared_ptr<Entry> Module::add_slot(TensorSlot slot, bool persistent) {
  auto shared = std::make_shared<TensorSlot>(std::move(slot));
  detail::note_reach(*this);
  return state().slots.emplace_back(
      std::make_shared<Entry>(shared->name, nullptr, shared, persistent, &state()));
}

Buffer Module::buffer(std::string name, Tensor tensor, BufferOptions options) {
  check_name(state(), "buffer", name);
  return Buffer(add_slot({std::move(name), std::move(tensor), /*is_buffer=*/true}, options.persistent));
}

std::vector<Named<Tensor>> Module::named_parameters() const {
  detail::report_strays(*this);
  return list_tensors(*this, false);
}
std::vector<Named<Tensor>> Module::named_buffers() const { return list_tensors(*this, true); }
std::vector<Tensor> Module::parameters() const { return values_of(named_parameters()); }
std::vector<Tensor> Module::buffers() const { return values_of(named_buffers()); }

std::vector<Named<Module>> Module::children() const {
  std::vector<Named<Module>> list;
  for (const auto& child : state().children) list.push_back({child->name, Module(child->child)});
  return list;
}

std::vector<Named<Module>> Module::named_modules() const {
  std::vector<Named<Module>> list;
  ModuleState::visit(*this, [&](const std::string& path, const Module& m) { list.push_back({path, m}); });
  return list;
}

Module Module::child(std::string_view path) const {
  Module at = *this;
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find('.'));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    const auto& children = at.state().children;
    const auto found = std::ranges::find_if(children, [&](const auto& c) { return c->name == name; });
    CT_CHECK(found != children.end(), ValueError, "child", "there is no module '", name, "' on the path '",
             path, "'; print the model to see its tree");
    at = Module((*found)->child);
  }
  return at;
}

Tensor Module::get(std::string_view path) const {
  const std::size_t dot = path.rfind('.');
  const bool nested = dot != std::string_view::npos;
  const Module owner = nested ? child(path.substr(0, dot)) : *this;
  const std::string_view name = nested ? path.substr(dot + 1) : path;
  for (const auto& entry : owner.state().slots)
    if (entry->name == name && entry->slot->tensor.defined()) return entry->slot->now();
  ct::detail::fail<ValueError>("get", "there is no parameter or buffer '", path,
                               "'; named_parameters() and named_buffers() list what there is");
}

std::int64_t Module::num_parameters(bool trainable_only) const {
  std::int64_t count = 0;
  for (const auto& [name, p] : list_tensors(*this, false))
    if (!trainable_only || p.requires_grad()) count += p.numel();
  return count;
}

StateDict Module::state_dict() const {
  detail::report_strays(*this);
  StateDict dict;
  visit_slots(*this, false, [&](const std::string& path, const Entry& entry) {
    if (entry.persistent) dict.set(path, entry.slot->tensor.detach());
  });
  return dict;
}

LoadReport Module::check_state_dict(const StateDict& dict, LoadOptions options) const {
  detail::report_strays(*this);
  LoadReport report;
  std::string misfits;
  std::unordered_set<std::string> known;
  visit_slots(*this, false, [&](const std::string& path, const Entry& entry) {
    if (!entry.persistent) return;
    const Tensor& own = entry.slot->tensor;
    known.insert(path);
    const Tensor* given = dict.find(path);
    if (!given) {
      report.missing.push_back(path);
    } else if (given->shape() != own.shape()) {
      misfits += (misfits.empty() ? "" : ", ") + printable(path).str() + " is " +
                 ct::to_string(given->shape()) + " instead of " + ct::to_string(own.shape());
    }
  });
  for (const auto& [name, tensor] : dict)
    if (!known.contains(name)) report.unexpected.push_back(name);

  std::string problems;
  const auto add = [&problems](const char* title, const std::string& text) {
    if (!text.empty()) problems += (problems.empty() ? "" : "; ") + std::string(title) + text;
  };
  if (options.strict) {
    add("missing keys: ", printable_list(report.missing));
    add("unexpected keys: ", printable_list(report.unexpected));
  }
  add("shapes that differ: ", misfits);
  CT_CHECK(problems.empty(), ValueError, "load_state_dict", problems, "; load the state of the same model",
           misfits.empty() ? ", or pass {.strict = false} to take what fits" : "");
  return report;
}

LoadReport Module::load_state_dict(const StateDict& dict, LoadOptions options) {
  LoadReport report = check_state_dict(dict, options);
  const NoGrad guard;
  struct Copy {
    Tensor to, from;
  };
  std::vector<Copy> copies;
  std::unordered_set<const Storage*> overwritten;
  visit_slots(*this, false, [&](const std::string& path, const Entry& entry) {
    const Tensor* given = entry.persistent ? dict.find(path) : nullptr;
    if (!given) return;
    copies.push_back({entry.slot->tensor, *given});
    overwritten.insert(entry.slot->tensor.impl()->storage.get());
  });
  // The dict may hold this module's own tensors under other names: they are read before one is written.
  for (Copy& c : copies) {
    const bool in_place = c.from.raw_data() == c.to.raw_data() && c.from.strides() == c.to.strides();
    if (!in_place && overwritten.contains(c.from.impl()->storage.get())) c.from = c.from.clone();
  }
  for (Copy& c : copies) c.to.copy_(c.from);
  return report;
}

void Module::train(bool on) {
  ModuleState::visit(*this, [on](const std::string&, const Module& m) { ModuleState::of(m).training = on; });
  ct::detail::bump_state_epoch();
}

bool Module::is_training() const {
  const bool on = state().training;
  if (Recording* const recording = ct::detail::recording()) [[unlikely]]
    recording->guard(
        "modules in another mode (train, eval)", [state = state_, on] { return state->training == on; }, true,
        true);
  return on;
}

void Module::zero_grad(bool set_to_none) {
  for (const auto& [name, p] : list_tensors(*this, false)) {
    Tensor parameter = p;
    if (!p.grad().defined()) continue;
    if (set_to_none) {
      parameter.set_grad({});
    } else {
      const NoGrad guard;
      p.grad().detach().zero_();
    }
  }
}

void Module::requires_grad(bool value) {
  for (auto& [name, p] : list_tensors(*this, false)) p.set_requires_grad(value);
}

void Module::apply(const std::function<void(Module&)>& f) {
  CT_CHECK(f, ValueError, "apply", "got an empty function; pass one that takes a Module&");
  std::vector<Named<Module>> list = named_modules();
  for (auto m = list.rbegin(); m != list.rend(); ++m) f(m->value);
}

void Module::describe_as(std::string kind, std::string settings) {
  state().kind = std::move(kind);
  state().settings = std::move(settings);
}

std::string Module::kind() const { return state().kind; }
std::string Module::settings() const { return state().settings; }

namespace {

void print_tree(std::string& out, const Module& module, std::string_view kind, const std::string& indent) {
  const ModuleState& state = ModuleState::of(module);
  out += state.kind.empty() ? (kind.empty() ? "Module" : kind) : std::string_view(state.kind);
  out += '(' + state.settings;
  for (const auto& child : state.children) {
    out += "\n" + indent + "  (" + child->name + "): ";
    print_tree(out, ModuleState::handle(child->child), {}, indent + "  ");
  }
  out += state.children.empty() ? ")" : "\n" + indent + ")";
}

}  // namespace

std::string to_string(const Module& module, std::string_view kind) {
  std::string text;
  print_tree(text, module, kind, {});
  return text;
}

std::ostream& print(std::ostream& out, const Module& module, const std::type_info& type) {
  return out << to_string(module, detail::readable_type_name(type));
}

}  // namespace ct::nn
