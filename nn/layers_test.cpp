#include <cotangent/cotangent.h>

#include <cmath>
#include <sstream>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::bytes_of;
using ct::testing::TempFolder;
using ct::testing::tensor_of;

TEST_CASE("activations are the functions of their names", "[nn]") {
  const Tensor x = tensor_of<float>({2, 3}, {-2, -0.5, 0, 0.5, 1, 3});
  const auto same = [&](const nn::AnyModule& layer, const Tensor& y) {
    CHECK(bytes_of(layer(x)) == bytes_of(y));
  };
  same(nn::ReLU(), relu(x));
  same(nn::SiLU(), silu(x));
  same(nn::Tanh(), ct::tanh(x));
  same(nn::Sigmoid(), sigmoid(x));
  same(nn::LeakyReLU(0.2), leaky_relu(x, 0.2));
  same(nn::ELU(1.5), elu(x, 1.5));
  same(nn::SELU(), selu(x));
  same(nn::Hardtanh(-0.5, 2), hardtanh(x, -0.5, 2));
  same(nn::ReLU6(), relu6(x));
  same(nn::Hardsigmoid(), hardsigmoid(x));
  same(nn::Hardswish(), hardswish(x));
  same(nn::Mish(), mish(x));
  same(nn::Softsign(), softsign(x));
  same(nn::LogSigmoid(), logsigmoid(x));
  same(nn::PReLU(), leaky_relu(x, 0.25));
  same(nn::GELU(), gelu(x));
  same(nn::GELU(Gelu::tanh), gelu(x, Gelu::tanh));
  same(nn::Softplus(2, 5), softplus(x, 2, 5));
  same(nn::Softmax(0), softmax(x, 0));
  same(nn::LogSoftmax(), log_softmax(x, 1));
  same(nn::Identity(), x);
  CHECK_THROWS_AS(nn::Softplus(0), ValueError);
  CHECK_THROWS_WITH(nn::PReLU(0), Catch::Contains("[PReLU] got 0 parameters"));
  std::ostringstream text;
  text << nn::Sequential(nn::ReLU(), nn::GELU(Gelu::tanh), nn::Softmax(0), nn::Dropout(0.25));
  CHECK(text.str() ==
        "Sequential(\n  (0): ReLU()\n  (1): GELU(approximate=tanh)\n  (2): Softmax(axis=0)\n  (3): "
        "Dropout(p=0.25)\n)");
}

TEST_CASE("PReLU learns a slope for each channel", "[nn]") {
  nn::PReLU layer(3, {.init = 0.5});
  REQUIRE(layer.parameters().size() == 1);
  CHECK(layer.state_dict().contains("weight"));
  const Tensor x = tensor_of<float>({1, 3}, {-2, 4, -3});
  layer(x).backward(ones({1, 3}));
  CHECK(layer.parameters()[0].grad().to_vector<float>() == std::vector<float>{-2, 0, -3});
  CHECK_THROWS_AS(layer(ones({1, 4})), ShapeError);
}

TEST_CASE("Dropout follows the mode of the module it is in", "[nn]") {
  nn::Sequential net(nn::Dropout(0.5));
  const Tensor x = ones({1000});
  net.eval();
  CHECK(net(x).is_same(x));
  net.train();
  manual_seed(1);
  const Tensor y = net(x);
  double sum = 0;
  for (float v : y.to_vector<float>()) {
    CHECK((v == 0 || v == 2));
    sum += v;
  }
  CHECK(std::abs(sum - 1000) < 4 * std::sqrt(1000.0));
  manual_seed(1);
  CHECK(bytes_of(net(x)) == bytes_of(y));
  CHECK_THROWS_AS(nn::Dropout(-0.1), ValueError);
  CHECK_THROWS_AS(nn::Dropout(1.5), ValueError);
}

TEST_CASE("losses as modules give what the functions give", "[nn]") {
  const Tensor logits = tensor_of<float>({2, 3}, {1, 2, 3, -1, 0, 1}),
               labels = tensor_of<std::int64_t>({2}, {2, 0});
  const Tensor weight = tensor_of<float>({3}, {1, 2, 4}),
               target = tensor_of<float>({2, 3}, {1, 0, 1, 0, 1, 0});
  CHECK(bytes_of(nn::MSELoss()(logits, target)) == bytes_of(mse_loss(logits, target)));
  CHECK(bytes_of(nn::MSELoss({.reduction = Reduction::sum})(logits, target)) ==
        bytes_of(mse_loss(logits, target, {.reduction = Reduction::sum})));
  CHECK(bytes_of(nn::BCEWithLogitsLoss({.pos_weight = weight})(logits, target)) ==
        bytes_of(bce_with_logits(logits, target, {.pos_weight = weight})));
  CHECK(bytes_of(nn::NLLLoss({.weight = weight, .ignore_index = 0})(logits, labels)) ==
        bytes_of(nll_loss(logits, labels, {.weight = weight, .ignore_index = 0})));
  CHECK(bytes_of(nn::L1Loss()(logits, target)) == bytes_of(l1_loss(logits, target)));
  CHECK(bytes_of(nn::SmoothL1Loss({.beta = 2})(logits, target)) ==
        bytes_of(smooth_l1_loss(logits, target, {.beta = 2})));
  CHECK(bytes_of(nn::HuberLoss({.delta = 2})(logits, target)) ==
        bytes_of(huber_loss(logits, target, {.delta = 2})));
  CHECK(bytes_of(nn::KLDivLoss({.batch_mean = true})(logits, target)) ==
        bytes_of(kl_div(logits, target, {.batch_mean = true})));
  const Tensor var = tensor_of<float>({2}, {1, 4}), pair = tensor_of<float>({2}, {1, -1});
  CHECK(bytes_of(nn::GaussianNLLLoss()(logits, target, var)) ==
        bytes_of(gaussian_nll_loss(logits, target, var)));
  CHECK(bytes_of(nn::CosineEmbeddingLoss()(logits, target, pair)) ==
        bytes_of(cosine_embedding_loss(logits, target, pair)));
  CHECK(bytes_of(nn::TripletMarginLoss()(logits, target, logits + 1)) ==
        bytes_of(triplet_margin_loss(logits, target, logits + 1)));
  const Tensor sure = sigmoid(logits);
  nn::BCELoss chance({.weight = weight.clone()});
  CHECK(bytes_of(chance(sure, target)) == bytes_of(binary_cross_entropy(sure, target, {.weight = weight})));
  chance.to(f64);
  CHECK(chance(sure.to(f64), target.to(f64)).dtype() == f64);
  nn::CrossEntropyLoss loss({.weight = weight, .label_smoothing = 0.1});
  CHECK(bytes_of(loss(logits, labels)) ==
        bytes_of(cross_entropy(logits, labels, {.weight = weight, .label_smoothing = 0.1})));
  CHECK(nn::CrossEntropyLoss()(logits, labels).item() == Approx((0.40760596 + 2.40760596) / 2).epsilon(1e-6));
  // Weights move with the module and are not saved.
  loss.to(f64);
  CHECK(loss(logits.to(f64), labels).dtype() == f64);
  CHECK(loss.state_dict().empty());
}

