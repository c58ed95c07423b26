#include <cotangent/ops/update/mlp_step.h>

#include <string_view>
#include <vector>

#include <cotangent/cotangent.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

// Steps on either device against those of layers and an optimizer.

using namespace ct;
using ct::testing::bytes_of;

namespace {

constexpr update::AdamAttrs kUsual{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};

struct Sizes {
  std::int64_t k, rows, in, first, second, classes;
};

struct Network {
  std::vector<Tensor> params, exp_avgs, exp_avg_sqs;
  Tensor steps, x, labels;

  Network(const Sizes& s, Device device) {
    manual_seed(7);
    for (const Shape& shape : {Shape{s.first, s.in}, Shape{s.first}, Shape{s.second, s.first},
                               Shape{s.second}, Shape{s.classes, s.second}, Shape{s.classes}}) {
      params.push_back(
          mul(randn(shape), shape.size() == 1 ? 0.1 : 1 / std::sqrt(static_cast<double>(shape[1])))
              .to(device));
      exp_avgs.push_back(zeros(shape, {.device = device}));
      exp_avg_sqs.push_back(zeros(shape, {.device = device}));
    }
    steps = zeros({1}, {.dtype = i64, .device = device});
    x = randn({s.k, s.rows, s.in}).to(device), labels = randint(0, s.classes, {s.k, s.rows}).to(device);
  }
  Tensor step(const update::AdamAttrs& options) {
    return update::mlp_step_(params, exp_avgs, exp_avg_sqs, steps, x, labels, options);
  }
  std::vector<Tensor> all() const {
    std::vector<Tensor> found = params;
    found.insert(found.end(), exp_avgs.begin(), exp_avgs.end());
    found.insert(found.end(), exp_avg_sqs.begin(), exp_avg_sqs.end());
    return found;
  }
};

// The largest difference, by the largest number wanted.
double distance(const Tensor& found, const Tensor& wanted) {
  const Tensor a = found.to(cpu, f64), b = wanted.to(cpu, f64);
  return abs(a - b).max().item<double>() / (abs(b).max().item<double>() + 1e-30);
}

void check_steps(const Sizes& sizes, const update::AdamAttrs& o, Device device, double digits = 1) {
  Network network(sizes, device), wanted(sizes, device);
  for (Tensor& p : wanted.params) p.set_requires_grad();
  const auto train = [&](auto optimizer) {
    std::vector<Tensor> losses;
    for (std::int64_t k = 0; k < sizes.k; ++k) {
      const auto& p = wanted.params;
      optimizer.zero_grad();
      const Tensor h1 = relu(linear(wanted.x.select(0, k), p[0], p[1])), h2 = relu(linear(h1, p[2], p[3]));
      losses.push_back(cross_entropy(linear(h2, p[4], p[5]), wanted.labels.select(0, k)));
      losses.back().backward();
      optimizer.step();
    }
    return stack(losses);
  };
  const Tensor losses =
      o.decoupled ? train(optim::AdamW(wanted.params, {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay}))
                  : train(optim::Adam(wanted.params, {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay}));
  CHECK(distance(network.step(o), losses.detach()) < 5e-6 * digits);
  for (std::size_t i = 0; i < network.params.size(); ++i) {
    CAPTURE(i);
    CHECK(distance(network.params[i], wanted.params[i].detach()) < 3e-5 * digits);
  }
  CHECK(network.steps.item<std::int64_t>() == sizes.k);
}

// One call of several steps leaves the bits of several calls of one, and of a captured one.
void check_bits(Device device) {
  const Sizes sizes{4, 21, 300, 50, 70, 7};
  Network at_once(sizes, device), apart(sizes, device), captured(sizes, device);
  const update::AdamAttrs options{.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
  const Tensor losses = at_once.step(options);
  const auto one = [&](Network& n) {
    return [&](const Tensor& x, const Tensor& labels) {
      return update::mlp_step_(n.params, n.exp_avgs, n.exp_avg_sqs, n.steps, x, labels, options);
    };
  };
  auto replayed = capture(one(captured));
  for (std::int64_t k = 0; k < sizes.k; ++k) {
    const Tensor x = apart.x.narrow(0, k, 1), labels = apart.labels.narrow(0, k, 1);
    CHECK(bytes_of(one(apart)(x, labels)) == bytes_of(losses.narrow(0, k, 1)));
    CHECK(bytes_of(replayed(x, labels)) == bytes_of(losses.narrow(0, k, 1)));
  }
  CHECK(replayed.replays() > 0);
  for (std::size_t i = 0; i < 18; ++i) {
    CHECK(bytes_of(apart.all()[i]) == bytes_of(at_once.all()[i]));
    CHECK(bytes_of(captured.all()[i]) == bytes_of(at_once.all()[i]));
  }
}

void check_all(Device device) {
  check_steps({3, 64, 784, 128, 128, 10}, {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-4}, device);
  check_steps({2, 5, 37, 20, 33, 3},
              {.lr = 1e-2, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-4, .weight_decay = 0.1, .decoupled = true},
              device);
  check_steps({2, 33, 202, 100, 4, 16},
              {.lr = 1e-2, .beta1 = 0.4, .beta2 = 0.9, .eps = 1e-4, .weight_decay = 0.1}, device);
  check_steps({1, 1, 1, 1, 1, 1}, kUsual, device);
  check_bits(device);
  Network bad({1, 3, 4, 5, 6, 2}, device);
  bad.labels.fill_(2);
  CHECK_THROWS_AS((bad.step(kUsual), synchronize(device)), IndexError);
}

}  // namespace

TEST_CASE("mlp_step_ trains as layers and an optimizer do", "[mlp_step]") { check_all(cpu); }

TEST_CASE("mlp_step_ trains as layers and an optimizer do, on a GPU", "[mlp_step][cuda]") {
  const Device device = cuda(0);
  const bool compiled =
      std::string_view(build_info().cuda_architectures).find("90") != std::string_view::npos;
  if (!compiled || cuda_properties(0).compute_major != 9) {
    CHECK_THROWS_AS(Network({1, 1, 1, 1, 1, 1}, device).step(kUsual), DeviceError);
    return;
  }
  check_all(device);
  set_allow_tf32(true);
  check_steps({3, 64, 784, 128, 128, 10}, {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-4}, device,
              500);
  set_allow_tf32(false);
  CHECK_THROWS_AS(Network({1, 65, 1, 1, 1, 1}, device).step(kUsual), ShapeError);
}

TEST_CASE("mlp_step_ says what it was given", "[mlp_step]") {
  Network network({2, 3, 4, 5, 6, 2}, cpu);
  const auto refused = [&](auto change) {
    Network n = network;
    change(n);
    CHECK_THROWS_AS(n.step(kUsual), Error);
  };
  refused([](Network& n) { n.params.pop_back(); });
  refused([](Network& n) { n.x = n.x.select(0, 0); });
  refused([](Network& n) { n.x = n.x.to(f64); });
  refused([](Network& n) { n.labels = n.labels.to(i32); });
  refused([](Network& n) { n.labels = n.labels.narrow(1, 0, 2); });
  refused([](Network& n) { n.exp_avgs[2] = n.params[2].t(); });
  refused([](Network& n) { n.exp_avg_sqs[0] = Tensor(); });
  update::AdamAttrs largest = kUsual;
  largest.amsgrad = true;
  CHECK_THROWS_AS(network.step(largest), ValueError);
  refused([](Network& n) { n.params[4] = n.params[4].t().contiguous().t(); });
}
