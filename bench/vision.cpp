#include "bench/bench.h"

// Whole training steps of convolutional networks: forward, loss, backward, optimizer, zero_grad. Images are random.

namespace {

using namespace ct::bench;
using ct::Tensor;
namespace nn = ct::nn;

// Two convolutions with batch norm and a way around them (He et al., 2015).
struct ResidualBlock : nn::Module {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  nn::Sequential around;

  ResidualBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(add("conv1", nn::Conv2d(in, out, 3, {.stride = stride, .padding = 1, .bias = false}))),
        conv2(add("conv2", nn::Conv2d(out, out, 3, {.padding = 1, .bias = false}))),
        bn1(add("bn1", nn::BatchNorm2d(out))),
        bn2(add("bn2", nn::BatchNorm2d(out))),
        around(add("around", nn::Sequential())) {
    if (in == out && stride == 1) return;
    around.append(nn::Conv2d(in, out, 1, {.stride = stride, .bias = false}));
    around.append(nn::BatchNorm2d(out));
  }
  Tensor forward(const Tensor& x) const {
    const Tensor y = bn2(conv2(ct::relu(bn1(conv1(x)))));
    return ct::relu(y + around(x));
  }
};

nn::Sequential resnet18() {
  nn::Sequential net(nn::Conv2d(3, 64, 7, {.stride = 2, .padding = 3, .bias = false}), nn::BatchNorm2d(64),
                     nn::ReLU(), nn::MaxPool2d(3, {.stride = 2, .padding = 1}));
  std::int64_t in = 64;
  for (const std::int64_t out : {64, 128, 256, 512}) {
    net.append(ResidualBlock(in, out, out == 64 ? 1 : 2));
    net.append(ResidualBlock(out, out, 1));
    in = out;
  }
  net.append(nn::AdaptiveAvgPool2d(1));
  net.append(nn::Flatten());
  net.append(nn::Linear(512, 1000));
  return net;
}

// The network of PyTorch's MNIST example, without dropout.
nn::Sequential two_convolutions() {
  return nn::Sequential(nn::Conv2d(1, 32, 3), nn::ReLU(), nn::Conv2d(32, 64, 3), nn::ReLU(), nn::MaxPool2d(2),
                        nn::Flatten(), nn::Linear(9216, 128), nn::ReLU(), nn::Linear(128, 10));
}

class Training {
 public:
  Training(nn::Sequential model, const ct::Shape& images, std::int64_t classes, ct::Device device, bool low)
      : model_(std::move(model)),
        low_(low),
        x_(ct::randn(images).to(device)),
        y_(ct::randint(0, classes, {images[0]}).to(device)) {
    model_.to(device);
    sgd_.emplace(model_.parameters(), ct::optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
  }
  void step() {
    Tensor loss;
    if (low_) {
      const ct::Autocast guard(ct::bf16);
      loss = ct::cross_entropy(model_.forward(x_), y_);
    } else {
      loss = ct::cross_entropy(model_.forward(x_), y_);
    }
    loss.backward();
    sgd_->step();
    sgd_->zero_grad();
  }

 private:
  nn::Sequential model_;
  bool low_;
  Tensor x_, y_;
  std::optional<ct::optim::SGD> sgd_;
};

void resnet18_gpu(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const ct::Device gpu = ct::cuda(0);
  ct::manual_seed(0);
  ct::empty_cache(gpu);
  {
    Training training(resnet18(), {256, 3, 224, 224}, 1000, gpu, true);
    ct::reset_peak_stats(gpu);
    time_wall(state, gpu, 3, [&] { training.step(); });
    state.counters["peak"] = static_cast<double>(ct::memory_stats(gpu).peak_in_use);
  }
  ct::empty_cache(gpu);
}
BENCHMARK(resnet18_gpu)->Name("N2/resnet18_bf16_b256")->Iterations(4)->UseManualTime();

void two_convolutions_gpu(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  ct::manual_seed(0);
  Training training(two_convolutions(), {128, 1, 28, 28}, 10, ct::cuda(0), false);
  auto step = ct::capture([&] { training.step(); }, {.enabled = state.range(0) == 1});
  time_wall(state, ct::cuda(0), 50, step);
  state.counters["launches"] = static_cast<double>(step.launches());
}
BENCHMARK(two_convolutions_gpu)->Name("N3/two_convolutions_b128")->Arg(0)->Iterations(10)->UseManualTime();
BENCHMARK(two_convolutions_gpu)
    ->Name("N3/two_convolutions_b128@captured")
    ->Arg(1)
    ->Iterations(10)
    ->UseManualTime();

void two_convolutions_cpu(benchmark::State& state) {
  ct::manual_seed(0);
  Training training(two_convolutions(), {128, 1, 28, 28}, 10, ct::cpu, false);
  for (auto _ : state) training.step();
}
BENCHMARK(two_convolutions_cpu)->Name("N3c/two_convolutions_b128_cpu")->Apply(five_runs)->UseRealTime();

}  // namespace
