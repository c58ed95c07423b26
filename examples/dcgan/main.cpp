#include <cotangent/cotangent.h>

#include <cstdio>

#include "examples/common/device.h"
#include "examples/common/small_program.h"
#include "examples/common/svg.h"

// Two networks learn from each other (Goodfellow et al. 2014): a generator draws images out of random numbers, a
// discriminator tells drawn from real. Each is trained to be wrong less often, which the other one makes harder. Both are
// made of convolutions (Radford, Metz and Chintala 2016: DCGAN).

namespace nn = ct::nn;
using ct::Tensor;

namespace {

struct Settings {
  std::string data = "/usr/share/datasets/fashion-mnist", device = "auto", out = "dcgan.svg";
  std::int64_t epochs = 5, batch = 128, width = 32, latent = 64;
  double lr = 2e-4;
};

// Numbers [n, latent] to images [n, 1, 28, 28] in [-1, 1]: 7, 14, 28 pixels a side.
struct Generator : nn::Module {
  Generator(std::int64_t latent, std::int64_t width)
      : seed(add("seed", nn::Linear(latent, 2 * width * 7 * 7))),
        layers(add("layers",
                   nn::Sequential(
                       nn::BatchNorm2d(2 * width), nn::ReLU(),
                       nn::ConvTranspose2d(2 * width, width, 4, {.stride = 2, .padding = 1, .bias = false}),
                       nn::BatchNorm2d(width), nn::ReLU(),
                       nn::ConvTranspose2d(width, 1, 4, {.stride = 2, .padding = 1}), nn::Tanh()))) {}
  Tensor forward(const Tensor& z) const { return layers(seed(z).view({z.size(0), -1, 7, 7})); }
  nn::Linear seed;
  nn::Sequential layers;
};

// Images to a number each, above 0 for those that it takes for real: the generator mirrored.
nn::Sequential make_discriminator(std::int64_t width) {
  return nn::Sequential(nn::Conv2d(1, width, 4, {.stride = 2, .padding = 1}), nn::LeakyReLU(0.2),
                        nn::Conv2d(width, 2 * width, 4, {.stride = 2, .padding = 1, .bias = false}),
                        nn::BatchNorm2d(2 * width), nn::LeakyReLU(0.2), nn::Flatten(),
                        nn::Linear(2 * width * 7 * 7, 1));
}

// Loss of the discriminator's `verdicts` on images that are all real (1) or all drawn (0).
Tensor surprise(const Tensor& verdicts, double truth) {
  return ct::bce_with_logits(verdicts, ct::full_like(verdicts, truth));
}

// DCGAN's first values: of a normal distribution, narrow, which keeps both networks undecided at the start.
void draw_weights(nn::Module& module) {
  const ct::NoGrad guard;
  for (const auto& [name, weight] : module.named_parameters()) {
    Tensor w = weight;
    if (w.dim() > 1) ct::normal_(w, 0, 0.02);
  }
}

double share(const Tensor& mask) { return ct::mean(mask.to(ct::f32)).item(); }

void train(const Settings& s) {
  ct::manual_seed(1);
  const ct::Device device = usable_device("dcgan", s.device);
  // Pixels in [-1, 1], as the generator's.
  const auto images = ct::data::idx(s.data, ct::data::train, {.mean = 0.5, .std = 0.5});
  ct::data::DataLoader batches(
      images, {.batch_size = s.batch, .shuffle = true, .drop_last = true, .prefetch = device});
  Generator generator(s.latent, s.width);
  nn::Sequential discriminator = make_discriminator(s.width);
  for (nn::Module* module :
       {static_cast<nn::Module*>(&generator), static_cast<nn::Module*>(&discriminator)}) {
    draw_weights(*module);
    module->to(device);
  }
  const ct::optim::AdamOptions options{.lr = s.lr, .beta1 = 0.5};
  ct::optim::Adam learns_to_draw(generator.parameters(), options),
      learns_to_tell(discriminator.parameters(), options);
  const Tensor kept = ct::randn({40, s.latent}, {.device = device});  // the same for each picture

  for (std::int64_t epoch = 1; epoch <= s.epochs; ++epoch) {
    Tensor real_right, drawn_right, loss_d, loss_g;
    for (const auto& [real, labels] : batches) {
      profile_step();
      const Tensor drawn = generator.forward(ct::randn({s.batch, s.latent}, {.device = device}));

      // The discriminator's step. The generator gets no gradient from it: detach().
      learns_to_tell.zero_grad();
      const Tensor of_real = discriminator(real), of_drawn = discriminator(drawn.detach());
      loss_d = surprise(of_real, 1) + surprise(of_drawn, 0);
      loss_d.backward();
      learns_to_tell.step();

      // The generator's step: it wants its images to be taken for real. The gradients that this leaves in the
      // discriminator are cleared before its next step.
      learns_to_draw.zero_grad();
      loss_g = surprise(discriminator(drawn), 1);
      loss_g.backward();
      learns_to_draw.step();
      real_right = of_real > 0, drawn_right = of_drawn < 0;
    }
    std::printf(
        "epoch %2lld  losses: discriminator %.3f, generator %.3f; last batch: told right %3.0f%% of real, "
        "%3.0f%% "
        "of drawn%s\n",
        static_cast<long long>(epoch), loss_d.item(), loss_g.item(), 100 * share(real_right),
        100 * share(drawn_right), limit_share(device).c_str());
    std::fflush(stdout);
    const ct::NoGrad guard;
    generator.eval();
    const Tensor shown = (generator.forward(kept) + 1).to(ct::cpu) / 2;
    generator.train();
    std::vector<svg::Picture> pictures;
    for (std::int64_t i = 0; i < shown.size(0); ++i) pictures.push_back({shown[i].to_vector<float>(), ""});
    ct::io::write_file(
        s.out, svg::sheet("What it draws after " + std::to_string(epoch) + " epochs", pictures, 28, 10));
  }
  std::printf("%s: what it draws\n", s.out.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  return small_program(
      "dcgan", "Learns to draw images, by a contest of two networks.", argc, argv,
      [&](flags::Flags flags) {
        flags.path("--data", s.data, "folder of MNIST or Fashion-MNIST in IDX files");
        flags.device(s.device);
        flags.whole("--epochs", s.epochs, "passes over the images");
        flags.whole("--batch", s.batch, "images per step");
        flags.whole("--width", s.width, "channels of the widest images; half of the narrower ones'");
        flags.whole("--latent", s.latent, "random numbers for an image");
        flags.positive("--lr", s.lr, "learning rate of both");
        flags.path("--out", s.out, "SVG file of what it draws, after each epoch");
        add_profile(flags);
      },
      [&] { train(s); });
}