namespace {

struct Mlp : nn::Module {
  nn::Linear in = add("in", nn::Linear(64, 32));
  nn::Dropout drop = add("drop", nn::Dropout(0.1));
  nn::Linear out = add("out", nn::Linear(32, 4));
  ct::Tensor forward(const ct::Tensor& x) const { return out(drop(ct::relu(in(x)))); }
};

// Four kinds of 8 x 8 images that differ in their brighter quarter.
data::ImageDataset quarters(std::int64_t count) {
  Tensor images = empty({count, 8, 8}, {.dtype = u8}), labels = empty({count}, {.dtype = i64});
  Generator generator(5);
  const Tensor noise = randint(0, 120, {count, 8, 8}, {}, generator);
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t label = n % 4;
    labels.data<std::int64_t>()[n] = label;
    for (std::int64_t y = 0; y < 8; ++y)
      for (std::int64_t x = 0; x < 8; ++x)
        images.data<std::uint8_t>()[n * 64 + y * 8 + x] = static_cast<std::uint8_t>(
            noise.data<std::int64_t>()[n * 64 + y * 8 + x] + ((y / 4) * 2 + x / 4 == label ? 60 : 0));
  }
  return {images, labels};
}

}  // namespace

TEST_CASE("a program from data to file learns and comes back", "[nn]") {
  const TempFolder folder;
  ct::manual_seed(42);
  const auto device = ct::best_device();
  const auto images = quarters(512);
  ct::data::DataLoader batches(images, {.batch_size = 32, .shuffle = true, .prefetch = device});
  Mlp model;
  model.to(device);
  ct::optim::Adam adam(model.parameters(), {.lr = 1e-2});
  double first = 0, last = 0;
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (auto [x, y] : batches) {
      auto loss = ct::cross_entropy(model.forward(x.flatten(1)), y);
      adam.zero_grad();
      loss.backward();
      adam.step();
      last = loss.item();
      if (first == 0) first = last;
    }
  }
  CHECK(first > 1.2);
  CHECK(last < 0.1);

  ct::io::save(folder / "mlp.safetensors", model.state_dict());
  Mlp again;
  again.load_state_dict(ct::io::load(folder / "mlp.safetensors"));
  again.eval();
  data::DataLoader all(images, {.batch_size = 512});
  for (auto [x, y] : all) {
    const std::vector<float> scores = again.forward(x.flatten(1)).to_vector<float>();
    int right = 0;
    for (std::size_t n = 0; n < 512; ++n) {
      const float* row = scores.data() + 4 * n;
      right += std::max_element(row, row + 4) - row == static_cast<std::ptrdiff_t>(n % 4);
    }
    CHECK(right >= 507);
  }
}

TEST_CASE("BatchNorm does not count a batch that it refuses", "[layers]") {
  for (const bool average : {false, true}) {
    nn::BatchNormOptions options;
    if (average) options.momentum = std::nullopt;
    nn::BatchNorm1d norm(2, options);
    const auto counted = [&] { return norm.get("num_batches_tracked").item<int>(); };
    const std::string before = bytes_of(norm.get("running_mean")) + bytes_of(norm.get("running_var"));
    CHECK_THROWS_AS(norm(ones({1, 2})), ValueError);
    CHECK_THROWS_AS(norm(ones({4, 2}).to(i64)), DTypeError);
    CHECK(counted() == 0);
    CHECK(bytes_of(norm.get("running_mean")) + bytes_of(norm.get("running_var")) == before);
    norm(ones({4, 2}) * 3);
    CHECK(counted() == 1);
    CHECK(norm.get("running_mean").to_vector<double>()[0] == Approx(average ? 3 : 0.3));
    norm(ones({4, 2}) * 5);
    CHECK(norm.get("running_mean").to_vector<double>()[0] == Approx(average ? 4 : 0.77));
  }
}
