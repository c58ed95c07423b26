#include <cotangent/cotangent.h>
#include <cotangent/nn/parallel/data_parallel.h>

#include <cmath>
#include <cstdio>

#include "examples/common/evaluation.h"
#include "examples/common/ranks.h"
#include "examples/common/small_program.h"

// A small residual network (He, Zhang, Ren and Sun 2016: ResNet-20) learns the ten classes of CIFAR-10's colour images.
// A block adds what its convolutions find to what came in, so the gradient has a way past them to the first layer.

namespace nn = ct::nn;
using ct::Tensor;
using Images = ct::data::ImageDataset;

namespace {

struct Settings {
  std::string data = "data/cifar-10-batches-bin", device = "auto";
  bool eager = false;
  bool drawn = false;
  std::int64_t epochs = 15, batch = 128, width = 16, blocks = 3, examples = 2000;
  double lr = 0.1;
};

// Two convolutions and a way past them. Where the image shrinks by `stride`, so does what goes past.
struct Block : nn::Module {
  Block(std::int64_t in, std::int64_t out, std::int64_t stride, const ct::dist::Group& ranks)
      : found(add("found",
                  nn::Sequential(nn::Conv2d(in, out, 3, {.stride = stride, .padding = 1, .bias = false}),
                                 nn::SyncBatchNorm(out, ranks), nn::ReLU(),
                                 nn::Conv2d(out, out, 3, {.padding = 1, .bias = false}),
                                 nn::SyncBatchNorm(out, ranks)))),
        past(add("past", in == out ? nn::Sequential()
                                   : nn::Sequential(nn::Conv2d(in, out, 1, {.stride = stride, .bias = false}),
                                                    nn::SyncBatchNorm(out, ranks)))) {}
  Tensor forward(const Tensor& x) const { return ct::relu(found(x) + past(x)); }
  nn::Sequential found, past;
};

// Images [n, 3, 32, 32] to logits [n, 10]: three stages of 32, 16 and 8 pixels a side, each with twice the channels.
// Norms have statistics of all ranks' images.
nn::Sequential resnet(std::int64_t width, std::int64_t blocks, const ct::dist::Group& ranks) {
  nn::Sequential net(nn::Conv2d(3, width, 3, {.padding = 1, .bias = false}), nn::SyncBatchNorm(width, ranks),
                     nn::ReLU());
  std::int64_t in = width;
  for (const std::int64_t out : {width, 2 * width, 4 * width})
    for (std::int64_t i = 0; i < blocks; ++i) {
      net.append(Block(in, out, in == out ? 1 : 2, ranks));
      in = out;
    }
  return net.append(nn::AdaptiveAvgPool2d(1)).append(nn::Flatten()).append(nn::Linear(in, 10));
}

// Synthetic images for users without data: waves in ten directions and colours, under noise.
Images draw_waves(std::int64_t n) {
  const Tensor labels = ct::randint(0, 10, {n}, {.dtype = ct::i64});
  const Tensor angle = labels.to(ct::f32).view(-1, 1, 1, 1) * (M_PI / 10);
  const Tensor y = ct::arange(32).to(ct::f32).view(1, 1, -1, 1),
               x = ct::arange(32).to(ct::f32).view(1, 1, 1, -1);
  const Tensor color = ct::arange(3).to(ct::f32).view(1, -1, 1, 1);
  const Tensor wave =
      ct::sin(0.8 * (x * ct::cos(angle) + y * ct::sin(angle)) + 6.28 * ct::rand({n, 1, 1, 1}) + color);
  const Tensor pixels = ct::clamp(128 + 40 * wave + 40 * ct::randn({n, 3, 32, 32}), 0, 255);
  return {pixels.to(ct::u8), labels, {.mean = 0.5, .std = 0.25}};
}

// Each image moved by up to four pixels, half of them mirrored: row r and column c of the result show what stands at
// rows[n, r], columns[n, c] of the image in a black frame of four pixels.
Tensor augmented(const Tensor& x) {
  const std::int64_t n = x.size(0);
  const ct::TensorOptions whole{.dtype = ct::i64, .device = x.device()};
  const Tensor places = ct::arange(32, whole);
  const Tensor mirrored = ct::where(ct::randint(0, 2, {n, 1}, whole) > 0, 31 - places, places);
  const Tensor rows = places + ct::randint(0, 9, {n, 1}, whole),
               columns = mirrored + ct::randint(0, 9, {n, 1}, whole);
  const Tensor framed = ct::pad(x, {4, 4, 4, 4});
  return framed.index({ct::arange(n, whole).view(-1, 1, 1, 1), ct::arange(3, whole).view(1, -1, 1, 1),
                       rows.view({n, 1, 32, 1}), columns.view({n, 1, 1, 32})});
}

double accuracy(nn::Sequential& net, const Images& images, const Ranks& ranks) {
  const Evaluation scope(net);
  const ct::NoGrad guard;
  ct::data::DataLoader batches(images, {.batch_size = 500, .prefetch = ranks.device()});
  double right = 0;
  for (std::int64_t i = 0; const auto& [x, y] : batches)
    if (i++ % ranks.size() == ranks.group().rank())
      right += ct::sum(ct::eq(ct::argmax(net.forward(x), 1), y)).item();
  return ct::dist::all_reduce(ct::full({}, right), ranks.group()).item() / static_cast<double>(images.size());
}

void train(const Settings& s) {
  Ranks ranks("cifar", s.device);
  const ct::Device device = ranks.device();
  ct::manual_seed(1);
  const ct::data::IdxOptions scaled{.mean = 0.47, .std = 0.25};
  const Images train = s.drawn ? draw_waves(s.examples) : ct::data::cifar10(s.data, ct::data::train, scaled);
  const Images test =
      s.drawn ? draw_waves(s.examples / 4) : ct::data::cifar10(s.data, ct::data::test, scaled);
  ct::data::DataLoader batches(train, ranks.part({.batch_size = s.batch, .shuffle = true}));
  nn::Sequential net = resnet(s.width, s.blocks, ranks.group());
  net.to(device);
  ranks.train_together(net);
  std::printf("%lld parameters, %lld images to train on, %lld to test%s\n",
              static_cast<long long>(net.num_parameters()), static_cast<long long>(train.size()),
              static_cast<long long>(test.size()), ranks.text().c_str());
  ct::optim::SGD sgd(net.parameters(), {.lr = s.lr, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
  // Up to the highest rate in the first third, then down to almost none.
  ct::optim::OneCycleLR schedule(sgd, {.max_lr = s.lr, .total_steps = s.epochs * batches.size()});

  auto step = ct::capture(
      [&](const Tensor& images, const Tensor& y) {
        sgd.zero_grad();
        // Drawn waves are told apart by their direction, which a mirror changes.
        const Tensor x = s.drawn ? images : augmented(images);
        const Tensor loss = ct::cross_entropy(net.forward(x), y);
        loss.backward();
        sgd.step();
        schedule.step();
        return loss;
      },
      {.enabled = flags::captures(device.is_cuda(), s.eager)});
  for (std::int64_t epoch = 1; epoch <= s.epochs; ++epoch) {
    Tensor sum = ct::zeros({}, {.device = device});  // stays on the device: nothing waits for it
    for (const auto& [images, y] : batches) {
      profile_step();
      sum.add_(step(images, y));
    }
    const std::string limit = limit_share(device);
    const double loss = ct::dist::all_reduce(sum, ranks.group(), ct::dist::ReduceOp::mean).item() /
                        static_cast<double>(batches.size());
    std::printf("epoch %2lld  loss %.4f  test accuracy %.2f%%%s\n", static_cast<long long>(epoch), loss,
                100 * accuracy(net, test, ranks), limit.c_str());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  return small_program(
      "cifar", "Trains a small residual network on the colour images of CIFAR-10.", argc, argv,
      [&](flags::Flags flags) {
        flags.path("--data", s.data, "folder with data_batch_1.bin and the others");
        flags.on("--drawn", s.drawn, "waves that the program draws, in the place of CIFAR-10");
        flags.whole("--examples", s.examples, "of --drawn", 4);
        flags.device(s.device);
        flags.on("--eager", s.eager, flags::kEagerHelp);
        flags.whole("--epochs", s.epochs, "passes over the images");
        flags.whole("--batch", s.batch, "images per step");
        flags.whole("--width", s.width, "channels of the first stage");
        flags.whole("--blocks", s.blocks, "in each of the three stages");
        flags.positive("--lr", s.lr, "learning rate at its highest");
        add_profile(flags);
      },
      [&] { train(s); });
}
