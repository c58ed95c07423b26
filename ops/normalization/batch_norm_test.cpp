#include <cotangent/cotangent.h>
#include <cotangent/ops/testing/gradcheck.h>

#include <cmath>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {

using V = std::vector<double>;
using testing::values;
void near(const Tensor& t, const V& want, double tolerance = 1e-6) {
  const V got = values(t);
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(tolerance));
}

}  // namespace

TEST_CASE("batch_norm takes the statistics of a channel, and remembers them", "[batch_norm]") {
  // Means 2 and 20, variances 1 and 100; without the correction 2 and 200.
  const Tensor x = tensor({{1.f, 10.f}, {3.f, 30.f}});
  Tensor mean = zeros({2}), variance = ones({2});
  near(batch_norm(x, mean, variance, {}, {}, {.training = true, .eps = 0}), {-1, -1, 1, 1});
  near(mean, {0.2, 2});
  near(variance, {0.9 + 0.2, 0.9 + 20});
  near(batch_norm(x, {}, {}, tensor({2.f, 3.f}), tensor({10.f, 20.f}), {.training = true, .eps = 0}),
       {8, 17, 12, 23});
  near(batch_norm(x, {}, {}, {}, {}, {.training = true, .eps = 3}),
       {-0.5, -10 / std::sqrt(103.0), 0.5, 10 / std::sqrt(103.0)});
  // Outside of training they are what was remembered, and stay so.
  const Tensor m = tensor({1.f, 10.f}), v = tensor({4.f, 100.f});
  near(batch_norm(x, m, v, tensor({2.f, 1.f}), {}, {.eps = 0}), {0, 0, 2, 2});
  near(m, {1, 10});
}

TEST_CASE("batch_norm of images takes all pixels of a channel", "[batch_norm]") {
  const Tensor x = arange(0, 8).to(f32).reshape({2, 2, 1, 2});  // channel 0: 0 1 4 5, channel 1: 2 3 6 7
  Tensor mean = zeros({2}), variance = zeros({2});
  const Tensor y = batch_norm(x, mean, variance, {}, {}, {.training = true, .momentum = 1});
  CHECK(y.shape() == x.shape());
  near(mean, {2.5, 4.5});
  near(variance, {17.0 / 3, 17.0 / 3});
  const double r = 1 / std::sqrt(4.25 + 1e-5);
  near(y, {-2.5 * r, -1.5 * r, -2.5 * r, -1.5 * r, 1.5 * r, 2.5 * r, 1.5 * r, 2.5 * r});
}

TEST_CASE("batch_norm of 16 bits computes in f32", "[batch_norm]") {
  const Tensor x = (randn({8, 3, 5}) + 100).to(f16);
  const Tensor w = randn({3}), b = randn({3});
  for (const bool training : {true, false}) {
    Tensor mean = full({3}, 100.0), variance = ones({3});
    const Tensor got = batch_norm(x, mean, variance, w, b, {.training = training});
    CHECK(got.dtype() == f16);
    Tensor mean64 = full({3}, 100.0).to(f64), variance64 = ones({3}).to(f64);
    const Tensor want =
        batch_norm(x.to(f64), mean64, variance64, w.to(f64), b.to(f64), {.training = training});
    near(got, values(want), 4e-3);
    near(mean, values(mean64), 1e-4);
    near(variance, values(variance64), 1e-5);
  }
}

TEST_CASE("gradients of batch_norm, group_norm and instance_norm",
          "[batch_norm][group_norm][instance_norm]") {
  const auto leaf = [](const Shape& shape) { return randn(shape, {.dtype = f64}).set_requires_grad(); };
  const std::vector<Tensor> in{leaf({3, 4, 2}), leaf({4}), leaf({4})};
  const Tensor mean = randn({4}, {.dtype = f64}), variance = rand({4}, {.dtype = f64}) + 0.5;
  for (const bool training : {true, false}) {
    const GradcheckFunction f = [&](const std::vector<Tensor>& t) {
      return std::vector<Tensor>{batch_norm(t[0], mean.clone().to(t[0].device()),
                                            variance.clone().to(t[0].device()), t[1], t[2],
                                            {.training = training})};
    };
    CHECK(gradcheck(f, in).message.empty());
    CHECK(gradgradcheck(f, in).message.empty());
  }
  const GradcheckFunction f = [&](const std::vector<Tensor>& t) {
    return std::vector<Tensor>{group_norm(t[0], 2, t[1], t[2]), instance_norm(t[0], {}, {}, t[1], t[2])};
  };
  CHECK(gradcheck(f, in).message.empty());
  CHECK(gradgradcheck(f, in).message.empty());
}

TEST_CASE("group_norm takes the statistics of a group of channels", "[group_norm]") {
  const Tensor x = tensor({1.f, 3.f, 10.f, 30.f, 5.f, 7.f, 0.f, 8.f}).reshape({2, 4});
  near(group_norm(x, 2, {}, {}, 0), {-1, 1, -1, 1, -1, 1, -1, 1});
  near(group_norm(x, 2, tensor({1.f, 2.f, 3.f, 4.f}), tensor({0.f, 0.f, 0.f, 1.f}), 0).narrow(0, 0, 1),
       {-1, 2, -3, 5});
  const Tensor image = randn({2, 6, 3, 5});
  near(group_norm(image, 1), values(layer_norm(image.flatten(1)).reshape(image.shape())));
  CHECK(group_norm(image.to(bf16), 3).dtype() == bf16);
  CHECK(group_norm(zeros({0, 4, 2}), 2).shape() == Shape{0, 4, 2});
  CHECK_THROWS_AS(group_norm(image, 4), ValueError);
  CHECK_THROWS_AS(group_norm(image, 0), ValueError);
  CHECK_THROWS_AS(group_norm(image, 2, zeros({5})), ShapeError);
  CHECK_THROWS_AS(group_norm(image, 2, {}, {}, -1), ValueError);
}

