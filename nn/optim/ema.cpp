#include <cotangent/nn/optim/ema.h>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/update/update_internal.h>

namespace ct::optim {
namespace {

constexpr const char* kName = "Ema";

DType average_dtype(const Tensor& param) { return param.dtype() == DType::f64 ? DType::f64 : DType::f32; }

std::vector<nn::Named<Tensor>> numbered(std::vector<Tensor> params) {
  std::vector<nn::Named<Tensor>> named;
  named.reserve(params.size());
  for (Tensor& p : params) named.push_back({std::to_string(named.size()), std::move(p)});
  return named;
}

}  // namespace

Ema::Ema(const nn::Module& module, EmaOptions options) : Ema(module.named_parameters(), options) {}
Ema::Ema(std::vector<Tensor> params, EmaOptions options) : Ema(numbered(std::move(params)), options) {}

Ema::Ema(std::vector<nn::Named<Tensor>> params, EmaOptions options) : options_(options) {
  CT_CHECK(options.decay >= 0 && options.decay < 1, ValueError, kName, "decay is ", options.decay,
           "; it must lie in [0, 1)");
  CT_CHECK(!params.empty(), ValueError, kName, "got no parameters; pass a module that has some");
  const NoGrad no_grad;
  for (nn::Named<Tensor>& p : params) {
    CT_CHECK(p.value.defined() && is_floating(p.value.dtype()) && p.value.is_contiguous(), ValueError, kName,
             "parameter '", p.name, "' is ", p.value.defined() ? describe(p.value) : "undefined",
             "; it must be floating and contiguous");
    averages_.push_back(p.value.detach().to(average_dtype(p.value)).clone());
    names_.push_back(std::move(p.name));
    params_.push_back(std::move(p.value));
  }
}

const Tensor& Ema::counter(Device device, DType dtype) {
  for (const Counter& c : counters_)
    if (c.device == device && c.dtype == dtype) return c.updates;
  const Tensor updates = from_vector(std::vector{updates_, std::int64_t{0}}, {2});
  return counters_.emplace_back(Counter{device, dtype, updates.to(device)}).updates;
}

void Ema::update() {
  CT_CHECK(
      !applied(), ValueError, kName,
      "update() between apply() and restore(): the parameters are the averages now; call restore() first");
  const NoGrad no_grad;
  for (std::size_t i = 0; i < params_.size(); ++i) {  // they follow a module that has been moved
    const Tensor& p = params_[i];
    Tensor& average = averages_[i];
    if (average.device() != p.device() || average.dtype() != average_dtype(p))
      average = average.to(p.device(), average_dtype(p)), ++replaced_;
    CT_CHECK(p.is_contiguous(), ValueError, kName, "parameter '", names_[i], "', ", describe(p),
             ", is no longer contiguous; it must stay as it was when the averages were begun");
  }
  std::vector<bool> done(params_.size());
  update::many::reserve_scratch(params_.size(), 1 + 2 * params_.size());
  for (std::size_t first = 0; first < params_.size(); ++first) {
    if (done[first]) continue;
    const DType dtype = params_[first].dtype();
    const Device device = params_[first].device();
    const Tensor& updates = counter(device, dtype);
    std::vector<const Tensor*>& inputs = update::many::scratch_inputs();
    inputs.push_back(&updates);
    for (std::size_t i = first; i < params_.size(); ++i) {
      if (params_[i].dtype() != dtype || !(params_[i].device() == device)) continue;
      done[i] = true;
      inputs.insert(inputs.end(), {&averages_[i], &params_[i]});
      averages_[i].impl()->storage->bump_version();
    }
    ct::detail::write(update::k_average_step, inputs, update::AverageAttrs{options_.decay, options_.warmup});
  }
  if (Recording* const step = ct::detail::recording())
    step->guard(
        "other averages", [this, then = replaced_] { return replaced_ == then; }, false);
  at_replay([this] { ++updates_; });
}

void Ema::apply() {
  CT_CHECK(!applied(), ValueError, kName, "apply() a second time; call restore() between");
  const NoGrad no_grad;
  std::vector<Tensor> kept;
  for (const Tensor& p : params_) kept.push_back(p.detach().clone());
  kept_ = std::move(kept);
  for (std::size_t i = 0; i < params_.size(); ++i) params_[i].copy_(averages_[i]);
}

void Ema::restore() {
  CT_CHECK(applied(), ValueError, kName, "restore() without apply(); call apply() first");
  const NoGrad no_grad;
  for (std::size_t i = 0; i < params_.size(); ++i) params_[i].copy_(kept_[i]);
  kept_.clear();
}

EmaScope::~EmaScope() {
  if (!ema_.applied()) return;
  try {
    ema_.restore();
  } catch (...) {  // NOLINT: a destructor that throws ends the process
  }
}

StateDict Ema::state_dict() const {
  StateDict state;
  for (std::size_t i = 0; i < averages_.size(); ++i) state.set(names_[i], averages_[i]);
  state.set_value("updates", updates_);
  return state;
}

void Ema::load_state_dict(const StateDict& state) {
  const NoGrad no_grad;
  std::vector<Tensor> loaded;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Tensor& average = state.at(names_[i]);
    CT_CHECK(average.shape() == params_[i].shape(), ValueError, kName, "'", names_[i], "' is ",
             describe(average), ", the parameter is ", describe(params_[i]), "; their shapes must be equal");
    loaded.push_back(average.detach().to(average_dtype(params_[i])).to(params_[i].device()).clone());
  }
  const std::int64_t updates = state.count("updates", kName);
  averages_ = std::move(loaded);
  updates_ = updates;
  counters_.clear();
  ++replaced_;
}

}  // namespace ct::optim
