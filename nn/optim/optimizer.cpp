#include <cotangent/nn/optim/optimizer.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <unordered_set>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/nn/optim/step_internal.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/where.h>

namespace ct::optim {
namespace {

std::string key(int group, std::size_t param, const char* what) {
  return detail::cat(group, '.', param, '.', what);
}

// The dtype that a parameter's moments are kept in.
DType moment_dtype(const Tensor& param) { return param.dtype() == DType::f64 ? DType::f64 : DType::f32; }

void check_lr(const char* op, double lr) { detail::check_not_negative(op, "lr", lr); }

void check_gradient(const char* op, const Tensor& p, const Tensor& g, int group, std::size_t index) {
  CT_CHECK(p.is_contiguous(), ValueError, op, "parameter ", index, " of group ", group, ", ", describe(p),
           ", is no longer contiguous; it must stay as it was when the optimizer was made");
  CT_CHECK(g.shape() == p.shape(), ShapeError, op, "the gradient of parameter ", index, " of group ", group,
           " is ", describe(g), ", the parameter ", describe(p), "; their shapes must be equal");
  CT_CHECK(g.dtype() == p.dtype(), DTypeError, op, "the gradient of parameter ", index, " of group ", group,
           " is ", describe(g), ", the parameter ", describe(p), "; their dtypes must be equal");
  CT_CHECK(g.device() == p.device(), DeviceError, op, "the gradient of parameter ", index, " of group ",
           group, " is ", describe(g), ", the parameter ", describe(p),
           "; they must be on one device: call model.to(device) before "
           "the forward pass");
}

}  // namespace

Optimizer::Optimizer(const char* name)
    : name_(name), id_([] {
        static std::atomic<std::uint64_t> next{1};
        return next.fetch_add(1, std::memory_order_relaxed);
      }()) {}
Optimizer::~Optimizer() = default;

Optimizer::Group& Optimizer::group_at(int group) {
  CT_CHECK(group >= 0 && group < group_count(), IndexError, name_, "group ", group,
           " does not exist; the number must lie in [0, ", group_count(), ')');
  return groups_[static_cast<std::size_t>(group)];
}
const Optimizer::Group& Optimizer::group_at(int group) const {
  return const_cast<Optimizer*>(this)->group_at(group);
}

void Optimizer::check_has_groups(std::size_t count) const {
  CT_CHECK(count > 0, ValueError, name_,
           "got no groups of parameters; pass at least one (decay_groups() gives none if all are frozen)");
}

void Optimizer::add_group(std::vector<Tensor> params, double lr) {
  CT_CHECK(!params.empty(), ValueError, name_, "got an empty list of parameters; pass model.parameters()");
  check_lr(name_, lr);
  std::unordered_set<const TensorImpl*> known;
  for (const Group& g : groups_)
    for (const Tensor& p : g.params) known.insert(p.impl());
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i];
    CT_CHECK(p.defined(), ValueError, name_, "parameter ", i, " is undefined; leave it out");
    CT_CHECK(is_floating(p.dtype()), DTypeError, name_, "parameter ", i, " is ", describe(p),
             "; parameters are floating: leave it out");
    CT_CHECK(p.is_leaf(), AutogradError, name_, "parameter ", i, ", ", describe(p),
             ", is the result of an op; optimize the leaf it was made from");
    CT_CHECK(p.is_contiguous(), ValueError, name_, "parameter ", i, ", ", describe(p),
             ", is not contiguous; make it with .contiguous() before it becomes a parameter");
    CT_CHECK(known.insert(p.impl()).second, ValueError, name_, "parameter ", i, ", ", describe(p),
             ", is there twice; list every parameter once");
  }
  Group group;
  group.states.resize(params.size());
  group.grads.resize(params.size());
  group.params = std::move(params);
  group.lr = lr;
  groups_.push_back(std::move(group));
  ++replaced_;
}

void Optimizer::set_lr(double lr, int group) {
  check_lr(name_, lr);
  group_at(group).lr = lr;
}
void Optimizer::set_lr(double lr) {
  for (int g = 0; g < group_count(); ++g) set_lr(lr, g);
}

double Optimizer::base_lr(int group) {
  Group& g = group_at(group);
  if (!g.base_lr) g.base_lr = g.lr;
  return *g.base_lr;
}

