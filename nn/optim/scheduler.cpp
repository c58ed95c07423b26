#include <cotangent/nn/optim/scheduler.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/core/device/recording.h>

namespace ct::optim {
namespace {

std::string key(const char* what, std::size_t group) { return detail::cat(what, '.', group); }

void check_gamma(const char* op, double gamma) { detail::check_not_negative(op, "gamma", gamma); }

void check_steps(const char* op, const char* what, std::int64_t steps) {
  CT_CHECK(steps >= 1, ValueError, op, what, " is ", steps, "; it must be >= 1");
}

}  // namespace

LRScheduler::LRScheduler(const char* name, Optimizer& optimizer) : name_(name), optimizer_(optimizer) {
  for (int g = 0; g < optimizer.group_count(); ++g) base_.push_back(optimizer.base_lr(g));
  CT_CHECK(!base_.empty(), ValueError, name, "the optimizer has no parameter groups; add one first");
}

void LRScheduler::start() { set(0); }
void LRScheduler::step() {
  at_replay([this] { set(time_ + 1); });
}

void LRScheduler::set(std::int64_t time) {
  const int groups = optimizer_.group_count();
  // A group that was added meanwhile joins at the rate it came with: all formulas are a + b base.
  for (int g = static_cast<int>(base_.size()); g < groups; ++g) {
    base_.push_back(optimizer_.base_lr(g));
    if (!goes_on()) continue;
    const double a = rate(time_, g, 0), b = rate(time_, g, 1) - a;
    if (const double base = (base_.back() - a) / b; b != 0 && std::isfinite(base)) base_.back() = base;
  }
  std::vector<double> rates;
  rates.reserve(static_cast<std::size_t>(groups));
  for (int g = 0; g < groups; ++g) {
    rates.push_back(lr_at(time, g));
    CT_CHECK(std::isfinite(rates.back()) && rates.back() >= 0, ValueError, name_, "the rate of group ", g,
             " at time ", time, " is ", rates.back(), "; it must be finite and >= 0");
  }
  for (int g = 0; g < groups; ++g) optimizer_.set_lr(rates[static_cast<std::size_t>(g)], g);
  last_ = std::move(rates);
  time_ = time;
}

double LRScheduler::lr_at(std::int64_t time, int group) const {
  CT_CHECK(time >= 0, ValueError, name_, "time ", time, " was asked for; it begins at 0");
  CT_CHECK(group >= 0 && group < static_cast<int>(base_.size()), IndexError, name_, "group ", group,
           " does not exist; the number must lie in [0, ", base_.size(), ')');
  return rate(time, group, base_[static_cast<std::size_t>(group)]);
}

StateDict LRScheduler::state_dict() const {
  StateDict dict;
  dict.set_value("scheduler", name_);
  dict.set_value("time", time_);
  dict.set_value("groups", static_cast<std::int64_t>(base_.size()));
  for (std::size_t g = 0; g < base_.size(); ++g) {
    dict.set_value(key("base_lr", g), base_[g]);
    dict.set_value(key("last_lr", g), last_[g]);
  }
  return dict;
}

void LRScheduler::load_state_dict(const StateDict& dict) {
  const auto kind = dict.value<std::string>("scheduler");
  CT_CHECK(kind == name_, ValueError, name_, "the state is one of ", escaped(kind),
           "; load it into the same kind of scheduler");
  const auto groups = dict.value<std::int64_t>("groups");
  CT_CHECK(groups == optimizer_.group_count(), ValueError, name_, "the state has ", groups,
           " parameter groups, the optimizer ", optimizer_.group_count(),
           "; build both as they were when the state was saved");
  const std::int64_t time = dict.count("time", name_);
  std::vector<double> base, last;
  for (std::size_t g = 0; g < static_cast<std::size_t>(groups); ++g) {
    base.push_back(dict.value<double>(key("base_lr", g)));
    last.push_back(dict.value<double>(key("last_lr", g)));
  }
  base_ = std::move(base);
  last_ = std::move(last);
  time_ = time;
}

StepLR::StepLR(Optimizer& optimizer, StepLROptions options)
    : LRScheduler("StepLR", optimizer), options_(options) {
  check_steps(name(), "step_size", options.step_size);
  check_gamma(name(), options.gamma);
  start();
}
double StepLR::rate(std::int64_t time, int, double base) const {
  const std::int64_t steps = time / options_.step_size;  // whole ones
  return base * std::pow(options_.gamma, static_cast<double>(steps));
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, MultiStepLROptions options)
    : LRScheduler("MultiStepLR", optimizer), options_(std::move(options)) {
  check_gamma(name(), options_.gamma);
  for (const std::int64_t m : options_.milestones)
    CT_CHECK(m >= 0, ValueError, name(), "a milestone is ", m, "; milestones must be >= 0");
  std::ranges::sort(options_.milestones);
  start();
}
double MultiStepLR::rate(std::int64_t time, int, double base) const {
  const auto& m = options_.milestones;
  const auto passed = std::ranges::upper_bound(m, time) - m.begin();
  return base * std::pow(options_.gamma, static_cast<double>(passed));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, ExponentialLROptions options)
    : LRScheduler("ExponentialLR", optimizer), options_(options) {
  check_gamma(name(), options.gamma);
  start();
}
double ExponentialLR::rate(std::int64_t time, int, double base) const {
  return base * std::pow(options_.gamma, static_cast<double>(time));
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, CosineAnnealingLROptions options)
    : LRScheduler("CosineAnnealingLR", optimizer), options_(options) {
  check_steps(name(), "steps", options.steps);
  detail::check_not_negative(name(), "min_lr", options.min_lr);
  start();
}
double CosineAnnealingLR::rate(std::int64_t time, int, double base) const {
  // The angle within one period, so that it stays exact however long the run.
  const auto within = static_cast<double>(time % (2 * options_.steps));
  const double angle = std::numbers::pi * within / static_cast<double>(options_.steps);
  return options_.min_lr + (base - options_.min_lr) * (1 + std::cos(angle)) / 2;
}

namespace {

// Rate between two others, along half a cosine or a line; progress in [0, 1].
double anneal(double from, double to, double progress, bool linear) {
  if (linear) return from + (to - from) * progress;
  return to + (from - to) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

}  // namespace

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer,
                                                         CosineAnnealingWarmRestartsOptions options)
    : LRScheduler("CosineAnnealingWarmRestarts", optimizer), options_(options) {
  check_steps(name(), "steps", options.steps);
  check_steps(name(), "multiplier", options.multiplier);
  detail::check_not_negative(name(), "min_lr", options.min_lr);
  start();
}
double CosineAnnealingWarmRestarts::rate(std::int64_t time, int, double base) const {
  std::int64_t period = options_.steps;
  if (options_.multiplier == 1) time %= period;
  while (time >= period) {
    time -= period;
    // A period that no clock outlasts may as well be the last.
    if (period > INT64_MAX / options_.multiplier) break;
    period *= options_.multiplier;
  }
  return anneal(base, options_.min_lr, static_cast<double>(time) / static_cast<double>(period), false);
}

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleLROptions options)
    : LRScheduler("OneCycleLR", optimizer), options_(options) {
  detail::check_not_negative(name(), "max_lr", options.max_lr);
  check_steps(name(), "total_steps", options.total_steps);
  detail::check_probability(name(), "pct_start", options.pct_start);
  detail::check_positive(name(), "div_factor", options.div_factor);
  detail::check_positive(name(), "final_div_factor", options.final_div_factor);
  start();
}
double OneCycleLR::rate(std::int64_t time, int, double) const {
  const OneCycleLROptions& o = options_;
  CT_CHECK(time <= o.total_steps, ValueError, name(), "time ", time, " is after the cycle of ", o.total_steps,
           " steps; make it as long as the training");
  const double steps = static_cast<double>(o.total_steps), t = std::min(static_cast<double>(time), steps - 1);
  const double first = o.max_lr / o.div_factor, rise = o.pct_start * steps;
  // End of each phase, and the rate there.
  const struct {
    double end, lr;
  } phases[] = {{rise - 1, o.max_lr},
                {o.three_phase ? 2 * rise - 2 : rise - 1, o.three_phase ? first : o.max_lr},
                {steps - 1, first / o.final_div_factor}};
  double begin = 0, lr = first;
  for (const auto& phase : phases) {
    if (t < phase.end) return anneal(lr, phase.lr, (t - begin) / (phase.end - begin), o.linear);
    if (t == phase.end) return phase.lr;  // of phases that end together the first counts
    begin = phase.end;
    lr = phase.lr;
  }
  return lr;
}