TEST_CASE("instance_norm takes the statistics of each channel of each sample", "[instance_norm]") {
  const Tensor x = tensor({1.f, 3.f, 10.f, 30.f, 5.f, 9.f, 0.f, 8.f}).reshape({2, 2, 2});
  near(instance_norm(x, {}, {}, {}, {}, {.eps = 0}), {-1, 1, -1, 1, -1, 1, -1, 1});
  near(instance_norm(x, {}, {}, tensor({2.f, 3.f}), tensor({0.f, 1.f}), {.eps = 0}),
       {-2, 2, -2, 4, -2, 2, -2, 4});
  // Means 2, 20 and 7, 4; unbiased variances 2, 200 and 8, 32.
  Tensor mean = zeros({2}), variance = ones({2});
  near(instance_norm(x, mean, variance, {}, {}, {.eps = 3}).narrow(0, 0, 1),
       {-0.5, 0.5, -10 / std::sqrt(103.0), 10 / std::sqrt(103.0)});
  near(mean, {0.45, 1.2});
  near(variance, {0.9 + 0.5, 0.9 + 11.6});
  const Tensor m = tensor({1.f, 10.f}), v = tensor({4.f, 100.f});
  near(instance_norm(x, m, v, {}, {}, {.use_input_stats = false, .eps = 0}), {0, 1, 0, 2, 2, 4, -1, -0.2});
  near(m, {1, 10});
  CHECK(instance_norm(zeros({0, 4, 2})).shape() == Shape{0, 4, 2});
  CHECK(instance_norm(x.to(bf16)).dtype() == bf16);
  CHECK_THROWS_AS(instance_norm(x[0]), ShapeError);
  CHECK_THROWS_AS(instance_norm(x.narrow(2, 0, 1)), ValueError);
  CHECK_THROWS_AS(instance_norm(x, zeros({3})), ShapeError);
  CHECK_THROWS_AS(instance_norm(x, {}, {}, {}, {}, {.use_input_stats = false}), ValueError);
  CHECK_THROWS_AS(instance_norm(x, {}, {}, {}, {}, {.momentum = -1}), ValueError);
}

TEST_CASE("batch_norm refuses what does not fit, and changes nothing", "[batch_norm]") {
  const Tensor x = randn({4, 3}), none;
  Tensor mean = zeros({3}), variance = ones({3});
  CHECK_THROWS_AS(batch_norm(x, mean, variance, zeros({4}), none, {.training = true}), ShapeError);
  CHECK_THROWS_AS(batch_norm(x, zeros({2}), variance, none, none), ShapeError);
  CHECK_THROWS_AS(batch_norm(x, mean, none, none, none), ValueError);
  CHECK_THROWS_AS(batch_norm(x.narrow(0, 0, 1), mean, variance, none, none, {.training = true}), ValueError);
  CHECK_THROWS_AS(batch_norm(x, mean, variance, none, none, {.training = true, .momentum = 2}), ValueError);
  CHECK_THROWS_AS(batch_norm(x, mean, variance, none, none, {.training = true, .eps = NAN}), ValueError);
  CHECK_THROWS_AS(batch_norm(randn({4}), none, none, none, none, {.training = true}), ShapeError);
  CHECK_THROWS_AS(batch_norm(x.to(i64), mean, variance), DTypeError);
  CHECK_THROWS_AS(batch_norm(x, mean, variance, zeros({3}, {.dtype = f64})), DTypeError);
  near(mean, {0, 0, 0});
  near(variance, {1, 1, 1});
}

TEST_CASE("batch norms as modules keep PyTorch's names, and follow the mode", "[nn][batch_norm]") {
  nn::BatchNorm2d norm(3, {.eps = 1e-3});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : norm.state_dict()) names.push_back(name);
  CHECK(names ==
        std::vector<std::string>{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"});
  const Tensor x = randn({4, 3, 5, 5}) * 2 + 1;
  Tensor mean = zeros({3}), variance = ones({3});
  near(norm(x), values(batch_norm(x, mean, variance, {}, {}, {.training = true, .eps = 1e-3})));
  near(norm.running_mean(), values(mean));
  CHECK(norm.num_batches_tracked()->item() == 1);
  norm.eval();
  near(norm(x), values(batch_norm(x, mean, variance, {}, {}, {.eps = 1e-3})));
  CHECK(norm.num_batches_tracked()->item() == 1);
  CHECK_THROWS_AS(norm(randn({4, 2, 5, 5})), ShapeError);
  CHECK_THROWS_AS(norm(randn({4, 3})), ShapeError);

  nn::BatchNorm1d all(2, {.momentum = {}, .affine = false});
  CHECK(all.parameters().empty());
  all(tensor({{1.f, 0.f}, {3.f, 0.f}}));
  all(tensor({{5.f, 2.f}, {7.f, 2.f}}));
  near(all.running_mean(), {4, 1});  // of 2, 6 and of 0, 2
  nn::BatchNorm1d none(2, {.track_running_stats = false});
  CHECK(none.buffers().empty());
  none.eval();
  near(none(tensor({{1.f, 0.f}, {3.f, 4.f}})), {-1, -1, 1, 1}, 1e-4);
  CHECK_THROWS_AS(nn::BatchNorm1d(2, {.momentum = 1.5}), ValueError);

  const nn::GroupNorm groups(2, 4);
  const Tensor y = randn({3, 4, 6});
  near(groups(y), values(group_norm(y, 2)));
  CHECK(groups.named_parameters()[0].name == "weight");
  CHECK_THROWS_AS(nn::GroupNorm(3, 4), ValueError);
}
