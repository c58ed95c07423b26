#include <cotangent/nn/optim/grad_scaler.h>

#include <cmath>
#include <limits>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/update/update_internal.h>

namespace ct::optim {
namespace {

constexpr const char* kScaler = "GradScaler";

// Checks that the scale is a normal f32, whose inverse is finite.
void check_scale(const char* what, double scale) {
  const auto f = static_cast<float>(scale);
  CT_CHECK(f >= std::numeric_limits<float>::min() && std::isfinite(f), ValueError, kScaler, what, " is ",
           scale, "; it must lie between 2^-126 and what f32 holds");
}

void check_options(const GradScalerOptions& o) {
  check_scale("init_scale", o.init_scale);
  CT_CHECK(o.growth_factor > 1 && std::isfinite(o.growth_factor), ValueError, kScaler, "growth_factor is ",
           o.growth_factor, "; it must be > 1 and finite");
  CT_CHECK(o.backoff_factor > 0 && o.backoff_factor < 1, ValueError, kScaler, "backoff_factor is ",
           o.backoff_factor, "; it must lie between 0 and 1");
  CT_CHECK(o.growth_interval > 0, ValueError, kScaler, "growth_interval is ", o.growth_interval,
           "; it must be > 0");
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options) : options_(options) {
  check_options(options);
  set_numbers(options.init_scale, 0);
}

void GradScaler::set_numbers(double scale, double good_steps) {
  const Device device = numbers_.defined() ? numbers_.device() : cpu;
  std::vector<double> values(update::kScaleNumbers);
  values[update::kScale] = scale;
  values[update::kInverse] = 1 / scale;
  values[update::kGoodSteps] = good_steps;
  numbers_ = from_vector(values, {update::kScaleNumbers}, {.dtype = f32, .device = device});
}

// The numbers live where the losses and gradients do.
void GradScaler::place(Device device) {
  if (numbers_.device() == device) return;
  CT_CHECK(seen_.empty(), DeviceError, kScaler, "gradients are on ", to_string(numbers_.device()), " and ",
           to_string(device), "; scale the losses of each device with a scaler of their own");
  const NoGrad no_grad;
  numbers_ = numbers_.to(device);
  spare_.clear();
}

Tensor GradScaler::scale(const Tensor& loss) {
  if (!options_.enabled) return loss;
  place(loss.device());
  if (Recording* const step = ct::detail::recording())
    step->guard(
        "another scale, set by hand", [this, then = numbers_] { return numbers_.impl() == then.impl(); },
        false);
  return loss * numbers_.select(0, update::kScale);
}

GradScaler::Seen& GradScaler::seen(const Optimizer& optimizer) {
  for (Seen& s : seen_)
    if (s.optimizer == optimizer.id_) return s;
  Seen& fresh = seen_.emplace_back();
  fresh.optimizer = optimizer.id_;
  return fresh;
}

// Looks through the gradients, and divides them by the scale if asked to.
void GradScaler::inspect(Optimizer& optimizer, Seen& entry, bool unscale) {
  const NoGrad no_grad;
  std::vector<Tensor> grads;
  const bool parts = !optimizer.whole_.empty();
  for (int g = 0; g < (parts ? 1 : optimizer.group_count()); ++g) {
    for (Tensor p : parts ? optimizer.whole_ : optimizer.params(g)) {
      Tensor grad = p.grad();
      if (!grad.defined()) continue;
      if (!grad.is_contiguous()) {
        grad = grad.contiguous();
        p.set_grad(grad);  // the divided gradients must be those that the optimizer reads
      }
      CT_CHECK(grads.empty() || grad.device() == grads[0].device(), DeviceError, kScaler, "gradients are on ",
               to_string(grads[0].device()), " and ", to_string(grad.device()),
               "; give the parameters of each device an optimizer and a scaler of their own");
      grads.push_back(std::move(grad));
    }
  }
  CT_CHECK(!grads.empty(), ValueError, kScaler, "no parameter of ", optimizer.name(),
           " has a gradient; call scale(loss).backward() first");
  update::many::reserve_scratch(grads.size(), grads.size() + 2);
  const Device device = grads[0].device();
  if (numbers_.device() != device) {
    CT_CHECK(seen_.size() == 1, DeviceError, kScaler, "gradients are on ", to_string(numbers_.device()),
             " and ", to_string(device), "; scale the losses of each device with a scaler of their own");
    numbers_ = numbers_.to(device);
    spare_.clear();
  }
  const DeviceGuard guard(device);
  if (spare_.empty()) {
    entry.found_inf = zeros({}, {.dtype = f32, .device = device});
  } else {
    entry.found_inf = std::move(spare_.back());
    spare_.pop_back();
    entry.found_inf.zero_();
  }
  const Tensor factor = unscale ? number(update::kInverse) : Tensor();
  std::vector<const Tensor*>& inputs = update::many::scratch_inputs();
  inputs.insert(inputs.end(), {&entry.found_inf, &factor});
  for (const Tensor& grad : grads) inputs.push_back(&grad);
  ct::detail::write(update::k_unscale, inputs, {});
  if (unscale)
    for (const Tensor& grad : grads) grad.impl()->storage->bump_version();
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled) return;
  Seen& entry = seen(optimizer);
  CT_CHECK(!entry.stepped, ValueError, kScaler, "unscale_() of ", optimizer.name(),
           " after its step(); call it between backward() and step()");
  CT_CHECK(!entry.unscaled, ValueError, kScaler, "unscale_() of ", optimizer.name(),
           " a second time since update(); the gradients would be divided twice");
  inspect(optimizer, entry, true);
  entry.unscaled = true;
}

void GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled) return optimizer.step();
  Seen& entry = seen(optimizer);
  CT_CHECK(!entry.stepped, ValueError, kScaler, "step() of ", optimizer.name(),
           " a second time since update(); call update() after each round of steps");
  if (!entry.unscaled) inspect(optimizer, entry, !optimizer.takes_gate());
  bool found = false;  // as far as the host knows
  if ((entry.found_inf.is_cpu() && !ct::detail::recording()) || !optimizer.takes_gate()) {
    found = entry.found_inf.item() != 0;
  }
  if (!found && optimizer.takes_gate()) {
    optimizer.step_if({entry.found_inf, entry.unscaled ? Tensor() : number(update::kInverse)});
  } else if (!found) {
    optimizer.step();
  }
  entry.stepped = true;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  std::erase_if(seen_, [](const Seen& s) { return !s.found_inf.defined(); });  // their inspection failed
  CT_CHECK(!seen_.empty(), ValueError, kScaler, "update() without a step(); call step(optimizer) before it");
  const NoGrad no_grad;
  spare_.reserve(spare_.size() + seen_.size());
  const Device device = numbers_.device();
  const DeviceGuard guard(device);
  Tensor& found = seen_[0].found_inf;
  for (std::size_t i = 1; i < seen_.size(); ++i) found.add_(seen_[i].found_inf);
  ct::detail::write(
      update::k_update_scale, {&numbers_, &found},
      update::ScaleAttrs{options_.growth_factor, options_.backoff_factor, options_.growth_interval});
  numbers_.impl()->storage->bump_version();
  for (Seen& s : seen_) spare_.push_back(std::move(s.found_inf));
  seen_.clear();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  check_scale("the new scale", new_scale);
  set_numbers(new_scale, numbers_.to_vector<double>()[update::kGoodSteps]);
  seen_.clear();
}

