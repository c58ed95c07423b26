#include <cotangent/nn/functional_call.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/nn/module_internal.h>

namespace ct::nn::detail {

using ct::detail::forward_scope;

namespace {

/// The tensors of one call, and the scope of the call that it is made in.
struct Scope final : ct::detail::ForwardScope {
  std::shared_ptr<const ForwardScope> outer;
  std::unordered_map<const TensorSlot*, Tensor> tensors;
  std::vector<std::shared_ptr<TensorSlot>> slots;  // those of `tensors`, which count the scope

  Scope() {
    if (const ForwardScope* const around = forward_scope()) outer = around->shared_from_this();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() override {
    for (const auto& slot : slots) slot->substitutes.add(-1);
  }
};

/// How many letters to change, add or leave out between one word and another.
std::size_t edits(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t changed = diagonal + (from[i] != to[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string nearest(const std::string& name, std::vector<std::string> names) {
  std::ranges::stable_sort(names, {}, [&](const std::string& one) { return edits(name, one); });
  if (names.size() > 3) names.resize(3);
  return printable_list(names);
}

}  // namespace

const Tensor& TensorSlot::substituted(const TensorSlot& slot) {
  for (const auto* scope = static_cast<const Scope*>(forward_scope()); scope;
       scope = static_cast<const Scope*>(scope->outer.get()))
    if (const auto found = scope->tensors.find(&slot); found != scope->tensors.end()) return found->second;
  return slot.tensor;
}

Substitution::Substitution(const Module& module, const std::vector<Named<Tensor>>& tensors) {
  constexpr const char* op = "functional_call";
  std::map<std::string, const TensorSlot*> by_path;
  std::unordered_map<const TensorImpl*, std::vector<std::shared_ptr<TensorSlot>>> by_tensor;
  visit_slots(module, false, [&](const std::string& path, const Entry& entry) {
    by_path.emplace(path, entry.slot.get());
    by_tensor[entry.slot->tensor.impl()].push_back(entry.slot);
  });
  const auto scope = std::make_shared<Scope>();
  for (const auto& [name, tensor] : tensors) {
    const auto found = by_path.find(name);
    if (found == by_path.end()) {
      std::vector<std::string> names;
      for (const auto& [path, slot] : by_path) names.push_back(path);
      ct::detail::fail<ValueError>(op, "the module has no parameter or buffer ", printable(name),
                                   "; the nearest of its names are ", nearest(name, std::move(names)));
    }
    const Tensor& own = found->second->tensor;
    CT_CHECK(tensor.defined(), ValueError, op, "got an undefined tensor for ", printable(name),
             "; leave the name out, and the module's own is taken");
    const std::string both = ct::detail::cat(printable(name), " is ", describe(own),
                                             ", the tensor given for it ", describe(tensor));
    CT_CHECK(tensor.shape() == own.shape(), ShapeError, op, both, "; their shapes must be the same");
    CT_CHECK(tensor.device() == own.device(), DeviceError, op, both,
             "; their devices must be the same: move it with .to()");
    for (const std::shared_ptr<TensorSlot>& slot : by_tensor.at(own.impl())) {
      const auto [at, is_new] = scope->tensors.emplace(slot.get(), tensor);
      CT_CHECK(at->second.is_same(tensor), ValueError, op, "got two tensors for one: what the module has as ",
               printable(name), " it has under another name, too; give one, or the same for both");
      if (!is_new) continue;
      slot->substitutes.add(1);
      scope->slots.push_back(slot);
    }
  }
  scope_ = scope;
  previous_ = std::exchange(forward_scope(), scope.get());
}

Substitution::~Substitution() { forward_scope() = previous_; }

}  // namespace ct::nn::detail