// Everything that a step can fail at comes before its first change.
void Optimizer::collect_gradients() {
  for (int g = 0; g < group_count(); ++g) {
    Group& group = groups_[static_cast<std::size_t>(g)];
    for (std::size_t i = 0; i < group.params.size(); ++i) {
      const Tensor& p = group.params[i];
      Tensor& grad = group.grads[i] = p.grad();
      if (!grad.defined()) continue;
      check_gradient(name_, p, grad, g, i);
      if (!grad.is_contiguous()) grad = grad.contiguous();
    }
  }
}

void Optimizer::prepare_moments(int g) {
  Group& group = groups_[static_cast<std::size_t>(g)];
  const int moments = moment_count(g);
  for (std::size_t i = 0; i < group.params.size(); ++i) {
    if (!group.grads[i].defined()) continue;
    const Tensor& p = group.params[i];
    for (int m = 0; m < moments; ++m) {
      Tensor& moment = group.states[i].moments[m];
      const void* const before = moment.defined() ? moment.impl() : nullptr;
      if (!moment.defined()) {
        moment = zeros(p.shape(), {.dtype = moment_dtype(p), .device = p.device()});
      } else if (moment.device() != p.device() || moment.dtype() != moment_dtype(p)) {
        moment = moment.to(p.device(), moment_dtype(p));  // the module has been moved
      }
      if (moment.impl() != before) ++replaced_;
    }
  }
}

// A master is as new as its parameter: where the parameter is not what the master rounds to, somebody else
// has set it, and the master starts from there. Elsewhere it keeps its digits.
void Optimizer::prepare_masters(int g) {
  Group& group = groups_[static_cast<std::size_t>(g)];
  for (std::size_t i = 0; i < group.params.size(); ++i) {
    if (!group.grads[i].defined()) continue;
    ParamState& state = group.states[i];
    if (!is_low_precision(group.params[i].dtype()) || !keeps_master(g)) {
      if (state.master.defined()) state.master = {}, ++replaced_;
      continue;
    }
    const Tensor p = group.params[i].detach();
    if (!state.master.defined()) {
      state.master = p.to(f32), ++replaced_;
      continue;
    }
    const Ref<Storage>& storage = p.impl()->storage;
    if (state.rounded == storage && state.rounded_version == storage->version()) continue;
    if (!(state.master.device() == p.device())) state.master = state.master.to(p.device()), ++replaced_;
    state.master.copy_(where(eq(state.master.to(p.dtype()), p), state.master, p.to(f32)));
  }
}

// A device's state begins as the first device's: a module that moves takes its counts along.
void Optimizer::prepare_state(Group& group) {
  const auto count = static_cast<std::int64_t>(group.params.size());
  std::size_t known = group.on.size();  // the state of the parameter before
  for (std::size_t i = 0; i < group.params.size(); ++i) {
    if (!group.grads[i].defined()) continue;
    const Device device = group.params[i].device();
    std::size_t& home = group.states[i].home;
    if (known < group.on.size() && home == known && group.on[known].device == device) [[likely]]
      continue;
    std::size_t k = 0;
    while (k < group.on.size() && !(group.on[k].device == device)) ++k;
    if (k == group.on.size()) {
      Tensor lr = Tensor::allocate({}, DType::f64, device);
      Tensor steps =
          k == 0 ? zeros({count + 1}, {.dtype = i64, .device = device}) : group.on[0].steps.to(device);
      group.on.push_back({device, std::move(lr), std::move(steps)});
      ++replaced_;
      for (std::size_t j = 0; j < group.params.size(); ++j)
        if (group.states[j].home == 0 && group.params[j].device() == device) group.states[j].home = k;
    }
    StepState& state = group.on[k];
    if (!detail::recording() && state.known_lr != group.lr) {  // a recorded step has one of its own
      if (std::isnan(state.known_lr)) state.lr = Tensor::allocate({}, DType::f64, device);
      state.lr.fill_(group.lr);
      state.known_lr = group.lr;
    }
    const auto at = static_cast<std::int64_t>(i);
    if (home != k) state.steps.select(0, at).copy_(group.on[home].steps.select(0, at));
    home = known = k;
  }
}

std::vector<std::int64_t> Optimizer::step_counts(const Group& group) const {
  std::vector<std::vector<std::int64_t>> on;
  if (takes_gate())
    for (const StepState& state : group.on) on.push_back(state.steps.to_vector<std::int64_t>());
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < group.params.size(); ++i) {
    const ParamState& state = group.states[i];
    counts.push_back(!takes_gate() ? state.step : on.empty() ? 0 : on[state.home][i]);
  }
  return counts;
}

