#include <cotangent/cotangent.h>

#include <cstdio>

#include "examples/common/device.h"
#include "examples/common/small_program.h"
#include "examples/common/svg.h"

// Learns to draw images like those it has seen: a variational autoencoder (Kingma and Welling 2014). An encoder says of an
// image where in a space of few dimensions it lies, and how sure of that it is; a decoder draws the image of a place. The
// loss keeps the places close to a normal distribution, so that any draw of it decodes to an image.

namespace nn = ct::nn;
using ct::Tensor;

namespace {

struct Settings {
  std::string data = "/usr/share/datasets/fashion-mnist", device = "auto", out = "vae.svg";
  std::int64_t epochs = 10, batch = 128, hidden = 400, latent = 20;
  double lr = 1e-3;
};

struct Vae : nn::Module {
  Vae(std::int64_t hidden, std::int64_t latent)
      : encoder(add("encoder", nn::Sequential(nn::Flatten(), nn::Linear(784, hidden), nn::ReLU()))),
        to_mean(add("to_mean", nn::Linear(hidden, latent))),
        to_log_var(add("to_log_var", nn::Linear(hidden, latent))),
        decoder(add("decoder",
                    nn::Sequential(nn::Linear(latent, hidden), nn::ReLU(), nn::Linear(hidden, 784)))) {}
  nn::Sequential encoder;
  nn::Linear to_mean, to_log_var;
  nn::Sequential decoder;
};

struct Losses {
  Tensor drawing, places;
};

// Both are sums over an image, and means over the batch.
Losses losses(const Vae& vae, const Tensor& images) {
  const auto n = static_cast<double>(images.size(0));
  const Tensor code = vae.encoder(images);
  const Tensor mean = vae.to_mean(code), log_var = vae.to_log_var(code);
  // A place drawn from N(mean, var), written so that the gradient flows to what it was drawn from.
  const Tensor place = mean + ct::exp(log_var / 2) * ct::randn_like(mean);
  // A pixel is taken for the probability that it is lit.
  const Tensor drawing =
      ct::bce_with_logits(vae.decoder(place), images.flatten(1), {.reduction = ct::Reduction::sum});
  // The divergence of N(mean, var) from N(0, 1).
  const Tensor places = -0.5 * ct::sum(1 + log_var - ct::square(mean) - ct::exp(log_var));
  return {drawing / n, places / n};
}

Losses evaluate(const Vae& vae, ct::data::DataLoader<ct::data::ImageDataset>& batches) {
  const ct::NoGrad guard;
  Losses sum{ct::zeros({}), ct::zeros({})};
  for (const auto& [x, y] : batches) {
    const Losses of_batch = losses(vae, x);
    const double share = static_cast<double>(x.size(0)) / static_cast<double>(batches.dataset().size());
    sum.drawing.add_(share * of_batch.drawing.to(ct::cpu));
    sum.places.add_(share * of_batch.places.to(ct::cpu));
  }
  return sum;
}

// Images of places drawn at random, and below them those between two of them.
std::string sheet(const Vae& vae, std::int64_t latent, ct::Device device) {
  const ct::NoGrad guard;
  const Tensor random = ct::randn({30, latent}, {.device = device});
  const Tensor way = ct::linspace(0, 1, 10, {.device = device}).view(-1, 1);
  const Tensor between = (1 - way) * random[0] + way * random[9];
  const Tensor images = ct::sigmoid(vae.decoder(ct::concat({random, between}))).to(ct::cpu);
  std::vector<svg::Picture> pictures;
  for (std::int64_t i = 0; i < images.size(0); ++i) pictures.push_back({images[i].to_vector<float>(), ""});
  return svg::sheet("30 images drawn at random; below, the way from the first to the tenth", pictures, 28,
                    10);
}

void train(const Settings& s) {
  ct::manual_seed(1);
  const ct::Device device = usable_device("vae", s.device);
  const auto train = ct::data::idx(s.data, ct::data::train), test = ct::data::idx(s.data, ct::data::test);
  ct::data::DataLoader batches(train, {.batch_size = s.batch, .shuffle = true, .prefetch = device});
  ct::data::DataLoader test_batches(test, {.batch_size = 1000, .prefetch = device});
  Vae vae(s.hidden, s.latent);
  vae.to(device);
  ct::optim::Adam adam(vae.parameters(), {.lr = s.lr});

  for (std::int64_t epoch = 1; epoch <= s.epochs; ++epoch) {
    for (const auto& [x, y] : batches) {
      profile_step();
      adam.zero_grad();
      const Losses of_batch = losses(vae, x);
      (of_batch.drawing + of_batch.places).backward();
      adam.step();
    }
    const std::string limit = limit_share(device);
    const Losses of_test = evaluate(vae, test_batches);
    const double drawing = of_test.drawing.item(), places = of_test.places.item();
    std::printf("epoch %2lld  test loss %.2f = drawing %.2f + places %.2f%s\n", static_cast<long long>(epoch),
                drawing + places, drawing, places, limit.c_str());
    std::fflush(stdout);
  }
  ct::io::write_file(s.out, sheet(vae, s.latent, device));
  std::printf("%s: what it draws\n", s.out.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  return small_program(
      "vae", "Learns to draw images like those it has seen: a variational autoencoder.", argc, argv,
      [&](flags::Flags flags) {
        flags.path("--data", s.data, "folder of MNIST or Fashion-MNIST in IDX files");
        flags.device(s.device);
        flags.whole("--epochs", s.epochs, "passes over the images");
        flags.whole("--batch", s.batch, "images per step");
        flags.whole("--hidden", s.hidden, "units between image and place");
        flags.whole("--latent", s.latent, "dimensions of a place");
        flags.positive("--lr", s.lr, "learning rate");
        flags.path("--out", s.out, "SVG file of what it draws");
        add_profile(flags);
      },
      [&] { train(s); });
}
