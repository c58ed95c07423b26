#include <cotangent/cotangent.h>

#include <book.h>
#include <examples/mnist/images.h>

#include <mini.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

// Trains a network by mini.h and by the library: from the same start, with the same batches.
// usage: train [STEPS [FOLDER]]: FOLDER holds files of MNIST's format; without it Fashion-MNIST where Debian's package puts it, or
// digits that the program draws. 0 steps are an epoch.

namespace {

using Clock = std::chrono::steady_clock;
using mini::Size;

constexpr std::int64_t kHidden = 128, kBatch = 128;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Pixels of images as numbers [N, 784] between -0.5 and 0.5, or so.
ct::Tensor pixels(const Images& images) {
  return images.pixels.to(ct::f32).view(images.pixels.size(0), -1) / 255 - 0.5;
}

struct Network {
  mini::Tensor w1, b1, w2, b2;
  mini::Tensor scores(const mini::Tensor& x) const { return linear(linear_relu(x, w1, b1), w2, b2); }
};

mini::Tensor leaf_of(const ct::Tensor& t, bool wants_grad) {
  const std::int64_t rows = t.dim() == 1 ? 1 : t.size(0);
  return mini::leaf(static_cast<Size>(rows), static_cast<Size>(t.numel() / rows), t.to_vector<float>(),
                    wants_grad);
}

std::vector<Size> sizes_of(const ct::Tensor& labels) {
  const std::vector<std::int64_t> values = labels.to_vector<std::int64_t>();
  return {values.begin(), values.end()};
}

/// The share of the images whose largest score is their label's, in per cent; `scores` takes a batch of pixels.
template <class Scores>
double accuracy(const Images& images, const Scores& scores) {
  double right = 0;
  const std::int64_t count = images.labels.size(0);
  for (std::int64_t first = 0; first < count; first += 1000) {
    const std::int64_t end = std::min(count, first + 1000);
    const Images part{images.pixels.slice(0, first, end), images.labels.slice(0, first, end)};
    right += ct::sum(ct::eq(ct::argmax(scores(pixels(part)), 1), part.labels).to(ct::f32)).item();
  }
  return 100 * right / static_cast<double>(count);
}

void train(std::int64_t steps, const std::string& folder) {
  const ImageSet images = load_images(folder, false, 1);
  const std::int64_t count = images.train.labels.size(0);
  steps = steps > 0 ? std::min(steps, count / kBatch) : count / kBatch;
  std::printf("%s: %lld images to train on, %lld to test\n", images.name.c_str(),
              static_cast<long long>(count), static_cast<long long>(images.test.labels.size(0)));
  ct::manual_seed(1);
  ct::nn::Linear first(784, kHidden), second(kHidden, 10);
  std::vector<ct::Tensor> parameters = first.parameters();
  for (const ct::Tensor& p : second.parameters()) parameters.push_back(p);
  const Network net{leaf_of(parameters[0], true), leaf_of(parameters[1], true), leaf_of(parameters[2], true),
                    leaf_of(parameters[3], true)};
  mini::AdamW ours{.parameters = {net.w1, net.b1, net.w2, net.b2}};
  ct::optim::AdamW theirs(parameters, {.lr = ours.lr, .weight_decay = ours.weight_decay});
  const auto library_scores = [&](const ct::Tensor& x) { return second.forward(ct::relu(first.forward(x))); };
  const ct::Tensor order = ct::randperm(count);

  std::printf("784 -> %lld -> 10, relu, AdamW, batches of %lld\n%6s %12s %12s\n",
              static_cast<long long>(kHidden), static_cast<long long>(kBatch), "step", "mini.h", "library");
  double seconds = 0, library_seconds = 0, apart = 0;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const ct::Tensor chosen = order.slice(0, (step - 1) * kBatch, step * kBatch);
    const Images batch{ct::index_select(images.train.pixels, 0, chosen),
                       ct::index_select(images.train.labels, 0, chosen)};
    const ct::Tensor x = pixels(batch);

    auto start = Clock::now();
    theirs.zero_grad();
    const ct::Tensor library_loss = ct::cross_entropy(library_scores(x), batch.labels);
    library_loss.backward();
    theirs.step();
    library_seconds += since(start);

    start = Clock::now();
    ours.zero_grad();
    const mini::Tensor loss = cross_entropy(net.scores(leaf_of(x, false)), sizes_of(batch.labels));
    backward(loss);
    mini::release(loss);
    ours.step();
    seconds += since(start);

    const double difference = std::abs(loss->values[0] - library_loss.item());
    apart = std::max(apart, difference);
    book::claim(std::isfinite(loss->values[0]), "the loss is finite");
    if (step == 1 || step % 100 == 0 || step == steps)
      std::printf("%6lld %12.4f %12.4f\n", static_cast<long long>(step), static_cast<double>(loss->values[0]),
                  static_cast<double>(library_loss.item()));
    if (step <= 20) book::claim(difference < 1e-3, "the first losses are the library's");
  }
  const double right = accuracy(images.test, [&](const ct::Tensor& x) {
    const mini::NoGrad guard;
    const mini::Tensor scores = net.scores(leaf_of(x, false));
    return ct::from_vector(scores->values, {x.size(0), 10});
  });
  const ct::NoGrad guard;
  const double library_right = accuracy(images.test, library_scores);
  std::printf("right  %10.2f %% %10.2f %%\nseconds %11.2f %12.2f\n", right, library_right, seconds,
              library_seconds);
  std::printf("the losses are never further apart than %.4f\n", apart);
  book::claim(apart < 0.05 && std::abs(right - library_right) < 2, "mini.h learns as the library does");
}

int steps = 0;
std::string folder;

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) steps = std::atoi(arguments[1]);
  if (count > 2) folder = arguments[2];
  return book::run([] { train(steps, folder); });
}
