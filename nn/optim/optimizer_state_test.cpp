#include <memory>

#include <cotangent/nn/io/safetensors.h>
#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/creation/creation.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"
#include "tests/optim_testing.h"

// Saving, loading and moving an optimizer's state.

using namespace ct;
using namespace ct::optim;
using namespace ct::testing;

TEST_CASE("a run that is saved and resumed equals the uninterrupted one bit for bit", "[optim]") {
  const ct::testing::TempFolder folder;
  const auto make = [](int kind, const std::vector<Tensor>& p) -> std::unique_ptr<Optimizer> {
    if (kind == 0) return std::make_unique<SGD>(p, SGDOptions{.lr = 0.1, .momentum = 0.9});
    if (kind == 1) return std::make_unique<Adam>(p, AdamOptions{.lr = 0.1, .amsgrad = true});
    if (kind == 2) return std::make_unique<RMSprop>(p, RMSpropOptions{.lr = 0.1, .centered = true});
    if (kind == 3) return std::make_unique<Adagrad>(p, AdagradOptions{.lr = 0.1, .lr_decay = 0.1});
    if (kind == 4) return std::make_unique<Lion>(p, LionOptions{.lr = 0.1});
    return std::make_unique<AdamW>(std::vector<ParamGroup<AdamWOptions>>{
        {{p[0], p[1]}, {.lr = 0.1}}, {{p[2], p[3]}, {.lr = 0.2, .weight_decay = 0}}});
  };
  for (const DType dtype : {f32, bf16, f64}) {
    for (const int kind : {0, 1, 2, 3, 4, 5}) {
      INFO("kind " << kind << ", " << dtype);
      std::vector<Tensor> params = optim_params(dtype);
      const auto optimizer = make(kind, params);
      CosineAnnealingLR schedule(*optimizer, {.steps = 9});
      const auto train = [](std::vector<Tensor>& p, Optimizer& o, LRScheduler& s, int from, int to) {
        for (int t = from; t <= to; ++t) {
          optim_set_gradients(p, t);
          o.step();
          s.step();
        }
      };
      train(params, *optimizer, schedule, 1, 7);
      StateDict checkpoint;
      for (std::size_t k = 0; k < params.size(); ++k)
        checkpoint.set("model." + std::to_string(k), params[k].detach());
      checkpoint.merge("optimizer", optimizer->state_dict());
      checkpoint.merge("schedule", schedule.state_dict());
      io::save(folder / "run.safetensors", checkpoint);
      train(params, *optimizer, schedule, 8, 14);

      const StateDict loaded = io::load(folder / "run.safetensors");
      std::vector<Tensor> again;
      for (std::size_t k = 0; k < params.size(); ++k)
        again.push_back(Tensor(loaded.at("model." + std::to_string(k))).set_requires_grad());
      const auto resumed = make(kind, again);
      CosineAnnealingLR resumed_schedule(*resumed, {.steps = 9});
      resumed->load_state_dict(loaded.part("optimizer"));
      resumed_schedule.load_state_dict(loaded.part("schedule"));
      train(again, *resumed, resumed_schedule, 8, 14);
      CHECK(all_bytes(again) == all_bytes(params));
      CHECK(resumed->lr() == optimizer->lr());
    }
  }
}

TEST_CASE("an optimizer owns the moments it was given", "[optim]") {
  Tensor p = with_grad(parameter({1}), {1}), q = with_grad(parameter({1}), {1});
  Adam a({p}), b({q});
  a.step();
  b.load_state_dict(a.state_dict());
  CHECK(b.state_dict().at("0.0.exp_avg").item() == a.state_dict().at("0.0.exp_avg").item());
  const double before = a.state_dict().at("0.0.exp_avg").item();
  b.step();
  CHECK(a.state_dict().at("0.0.exp_avg").item() == before);
}

TEST_CASE("a state that does not fit is refused and changes nothing", "[optim]") {
  Tensor p = with_grad(parameter({1, 2}), {1, 1});
  Adam adam({p}, {.lr = 0.1});
  adam.step();
  StateDict good = adam.state_dict().deep_copy();
  const std::string before = bytes_of(adam.state_dict().at("0.0.exp_avg"));
  const auto refuses = [&](const StateDict& state, const std::vector<const char*>& words) {
    check_mentions(message_of([&] { adam.load_state_dict(state); }), words);
    CHECK_THROWS_AS(adam.load_state_dict(state), ValueError);
    CHECK(bytes_of(adam.state_dict().at("0.0.exp_avg")) == before);
    CHECK(adam.lr() == 0.1);
  };
  refuses(SGD({p}).state_dict(), {"SGD", "same kind"});
  refuses(Adam({p, parameter({1})}).state_dict(), {"2 parameters", "1"});
  refuses(Adam({{{p}, {}}, {{parameter({1})}, {}}}).state_dict(), {"2 parameter groups"});
  StateDict other = good;
  other.set("0.0.exp_avg", zeros({3}));
  refuses(other, {"0.0.exp_avg", "f32[3]", "f32[2]"});
  other = good;
  other.set_value("0.lr", -1.0);
  refuses(other, {"lr", "-1"});
  other = good;
  other.set_value("0.0.step", std::int64_t{-3});
  refuses(other, {"step", "-3"});
  refuses({}, {"optimizer"});
  adam.load_state_dict(good);
  CHECK(bytes_of(adam.state_dict().at("0.0.exp_avg")) == before);
}

TEST_CASE("moments follow their parameter to another dtype", "[optim]") {
  Tensor p = with_grad(parameter({1, 2}), {1, -1});
  Adam adam({p}, {.lr = 0.1});
  adam.step();
  const Tensor wide = p.detach().to(f64);
  {  // what Module::to() does
    TensorImpl& impl = *p.impl();
    impl.storage = wide.impl()->storage;
    impl.dtype = f64;
  }
  p.set_grad(ones({2}, {.dtype = f64}));
  adam.step();
  CHECK(adam.state_dict().at("0.0.exp_avg").dtype() == f64);
  CHECK(p.select(0, 0).item() == Approx(0.8).epsilon(1e-6));
}