PolynomialLR::PolynomialLR(Optimizer& optimizer, PolynomialLROptions options)
    : LRScheduler("PolynomialLR", optimizer), options_(options) {
  check_steps(name(), "steps", options.steps);
  detail::check_not_negative(name(), "power", options.power);
  start();
}
double PolynomialLR::rate(std::int64_t time, int, double base) const {
  const double left =
      1 - static_cast<double>(std::min(time, options_.steps)) / static_cast<double>(options_.steps);
  return base * std::pow(left, options_.power);
}

LinearLR::LinearLR(Optimizer& optimizer, LinearLROptions options)
    : LRScheduler("LinearLR", optimizer), options_(options) {
  CT_CHECK(options.start_factor > 0 && options.start_factor <= 1, ValueError, name(), "start_factor is ",
           options.start_factor, "; it must lie in (0, 1]");
  CT_CHECK(options.end_factor >= 0 && options.end_factor <= 1, ValueError, name(), "end_factor is ",
           options.end_factor, "; it must lie in [0, 1]");
  check_steps(name(), "steps", options.steps);
  start();
}
double LinearLR::rate(std::int64_t time, int, double base) const {
  const auto& o = options_;
  const double progress = static_cast<double>(std::min(time, o.steps)) / static_cast<double>(o.steps);
  return base * (o.start_factor + (o.end_factor - o.start_factor) * progress);
}

LambdaLR::LambdaLR(Optimizer& optimizer, Factor factor)
    : LambdaLR(optimizer, std::vector<Factor>{std::move(factor)}) {}
LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<Factor> factors)
    : LRScheduler("LambdaLR", optimizer), factors_(std::move(factors)) {
  const auto groups = static_cast<std::size_t>(optimizer.group_count());
  CT_CHECK(factors_.size() == 1 || factors_.size() == groups, ValueError, name(), "got ", factors_.size(),
           " functions for ", groups, " groups; pass one for all or one for each");
  for (const Factor& f : factors_)
    CT_CHECK(f, ValueError, name(), "got an empty function; it must give a factor");
  start();
}
double LambdaLR::rate(std::int64_t time, int group, double base) const {
  if (factors_.size() == 1) return base * factors_[0](time);
  const auto g = static_cast<std::size_t>(group);
  CT_CHECK(g < factors_.size(), ValueError, name(), "group ", group, " has no function; there are ",
           factors_.size(), ", one per group at the time the scheduler was made: make a new scheduler");
  return base * factors_[g](time);
}

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedules,
                           std::vector<std::int64_t> milestones)
    : LRScheduler("SequentialLR", optimizer),
      schedules_(std::move(schedules)),
      milestones_(std::move(milestones)) {
  CT_CHECK(!schedules_.empty(), ValueError, name(), "got no schedules; it needs at least one");
  for (const auto& s : schedules_)
    CT_CHECK(s && &s->optimizer() == &optimizer, ValueError, name(),
             s ? "a schedule belongs to another optimizer" : "a schedule is null",
             "; make all of them for this optimizer");
  CT_CHECK(milestones_.size() + 1 == schedules_.size(), ValueError, name(), "got ", milestones_.size(),
           " milestones for ", schedules_.size(), " schedules; there must be one less than schedules");
  for (std::size_t i = 0; i < milestones_.size(); ++i)
    CT_CHECK(milestones_[i] > (i ? milestones_[i - 1] : 0), ValueError, name(), "milestone ", i, " is ",
             milestones_[i], "; milestones must be >= 1 and increase");
  start();
}
std::pair<const LRScheduler*, std::int64_t> SequentialLR::schedule_at(std::int64_t time) const {
  const auto after = std::upper_bound(milestones_.begin(), milestones_.end(), time);
  const auto k = static_cast<std::size_t>(after - milestones_.begin());
  return {schedules_[k].get(), k == 0 ? 0 : milestones_[k - 1]};
}
double SequentialLR::rate(std::int64_t time, int group, double base) const {
  const auto [schedule, begun] = schedule_at(time);
  return schedule->rate(time - begun, group, base);
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options)
    : optimizer_(optimizer),
      options_(options),
      best_(options.maximize ? -std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::infinity()) {
  constexpr const char* name = "ReduceLROnPlateau";
  CT_CHECK(options.factor >= 0 && options.factor < 1, ValueError, name, "factor is ", options.factor,
           "; it must lie in [0, 1)");
  CT_CHECK(options.patience >= 0 && options.cooldown >= 0, ValueError, name, "patience is ", options.patience,
           ", cooldown is ", options.cooldown, "; both must be >= 0");
  detail::check_not_negative(name, "threshold", options.threshold);
  detail::check_not_negative(name, "min_lr", options.min_lr);
  detail::check_not_negative(name, "eps", options.eps);
}

bool ReduceLROnPlateau::step(Real value) {
  const double margin = options_.maximize ? options_.threshold : -options_.threshold;
  const double limit = options_.absolute ? best_ + margin : best_ * (1 + margin);
  const bool better = options_.maximize ? value > limit : value < limit;
  if (better) best_ = value;
  bad_ = better ? 0 : bad_ + 1;
  if (cooling_ > 0) {
    --cooling_;
    bad_ = 0;
  }
  if (bad_ <= options_.patience) return false;
  bad_ = 0;
  cooling_ = options_.cooldown;
  bool any = false;
  for (int g = 0; g < optimizer_.group_count(); ++g) {
    const double old = optimizer_.lr(g), reduced = std::max(old * options_.factor, options_.min_lr);
    if (old - reduced <= options_.eps) continue;
    optimizer_.set_lr(reduced, g);
    any = true;
  }
  return any;
}

StateDict ReduceLROnPlateau::state_dict() const {
  StateDict dict;
  dict.set_value("scheduler", "ReduceLROnPlateau");
  dict.set_value("best", best_);
  dict.set_value("bad", bad_);
  dict.set_value("cooling", cooling_);
  return dict;
}

void ReduceLROnPlateau::load_state_dict(const StateDict& dict) {
  const auto kind = dict.value<std::string>("scheduler");
  CT_CHECK(kind == "ReduceLROnPlateau", ValueError, "ReduceLROnPlateau", "the state is one of ",
           escaped(kind), "; load it into the same kind of scheduler");
  const double best = dict.value<double>("best");
  const std::int64_t bad = dict.count("bad", "ReduceLROnPlateau"),
                     cooling = dict.count("cooling", "ReduceLROnPlateau");
  best_ = best;
  bad_ = bad;
  cooling_ = cooling;
}

}  // namespace ct::optim
