#include <cotangent/cotangent.h>

#include <cmath>
#include <sstream>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::bytes_of;

TEST_CASE("layers of convolutions are the functions with parameters of PyTorch's names",
          "[nn][convolution]") {
  manual_seed(3);
  const nn::Conv2d conv(4, 6, {3, 2}, {.stride = {2, 1}, .padding = 1, .groups = 2});
  CHECK(conv.weight()->shape() == Shape{6, 2, 3, 2});
  CHECK(conv.bias()->shape() == Shape{6});
  REQUIRE(conv.named_parameters().size() == 2);
  CHECK(conv.named_parameters()[0].name == "weight");
  CHECK(conv.named_parameters()[1].name == "bias");
  const Tensor x = randn({2, 4, 7, 5});
  CHECK(bytes_of(conv(x)) ==
        bytes_of(conv2d(x, conv.weight(), conv.bias(), {.stride = {2, 1}, .padding = 1, .groups = 2})));

  const nn::Conv1d line(4, 3, 5, {.padding = "same", .bias = false});
  CHECK(line.weight()->shape() == Shape{3, 4, 5});
  CHECK_FALSE(line.bias().defined());
  CHECK(line(randn({2, 4, 9})).shape() == Shape{2, 3, 9});

  const nn::ConvTranspose2d up(4, 6, 2, {.stride = 2, .groups = 2});
  CHECK(up.weight()->shape() == Shape{4, 3, 2, 2});
  CHECK(up.bias()->shape() == Shape{6});
  CHECK(up(randn({4, 5, 3})).shape() == Shape{6, 10, 6});
  const nn::ConvTranspose2d more(1, 1, 3, {.stride = 2, .padding = 1, .output_padding = 1});
  CHECK(more(randn({1, 1, 4, 4})).shape() == Shape{1, 1, 8, 8});
}

TEST_CASE("parameters of convolutions begin within 1 / sqrt(fan)", "[nn][convolution]") {
  manual_seed(4);
  const nn::Conv2d conv(8, 64, 3);
  const nn::ConvTranspose2d up(64, 8, 3);
  const double bound = 1 / std::sqrt(8 * 9.0);  // of both: weight[0] has as many elements
  for (const Tensor& t : {Tensor(conv.weight()), Tensor(conv.bias()), Tensor(up.weight())}) {
    double largest = 0;
    for (const double v : t.detach().to_vector<double>()) largest = std::max(largest, std::abs(v));
    CHECK(largest <= bound);
    CHECK(largest > 0.9 * bound);
  }
}

TEST_CASE("layers of convolutions refuse sizes that do not fit", "[nn][convolution]") {
  CHECK_THROWS_AS(nn::Conv2d(4, 6, 3, {.groups = 4}), ShapeError);
  CHECK_THROWS_AS(nn::Conv2d(4, 6, 3, {.groups = 0}), ValueError);
  CHECK_THROWS_AS(nn::Conv2d(4, -2, 3), ShapeError);
  CHECK_THROWS_AS(nn::Conv1d(4, 2, 0), ShapeError);
  CHECK_THROWS_AS(nn::Conv2d(4, 6, 3)(randn({1, 3, 5, 5})), ShapeError);
}

TEST_CASE("pools as modules give what the functions give", "[nn][pooling]") {
  const Tensor x = randn({2, 3, 6, 8});
  CHECK(bytes_of(nn::MaxPool2d(2)(x)) == bytes_of(max_pool2d(x, 2)));
  CHECK(bytes_of(nn::MaxPool2d({3, 2}, {.stride = 1, .padding = 1})(x)) ==
        bytes_of(max_pool2d(x, {3, 2}, {.stride = 1, .padding = 1})));
  CHECK(bytes_of(nn::AvgPool2d(3, {.stride = 2})(x)) == bytes_of(avg_pool2d(x, 3, {.stride = 2})));
  CHECK(bytes_of(nn::AdaptiveAvgPool2d({2, 3})(x)) == bytes_of(adaptive_avg_pool2d(x, {2, 3})));
  CHECK(bytes_of(nn::Upsample({.scale_factor = 2})(x)) == bytes_of(interpolate(x, {.scale_factor = 2})));
  std::ostringstream text;
  text << nn::Upsample({.size = {3, 5}, .mode = Interpolation::bilinear});
  CHECK(text.str().find("Upsample(size=[3, 5], mode=bilinear)") != std::string::npos);
  text.str("");
  text << nn::Sequential(nn::Conv2d(3, 4, 3), nn::MaxPool2d(2), nn::AdaptiveAvgPool2d(1));
  CHECK(text.str() ==
        "Sequential(\n  (0): Conv2d(3, 4, kernel=[3, 3], bias=true)\n  (1): MaxPool2d(kernel=[2, 2], "
        "stride=[2, "
        "2])\n  (2): AdaptiveAvgPool2d(output_size=[1, 1])\n)");
}