void Optimizer::step() { step_if({}); }

void Optimizer::step_if(const StepGate& gate) {
  const NoGrad no_grad;
  struct Release {  // the gradients belong to the parameters
    Optimizer& self;
    ~Release() {
      for (Group& group : self.groups_)
        for (Tensor& grad : group.grads) grad = {};
      self.gate_ = {};
    }
  } release{*this};
  collect_gradients();
  std::size_t most = 0;
  for (int g = 0; g < group_count(); ++g) {
    prepare_moments(g);
    prepare_masters(g);
    Group& group = groups_[static_cast<std::size_t>(g)];
    prepare_state(group);
    most = std::max(most, group.params.size());
  }
  members_.reserve(most);
  internal::reserve_step(most);
  gate_ = gate;
  const std::int64_t counted = takes_gate() ? 0 : 1;

  for (int g = 0; g < group_count(); ++g) {
    Group& group = groups_[static_cast<std::size_t>(g)];
    const std::size_t n = group.params.size();
    // Parameters of one dtype and device are updated together (nearly always that is all of them). Their
    // gradients are let go of then, so that the next round finds the others.
    for (std::size_t first = 0; first < n; ++first) {
      if (!group.grads[first].defined()) continue;
      const DType dtype = group.params[first].dtype();
      const Device device = group.params[first].device();
      group.now = group.states[first].home;
      const auto together = [&](std::size_t i) {
        return group.params[i].dtype() == dtype && group.params[i].device() == device;
      };
      members_.clear();
      for (std::size_t i = first; i < n; ++i) {
        if (!group.grads[i].defined() || !together(i)) continue;
        members_.push_back(static_cast<int>(i));
        group.states[i].step += counted;
      }
      const DeviceGuard guard(device);
      if (Recording* const step = detail::recording()) [[unlikely]]
        record(*step, g);
      try {
        update(g, members_);
      } catch (...) {  // a step that was not made does not count
        for (const int i : members_) group.states[static_cast<std::size_t>(i)].step -= counted;
        throw;
      }
      for (const int i : members_) {
        const auto at = static_cast<std::size_t>(i);
        const Ref<Storage>& storage = group.params[at].impl()->storage;
        storage->bump_version();
        ParamState& state = group.states[at];
        if (state.master.defined()) state.rounded = storage;
        state.rounded_version = storage->version();
        group.grads[at] = {};
      }
    }
  }
}

// A replay steps at the learning rate of its time, and changes what update() does not: counts and versions.
void Optimizer::record(Recording& step, int g) {
  Group& group = groups_[static_cast<std::size_t>(g)];
  void* const lr = step.slot([this, g] { return std::bit_cast<std::uint64_t>(this->lr(g)); });
  StepState& state = group.on[group.now];
  state.lr = Tensor::from_storage(Storage::wrap(lr, sizeof(double), state.device, {}), {}, {}, 0, DType::f64);
  state.known_lr = std::numeric_limits<double>::quiet_NaN();  // it is the recording's
  step.guard(
      "other tensors of an optimizer's state", [this, then = replaced_] { return replaced_ == then; }, false);
  const auto follows = [this, g](std::size_t i) {
    const ParamState& s = group_at(g).states[i];
    const Ref<Storage>& storage = group_at(g).params[i].impl()->storage;
    return s.rounded == storage && s.rounded_version == storage->version();
  };
  for (const int i : members_) {
    const auto at = static_cast<std::size_t>(i);
    if (group.states[at].master.defined())
      step.guard("masters whose parameters somebody else has changed",
                 [follows, at, was = follows(at)] { return follows(at) == was; });
  }
  const std::int64_t counted = takes_gate() ? 0 : 1;
  step.effect([this, g, counted, members = members_] {
    for (const int i : members) {
      const auto at = static_cast<std::size_t>(i);
      ParamState& s = group_at(g).states[at];
      s.step += counted;
      s.rounded_version = group_at(g).params[at].impl()->storage->version() + 1;
    }
  });
}

void Optimizer::zero_grad(bool set_to_none) {
  const NoGrad no_grad;
  for (Group& group : groups_) {
    for (Tensor& p : group.params) {
      if (set_to_none) {
        p.set_grad({});
      } else if (Tensor grad = p.grad(); grad.defined()) {
        if (grad.is_contiguous()) {
          grad.zero_();
        } else {
          p.set_grad(zeros_like(grad));  // it may be an expanded number
        }
      }
    }
  }
}

