#pragma once

#include <span>
#include <utility>
#include <vector>

#include <cotangent/nn/optim/optimizer.h>

namespace ct::optim {

/// Base of the optimizers here: options for each group of parameters, checked by check_options(), which
/// throws ValueError for those that are out of range. Constructors and add_param_group() throw that, and what
/// Optimizer::add_group() throws.
template <class Options>
class CT_API GroupedOptimizer : public Optimizer {
 public:
  void add_param_group(ParamGroup<Options> group);
  /// The options as given; lr(group) is the current learning rate.
  const Options& options(int group = 0) const;

 protected:
  GroupedOptimizer(const char* name, std::vector<Tensor> params, const Options& options);
  GroupedOptimizer(const char* name, std::vector<ParamGroup<Options>> groups);

 private:
  bool keeps_master(int group) const override;
  bool takes_gate() const override { return true; }

  std::vector<Options> options_;
};

// Not in the class, so that programs do not compile them again for the library's own optimizers (`extern template`).
template <class Options>
GroupedOptimizer<Options>::GroupedOptimizer(const char* name, std::vector<Tensor> params,
                                            const Options& options)
    : Optimizer(name) {
  add_param_group({std::move(params), options});
}
template <class Options>
GroupedOptimizer<Options>::GroupedOptimizer(const char* name, std::vector<ParamGroup<Options>> groups)
    : Optimizer(name) {
  check_has_groups(groups.size());
  for (auto& group : groups) add_param_group(std::move(group));
}
template <class Options>
void GroupedOptimizer<Options>::add_param_group(ParamGroup<Options> group) {
  check_options(name(), group.options);
  options_.reserve(options_.size() + 1);  // both or neither
  add_group(std::move(group.params), group.options.lr);
  options_.push_back(group.options);
}
template <class Options>
const Options& GroupedOptimizer<Options>::options(int group) const {
  params(group);  // throws IndexError if there is no such group
  return options_[static_cast<std::size_t>(group)];
}
template <class Options>
bool GroupedOptimizer<Options>::keeps_master(int group) const {
  return options(group).master_weights;
}

}  // namespace ct::optim
