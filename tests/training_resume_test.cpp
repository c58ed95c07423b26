#include <algorithm>
#include <cmath>

#include "tests/catch.h"
#include "tests/training_testing.h"

// A GPT's training that is saved and goes on elsewhere, at any batch of an epoch and of a step.

using namespace ct;
using namespace ct::testing;

namespace {

void check_resumes(const Techniques& how) {
  const TempFolder folder;
  manual_seed(21);
  TinyTraining whole(how);
  std::vector<std::int64_t> between, moments;
  whole.train(2, [&] {
    // In the middle of a step and at its end, around the end of the epoch of 14 batches, and at the end.
    for (const std::int64_t at : {1, 2, 3, 4, 8, 13, 14, 15, 23, 25, 27, 28})
      if (whole.seen == at) {
        whole.save(folder / std::to_string(at));
        (whole.micro > 0 ? between : moments).push_back(at);
      }
    return true;
  });
  CHECK(whole.seen == 28);
  CHECK(between.size() >= 6);
  CHECK(moments.size() >= 3);
  const std::string expected = whole.result();
  if (whole.scaler.enabled()) CHECK(whole.scaler.get_scale() != 0x1p24);
  between.insert(between.end(), moments.begin(), moments.end());
  for (const std::int64_t at : between) {
    INFO("resumed after batch " << at);
    manual_seed(1000);  // whatever the new process begins with
    TinyTraining resumed(how);
    resumed.load(folder / std::to_string(at));
    CHECK(resumed.seen == at);
    resumed.train(2, [] { return true; });
    CHECK((resumed.result() == expected));
  }
}

}  // namespace

TEST_CASE("a training resumes to the bit from any batch, between two of one step too", "[training][resume]") {
  SECTION("f32") { check_resumes({}); }
  SECTION("bf16 by Autocast, recomputed") { check_resumes({.autocast = bf16, .recompute = true}); }
  SECTION("f16 by Autocast, with a scaler") { check_resumes({.autocast = f16}); }
  SECTION("bf16 weights with masters") { check_resumes({.weights = bf16, .fused_loss = false}); }
  SECTION("f16 weights with masters and a scaler") { check_resumes({.weights = f16, .workers = 2}); }
}

TEST_CASE("a training on CUDA resumes to the bit from any batch", "[training][resume][cuda]") {
  SECTION("bf16 by Autocast") { check_resumes({.autocast = bf16, .device = cuda(0), .workers = 1}); }
  SECTION("f16 by Autocast, with a scaler") { check_resumes({.autocast = f16, .device = cuda(0)}); }
  SECTION("bf16 weights with masters") { check_resumes({.weights = bf16, .device = cuda(0)}); }
}

TEST_CASE("gradients between two batches are a part of a checkpoint", "[training][resume]") {
  manual_seed(2);
  nn::Linear model(3, 2), other(3, 2), wider(4, 2);
  optim::GradientState gradients(model), loaded(other), misfit(wider);
  CHECK(gradients.state_dict().empty());
  model.forward(ones({5, 3})).sum().backward();
  const StateDict state = gradients.state_dict();
  CHECK(state.size() == 2);
  loaded.load_state_dict(state);
  CHECK(bytes_of(other.weight()->grad()) == bytes_of(model.weight()->grad()));
  model.forward(ones({5, 3})).sum().backward();  // adds to the model's own gradient alone
  CHECK(other.weight()->grad().to_vector<double>() == std::vector<double>(6, 5));
  const Tensor before = other.weight()->grad();
  CHECK_THROWS_AS(misfit.load_state_dict(state), ValueError);
  CHECK_THROWS_AS(loaded.load_state_dict({{"scale", ones({2})}}), ValueError);
  CHECK(other.weight()->grad().raw_data() == before.raw_data());
  loaded.load_state_dict({});
  CHECK_FALSE(other.weight()->grad().defined());
}

TEST_CASE("micro-batches of a GPT give the big batch's gradient to rounding", "[training][accumulation]") {
  manual_seed(5);
  const TinyTraining training({.dropout = 0});
  const nn::models::Gpt2& model = training.model;
  const Tensor x = randint(0, TinyTraining::kVocabulary, {8, TinyTraining::kBlock});
  const Tensor y = randint(0, TinyTraining::kVocabulary, {8, TinyTraining::kBlock});
  const auto gradient = [&](std::int64_t parts, bool low_precision) {
    nn::models::Gpt2(model).zero_grad();
    for (std::int64_t at = 0; at < 8; at += 8 / parts) {
      std::optional<Autocast> guard;
      if (low_precision) guard.emplace(bf16);
      const Tensor loss = model.loss(x.narrow(0, at, 8 / parts), y.narrow(0, at, 8 / parts));
      guard.reset();
      (loss / static_cast<double>(parts)).backward();
    }
    std::vector<double> all;
    for (const Tensor& p : model.parameters())
      for (const double v : p.grad().to_vector<double>()) all.push_back(v);
    return all;
  };
  // The largest difference, as a share of the largest element.
  const auto difference = [&](std::int64_t parts, bool low_precision) {
    const std::vector<double> one = gradient(1, low_precision), several = gradient(parts, low_precision);
    double most = 0, largest = 0;
    for (std::size_t i = 0; i < one.size(); ++i) {
      most = std::max(most, std::abs(one[i] - several[i]));
      largest = std::max(largest, std::abs(one[i]));
    }
    return most / largest;
  };
  for (const int parts : {2, 4, 8}) {
    CHECK(difference(parts, false) < 1e-6);
    CHECK(difference(parts, true) < 0x1p-7);
  }
}