StateDict Optimizer::state_dict() const {
  StateDict dict;
  dict.set_value("optimizer", name_);
  dict.set_value("groups", group_count());
  for (int g = 0; g < group_count(); ++g) {
    const Group& group = group_at(g);
    dict.set_value(detail::cat(g, ".lr"), group.lr);
    dict.set_value(detail::cat(g, ".params"), static_cast<std::int64_t>(group.params.size()));
    const std::vector<std::int64_t> counts = step_counts(group);
    for (std::size_t i = 0; i < group.params.size(); ++i) {
      const ParamState& state = group.states[i];
      dict.set_value(key(g, i, "step"), counts[i]);
      for (int m = 0; m < moment_count(g); ++m)
        if (state.moments[m].defined()) dict.set(key(g, i, moment_name(m)), state.moments[m]);
      if (state.master.defined()) dict.set(key(g, i, "master"), state.master);
    }
  }
  return dict;
}

void Optimizer::load_state_dict(const StateDict& dict) {
  const auto kind = dict.value<std::string>("optimizer");
  CT_CHECK(kind == name_, ValueError, name_, "the state is one of ", escaped(kind),
           "; load it into the same kind of optimizer");
  CT_CHECK(dict.value<std::int64_t>("groups") == group_count(), ValueError, name_, "the state has ",
           dict.value<std::int64_t>("groups"), " parameter groups, this optimizer ", group_count(),
           "; build the optimizer as it was when the state was saved");
  std::vector<std::vector<ParamState>> loaded;
  std::vector<Tensor> steps;
  std::vector<double> rates;
  for (int g = 0; g < group_count(); ++g) {
    const Group& group = group_at(g);
    const auto count = dict.value<std::int64_t>(detail::cat(g, ".params"));
    CT_CHECK(count == static_cast<std::int64_t>(group.params.size()), ValueError, name_, "group ", g,
             " of the state has ", count, " parameters, this optimizer's ", group.params.size(),
             "; build the optimizer as it was when the state was saved");
    rates.push_back(dict.value<double>(detail::cat(g, ".lr")));
    check_lr(name_, rates.back());
    auto& states = loaded.emplace_back(group.params.size());
    std::vector<std::int64_t> counts(group.params.size() + 1);
    for (std::size_t i = 0; i < group.params.size(); ++i) {
      const Tensor& p = group.params[i];
      states[i].step = counts[i] = dict.count(key(g, i, "step"), name_);
      for (int m = 0; m < moment_count(g); ++m) {
        const Tensor* moment = dict.find(key(g, i, moment_name(m)));
        CT_CHECK(moment || states[i].step == 0, ValueError, name_, "the state has no '",
                 key(g, i, moment_name(m)),
                 "'; it is damaged, or was saved with other options: build the optimizer as it was then");
        if (!moment) continue;
        CT_CHECK(moment->shape() == p.shape(), ValueError, name_, "'", key(g, i, moment_name(m)), "' is ",
                 describe(*moment), ", the parameter is ", describe(p), "; their shapes must be equal");
        // to() returns the same tensor where nothing changes: the optimizer must own its moments.
        states[i].moments[m] = moment->detach().to(moment_dtype(p)).to(p.device()).clone();
      }
      const Tensor* master = dict.find(key(g, i, "master"));
      if (!master || !is_low_precision(p.dtype()) || !keeps_master(g)) continue;
      CT_CHECK(master->shape() == p.shape(), ValueError, name_, "'", key(g, i, "master"), "' is ",
               describe(*master), ", the parameter is ", describe(p), "; their shapes must be equal");
      states[i].master = master->detach().to(f32).to(p.device()).clone();
    }
    steps.push_back(from_vector(counts, {static_cast<std::int64_t>(counts.size())}));
  }
  for (int g = 0; g < group_count(); ++g) {
    const auto at = static_cast<std::size_t>(g);
    groups_[at].states = std::move(loaded[at]);
    groups_[at].on.clear();
    groups_[at].on.push_back({cpu, Tensor::allocate({}, DType::f64, cpu), std::move(steps[at])});
    set_lr(rates[static_cast<std::size_t>(g)], g);
  }
  ++replaced_;
}

}  // namespace ct::optim