double GradScaler::get_scale() const {
  return options_.enabled ? numbers_.select(0, update::kScale).item() : 1;
}

StateDict GradScaler::state_dict() const {
  StateDict state;
  if (!options_.enabled) return state;
  const std::vector<double> numbers = numbers_.to_vector<double>();
  state.set_value("scale", numbers[update::kScale]);
  state.set_value("growth_factor", options_.growth_factor);
  state.set_value("backoff_factor", options_.backoff_factor);
  state.set_value("growth_interval", options_.growth_interval);
  state.set_value("_growth_tracker", static_cast<std::int64_t>(numbers[update::kGoodSteps]));
  return state;
}

void GradScaler::load_state_dict(const StateDict& state) {
  if (!options_.enabled) return;
  GradScalerOptions loaded = options_;
  loaded.init_scale = state.value<double>("scale");
  loaded.growth_factor = state.value<double>("growth_factor");
  loaded.backoff_factor = state.value<double>("backoff_factor");
  loaded.growth_interval = state.value<std::int64_t>("growth_interval");
  check_options(loaded);
  const std::int64_t good_steps = state.count("_growth_tracker", kScaler);
  set_numbers(loaded.init_scale, static_cast<double>(good_steps));
  loaded.init_scale = options_.init_scale;
  options_ = loaded;
}

}  // namespace ct::optim
