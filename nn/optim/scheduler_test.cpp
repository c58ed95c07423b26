#include <cotangent/nn/optim/scheduler.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>

#include <cotangent/nn/optim/sgd.h>
#include <cotangent/ops/creation/creation.h>

#include "tests/catch.h"

using namespace ct;
using namespace ct::optim;

namespace {

SGD two_groups() {
  return SGD({{{ones({1}, {.requires_grad = true})}, {.lr = 0.5}},
              {{ones({1}, {.requires_grad = true})}, {.lr = 0.25}}});
}

std::vector<double> rates(LRScheduler& schedule, int count) {
  std::vector<double> all = {schedule.last_lr()[0]};
  while (static_cast<int>(all.size()) < count) {
    schedule.step();
    all.push_back(schedule.last_lr()[0]);
  }
  return all;
}

}  // namespace

TEST_CASE("schedules by hand", "[optim]") {
  SGD sgd = two_groups();
  SECTION("step") {
    StepLR schedule(sgd, {.step_size = 2, .gamma = 0.5});
    CHECK(rates(schedule, 5) == std::vector<double>{0.5, 0.5, 0.25, 0.25, 0.125});
    CHECK(sgd.lr(1) == 0.0625);
    CHECK(schedule.time() == 4);
  }
  SECTION("milestones") {
    MultiStepLR schedule(sgd, {.milestones = {3, 1, 3}, .gamma = 0.5});
    CHECK(rates(schedule, 5) == std::vector<double>{0.5, 0.25, 0.25, 0.0625, 0.0625});
  }
  SECTION("warm-up") {
    LinearLR schedule(sgd, {.start_factor = 0.25, .steps = 3});
    CHECK(rates(schedule, 5) == std::vector<double>{0.125, 0.25, 0.375, 0.5, 0.5});
  }
  SECTION("cosine ends at its minimum and comes back") {
    CosineAnnealingLR schedule(sgd, {.steps = 2, .min_lr = 0.1});
    const std::vector<double> r = rates(schedule, 5);
    CHECK(r[1] == Approx(0.3));
    CHECK(r[2] == 0.1);
    CHECK(r[4] == 0.5);
    CHECK(schedule.lr_at(2 + 4'000'000'000, 1) == 0.1);
  }
  SECTION("one function for all groups") {
    LambdaLR schedule(sgd, [](std::int64_t t) { return t < 2 ? 1.0 : 0.5; });
    CHECK(rates(schedule, 3) == std::vector<double>{0.5, 0.5, 0.25});
    CHECK(sgd.lr(1) == 0.125);
  }
}

TEST_CASE("schedules in sequence start from the optimizer's own rate", "[optim]") {
  SGD sgd = two_groups();
  const auto warm_up = std::make_shared<LinearLR>(sgd, LinearLROptions{.start_factor = 0.5, .steps = 2});
  CHECK(sgd.lr() == 0.25);  // made first, it has changed the rate already
  const auto halve = std::make_shared<ExponentialLR>(sgd, ExponentialLROptions{0.5});
  SequentialLR schedule(sgd, {warm_up, halve}, {2});
  CHECK(sgd.lr() == 0.25);
  CHECK(rates(schedule, 5) == std::vector<double>{0.25, 0.375, 0.5, 0.25, 0.125});
  SECTION("and may be nested") {
    const auto inner = std::make_shared<SequentialLR>(
        sgd, std::vector<std::shared_ptr<LRScheduler>>{warm_up, halve}, std::vector<std::int64_t>{2});
    SequentialLR outer(sgd, {halve, inner}, {3});
    CHECK(rates(outer, 6) == std::vector<double>{0.5, 0.25, 0.125, 0.25, 0.375, 0.5});
  }
}

TEST_CASE("a rate set by hand lasts until the next step", "[optim]") {
  SGD sgd = two_groups();
  StepLR schedule(sgd, {.step_size = 10});
  sgd.set_lr(7);
  CHECK(sgd.lr() == 7);
  schedule.step();
  CHECK(sgd.lr() == 0.5);
}

TEST_CASE("a group added later is scheduled from the rate it came with", "[optim]") {
  SGD sgd = two_groups();
  ExponentialLR schedule(sgd, {.gamma = 0.5});
  schedule.step();
  sgd.add_param_group({{ones({1}, {.requires_grad = true})}, {.lr = 8}});
  CHECK(sgd.lr(2) == 8);
  schedule.step();
  CHECK(schedule.last_lr() == std::vector<double>{0.125, 0.0625, 4});
}

TEST_CASE("a schedule's state", "[optim]") {
  SGD sgd = two_groups();
  StepLR schedule(sgd, {.step_size = 2, .gamma = 0.5});
  rates(schedule, 4);
  const StateDict state = schedule.state_dict();

  SGD other = two_groups();
  other.set_lr(9, 0);  // the state knows better
  StepLR resumed(other, {.step_size = 2, .gamma = 0.5});
  resumed.load_state_dict(state);
  CHECK(resumed.time() == 3);
  CHECK(resumed.last_lr() == schedule.last_lr());
  CHECK(other.lr(0) == 9);  // is the optimizer's own state
  schedule.step();
  resumed.step();
  CHECK(other.lr(0) == sgd.lr(0));
  CHECK(other.lr(0) == 0.125);

  ExponentialLR kind(sgd, {.gamma = 0.5});
  CHECK_THROWS_AS(kind.load_state_dict(state), ValueError);
  SGD single({ones({1}, {.requires_grad = true})});
  StepLR fewer(single, {.step_size = 2});
  CHECK_THROWS_AS(fewer.load_state_dict(state), ValueError);
  CHECK_THROWS_AS(resumed.load_state_dict({}), ValueError);
  StateDict wrong = state;
  wrong.set_value("time", std::int64_t{-1});
  CHECK_THROWS_AS(resumed.load_state_dict(wrong), ValueError);
  CHECK(resumed.time() == 4);
}

TEST_CASE("schedules refuse what has no meaning", "[optim]") {
  SGD sgd = two_groups(), other = two_groups();
  const double inf = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(StepLR(sgd, {.step_size = 0}), ValueError);
  CHECK_THROWS_AS(StepLR(sgd, {.step_size = 1, .gamma = -1}), ValueError);
  CHECK_THROWS_AS(MultiStepLR(sgd, {.milestones = {-1}}), ValueError);
  CHECK_THROWS_AS(ExponentialLR(sgd, {.gamma = inf}), ValueError);
  CHECK_THROWS_AS(CosineAnnealingLR(sgd, {.steps = 0}), ValueError);
  CHECK_THROWS_AS(CosineAnnealingLR(sgd, {.steps = 1, .min_lr = -1}), ValueError);
  CHECK_THROWS_AS(LinearLR(sgd, {.start_factor = 0}), ValueError);
  CHECK_THROWS_AS(LinearLR(sgd, {.end_factor = 1.5}), ValueError);
  CHECK_THROWS_AS(LinearLR(sgd, {.steps = 0}), ValueError);
  CHECK_THROWS_AS(LambdaLR(sgd, LambdaLR::Factor{}), ValueError);
  CHECK_THROWS_AS(LambdaLR(sgd, std::vector<LambdaLR::Factor>(3, [](std::int64_t) { return 1.0; })),
                  ValueError);
  const auto one = std::make_shared<ExponentialLR>(sgd, ExponentialLROptions{0.5});
  const auto stranger = std::make_shared<ExponentialLR>(other, ExponentialLROptions{0.5});
  CHECK_THROWS_AS(SequentialLR(sgd, {}, {}), ValueError);
  CHECK_THROWS_AS(SequentialLR(sgd, {one, nullptr}, {1}), ValueError);
  CHECK_THROWS_AS(SequentialLR(sgd, {one, stranger}, {1}), ValueError);
  CHECK_THROWS_AS(SequentialLR(sgd, {one, one}, {}), ValueError);
  CHECK_THROWS_AS(SequentialLR(sgd, {one, one}, {0}), ValueError);
  CHECK_THROWS_AS(SequentialLR(sgd, {one, one, one}, {3, 3}), ValueError);
  CHECK_THROWS_AS(one->lr_at(-1), ValueError);
  CHECK_THROWS_AS(one->lr_at(0, 2), IndexError);
}

TEST_CASE("a formula that gives no rate changes nothing", "[optim]") {
  SGD sgd = two_groups();
  LambdaLR schedule(sgd, std::vector<LambdaLR::Factor>{[](std::int64_t t) { return t + 1.0; },
                                                       [](std::int64_t t) { return 1.0 - 2.0 * t; }});
  CHECK_THROWS_AS(schedule.step(), ValueError);
  CHECK(sgd.lr(0) == 0.5);
  CHECK(schedule.time() == 0);
}

TEST_CASE("schedules refuse options out of range", "[optim]") {
  SGD sgd({ones({1}, {.requires_grad = true})}, {.lr = 0.1});
  CHECK_THROWS_AS(CosineAnnealingWarmRestarts(sgd, {.steps = 0}), ValueError);
  CHECK_THROWS_AS(CosineAnnealingWarmRestarts(sgd, {.steps = 3, .multiplier = 0}), ValueError);
  CHECK_THROWS_AS(OneCycleLR(sgd, {.max_lr = -1, .total_steps = 10}), ValueError);
  CHECK_THROWS_AS(OneCycleLR(sgd, {.max_lr = 1, .total_steps = 0}), ValueError);
  CHECK_THROWS_AS(OneCycleLR(sgd, {.max_lr = 1, .total_steps = 10, .pct_start = 1.5}), ValueError);
  CHECK_THROWS_AS(OneCycleLR(sgd, {.max_lr = 1, .total_steps = 10, .div_factor = 0}), ValueError);
  CHECK_THROWS_AS(PolynomialLR(sgd, {.steps = 0}), ValueError);
  CHECK_THROWS_AS(PolynomialLR(sgd, {.power = -1}), ValueError);
  CHECK_THROWS_AS(ReduceLROnPlateau(sgd, {.factor = 1}), ValueError);
  CHECK_THROWS_AS(ReduceLROnPlateau(sgd, {.patience = -1}), ValueError);
  CHECK_THROWS_AS(ReduceLROnPlateau(sgd, {.threshold = -1}), ValueError);
  CHECK(sgd.lr() == 0.1);
}

TEST_CASE("schedules at their ends", "[optim]") {
  SGD sgd({ones({1}, {.requires_grad = true})}, {.lr = 0.1});
  const OneCycleLR cycle(sgd, {.max_lr = 1, .total_steps = 10});
  CHECK(cycle.lr_at(10) == cycle.lr_at(9));
  CHECK_THROWS_AS(cycle.lr_at(11), ValueError);
  // A cycle that only rises ends at its height.
  for (const bool linear : {false, true}) {
    const OneCycleLR rise(sgd, {.max_lr = 1, .total_steps = 10, .pct_start = 1, .linear = linear});
    CHECK(rise.lr_at(0) == Approx(1 / 25.));
    CHECK(rise.lr_at(8) > 0.8);
    CHECK(rise.lr_at(9) == 1);
    CHECK(rise.lr_at(10) == 1);
  }
  // Periods that grow beyond any clock.
  const CosineAnnealingWarmRestarts restarts(sgd, {.steps = 1, .multiplier = 1000});
  CHECK(restarts.lr_at(1) == sgd.lr());
  CHECK(restarts.lr_at(INT64_MAX) >= 0);
  const PolynomialLR line(sgd, {.steps = 4});
  CHECK(line.lr_at(1000) == 0);
  ReduceLROnPlateau plateau(sgd, {.patience = 0});
  CHECK_FALSE(plateau.step(1));
  CHECK(plateau.best() == 1);
  CHECK(plateau.step(std::nan("")));
  CHECK(plateau.best() == 1);
  ReduceLROnPlateau least(sgd, {.patience = 0, .min_lr = sgd.lr()});
  CHECK_FALSE(least.step(1));
  CHECK_FALSE(least.step(1));  // the rates are as low as they may be
  StateDict other;
  other.set_value("scheduler", "StepLR");
  CHECK_THROWS_AS(plateau.load_state_dict(other), ValueError);
}

TEST_CASE("counters of a state that would overflow are refused", "[optim]") {
  SGD sgd({ones({1}, {.requires_grad = true})}, {.lr = 0.1});
  StepLR steps(sgd, {.step_size = 2});
  ReduceLROnPlateau plateau(sgd);
  const auto refuses = [](auto& object, const char* name) {
    StateDict state = object.state_dict();
    REQUIRE(state.contains_value(name));
    for (const std::int64_t n : {std::int64_t{-1}, INT64_MAX, (std::int64_t{1} << 62) + 1}) {
      state.set_value(name, n);
      CHECK_THROWS_AS(object.load_state_dict(state), ValueError);
    }
    state.set_value(name, std::int64_t{1} << 62);
    object.load_state_dict(state);
  };
  refuses(sgd, "0.0.step");
  refuses(steps, "time");
  refuses(plateau, "bad");
  refuses(plateau, "cooling");
}

TEST_CASE("a group that is added late goes on from the rate that it came with", "[optim]") {
  struct Case {
    std::shared_ptr<LRScheduler> (*of)(Optimizer&);
    double next;  // PyTorch 2.11's rate of the late group, 8 after 3 steps, after the 4th
  };
  for (const Case& c :
       {Case{[](Optimizer& o) -> std::shared_ptr<LRScheduler> {
               return std::make_shared<ExponentialLR>(o, ExponentialLROptions{0.5});
             },
             4},
        Case{[](Optimizer& o) -> std::shared_ptr<LRScheduler> {
               return std::make_shared<StepLR>(o, StepLROptions{2, 0.5});
             },
             4},
        Case{[](Optimizer& o) -> std::shared_ptr<LRScheduler> {
               return std::make_shared<MultiStepLR>(o, MultiStepLROptions{{1, 2, 5}, 0.5});
             },
             8},
        Case{[](Optimizer& o) -> std::shared_ptr<LRScheduler> {
               return std::make_shared<PolynomialLR>(o, PolynomialLROptions{.steps = 10, .power = 1});
             },
             8 * 6.0 / 7},
        Case{[](Optimizer& o) -> std::shared_ptr<LRScheduler> {
               return std::make_shared<LinearLR>(o, LinearLROptions{.start_factor = 0.5, .steps = 10});
             },
             8 * 0.7 / 0.65},
        Case{[](Optimizer& o) -> std::shared_ptr<LRScheduler> {
               return std::make_shared<CosineAnnealingLR>(o, CosineAnnealingLROptions{.steps = 6});
             },
             4},
        Case{[](Optimizer& o) -> std::shared_ptr<LRScheduler> {
               return std::make_shared<SequentialLR>(
                   o,
                   std::vector<std::shared_ptr<LRScheduler>>{
                       std::make_shared<LinearLR>(o, LinearLROptions{.steps = 2}),
                       std::make_shared<ExponentialLR>(o, ExponentialLROptions{0.5})},
                   std::vector<std::int64_t>{2});
             },
             4},
        Case{[](Optimizer& o) -> std::shared_ptr<LRScheduler> {
               return std::make_shared<LambdaLR>(
                   o, [](std::int64_t t) { return 1 / (1.0 + static_cast<double>(t)); });
             },
             8 / 5.0}}) {
    const Tensor w = ones({1}).set_requires_grad(), v = ones({1}).set_requires_grad();
    SGD sgd({w}, {.lr = 1});
    const auto schedule = c.of(sgd);
    for (int i = 0; i < 3; ++i) schedule->step();
    sgd.add_param_group({{v}, {.lr = 8}});
    const double first = schedule->lr_at(4, 0);
    schedule->step();
    CHECK(sgd.lr(1) == Approx(c.next));
    CHECK(sgd.lr(0) == Approx(first));
  }
}
