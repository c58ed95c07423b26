#include <cotangent/cotangent.h>

#include <cstdio>

// A network that learns to tell pieces of clothing apart: data, model, loop, accuracy. Read it before the other
// examples, which are this and what a program needs around it.
//   usage: first [FOLDER]: of MNIST or Fashion-MNIST in IDX files

namespace nn = ct::nn;

struct Mlp : nn::Module {
  nn::Linear in = add("in", nn::Linear(784, 128));
  nn::Linear out = add("out", nn::Linear(128, 10));
  ct::Tensor forward(const ct::Tensor& x) const { return out(ct::relu(in(x.flatten(1)))); }
};

double accuracy(const Mlp& model, const ct::data::ImageDataset& images, ct::Device device) {
  const ct::NoGrad guard;  // nothing is recorded here
  ct::data::DataLoader batches(images, {.batch_size = 1000, .prefetch = device});
  double right = 0;
  for (const auto& [x, y] : batches) right += ct::sum(ct::eq(ct::argmax(model.forward(x), 1), y)).item();
  return right / static_cast<double>(images.size());
}

int main(int argc, char** argv) try {
  const char* const folder = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  ct::manual_seed(1);
  const ct::Device device = ct::best_device();  // a GPU if there is one
  const auto train = ct::data::idx(folder, ct::data::train), test = ct::data::idx(folder, ct::data::test);
  ct::data::DataLoader batches(train, {.batch_size = 64, .shuffle = true, .prefetch = device});

  Mlp model;
  model.to(device);
  ct::optim::Adam adam(model.parameters(), {.lr = 1e-3});

  for (int epoch = 1; epoch <= 2; ++epoch) {
    for (const auto& [x, y] : batches) {
      adam.zero_grad();
      ct::cross_entropy(model.forward(x), y).backward();
      adam.step();
    }
    std::printf("epoch %d  accuracy %.4f\n", epoch, accuracy(model, test, device));
  }
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