TEST_CASE("a small convolutional network learns, and its copy is independent", "[nn][convolution]") {
  manual_seed(5);
  nn::Sequential net(nn::Conv2d(1, 8, 3, {.padding = "same"}), nn::ReLU(), nn::MaxPool2d(2),
                     nn::Conv2d(8, 8, 3, {.padding = 1}), nn::ReLU(), nn::AdaptiveAvgPool2d(1), nn::Flatten(),
                     nn::Linear(8, 2));
  // Stripes down or across.
  Tensor x = zeros({16, 1, 8, 8}), y = zeros({16}, {.dtype = i64});
  for (std::int64_t n = 0; n < 16; ++n) {
    y.data<std::int64_t>()[n] = n % 2;
    for (std::int64_t i = 0; i < 64; ++i)
      x.data<float>()[n * 64 + i] = static_cast<float>(((n % 2 ? i / 8 : i % 8) + n / 2) % 2);
  }
  nn::Sequential before = nn::clone(net);
  optim::Adam adam(net.parameters(), {.lr = 1e-2});
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    const Tensor loss = cross_entropy(net(x), y);
    adam.zero_grad();
    loss.backward();
    adam.step();
    last = loss.item();
    if (step == 0) first = last;
  }
  CHECK(last < 0.2 * first);
  CHECK(cross_entropy(before(x), y).item() == Approx(first));
  net.load_state_dict(before.state_dict());
  CHECK(bytes_of(net(x)) == bytes_of(before(x)));
}

TEST_CASE("layers of one axis and bilinear layers are their functions", "[nn][convolution]") {
  manual_seed(3);
  const Tensor x = randn({2, 4, 9}), image = randn({2, 4, 6, 5});
  const nn::ConvTranspose1d up(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2});
  CHECK(equal(up(x), conv_transpose1d(x, up.weight(), up.bias(),
                                      {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2})));
  CHECK(up.weight()->sizes() == Shape{4, 3, 3});
  CHECK(equal(nn::MaxPool1d(3, {.stride = 2})(x), max_pool1d(x, 3, {.stride = 2})));
  CHECK(equal(nn::AvgPool1d(2)(x), avg_pool1d(x, 2)));
  CHECK(equal(nn::AdaptiveAvgPool1d(4)(x), adaptive_avg_pool1d(x, 4)));
  CHECK(equal(nn::AdaptiveMaxPool1d(4)(x), adaptive_max_pool1d(x, 4)));
  CHECK(equal(nn::AdaptiveMaxPool2d({3, 2})(image), adaptive_max_pool2d(image, {3, 2})));

  nn::Bilinear pairs(3, 4, 5);
  const auto parameters = pairs.named_parameters();
  REQUIRE(parameters.size() == 2);
  CHECK(parameters[0].value.sizes() == Shape{5, 3, 4});
  CHECK(amax(abs(parameters[0].value)).item<double>() <= 1 / std::sqrt(3.0));
  const Tensor a = randn({7, 3}), b = randn({7, 4});
  CHECK(equal(pairs(a, b), bilinear(a, b, parameters[0].value, parameters[1].value)));
  CHECK_THROWS_AS(nn::Bilinear(-1, 4, 5), ShapeError);
}

TEST_CASE("InstanceNorm normalizes with what is in its batch, or in its buffers", "[nn][instance_norm]") {
  const Tensor x = randn({2, 3, 4, 5});
  nn::InstanceNorm2d plain(3);
  CHECK(plain.parameters().empty());
  CHECK(bytes_of(plain(x)) == bytes_of(instance_norm(x)));
  CHECK(bytes_of(plain(x[0])) == bytes_of(instance_norm(x)[0]));
  plain.eval();
  CHECK(bytes_of(plain(x)) == bytes_of(instance_norm(x)));
  nn::InstanceNorm1d tracked(3, {.affine = true, .track_running_stats = true});
  CHECK(tracked.parameters().size() == 2);
  const Tensor line = randn({4, 3, 6});
  Tensor mean = zeros({3}), var = ones({3});
  CHECK(bytes_of(tracked(line)) == bytes_of(instance_norm(line, mean, var, ones({3}), zeros({3}))));
  CHECK(bytes_of(tracked.running_mean()) == bytes_of(mean));
  CHECK(bytes_of(tracked.running_var()) == bytes_of(var));
  tracked.eval();
  CHECK(bytes_of(tracked(line)) ==
        bytes_of(instance_norm(line, mean, var, {}, {}, {.use_input_stats = false})));
  CHECK_THROWS_AS(tracked(x), ShapeError);
  CHECK_THROWS_AS(tracked(randn({4, 2, 6})), ShapeError);
}
