#include "examples/mnist/use.h"

#include <cotangent/cotangent.h>

#include <cstdio>
#include <filesystem>

#include "examples/common/device.h"
#include "examples/common/run_folder.h"
#include "examples/mnist/images.h"
#include "examples/mnist/loop.h"
#include "examples/mnist/model.h"
#include "examples/mnist/picture.h"
#include "examples/mnist/score.h"

namespace nn = ct::nn;
using ct::Tensor;

namespace {

struct Trained {
  nn::Sequential model;
  ImageSet images;
  ct::Device device;
  std::string checkpoint;
};

Trained load_trained(const UseOptions& o) {
  if (o.threads > 0) ct::set_num_threads(o.threads);
  std::error_code ignored;
  // Best weights of a run.
  const std::string best = o.run + "/" + RunFolder::kBest;
  const std::string file =
      RunFolder::checkpoint_in("mnist", std::filesystem::exists(best, ignored) ? best : o.run);
  const Options settings = read_config(RunFolder::folder_of(file));
  Trained trained{{}, {}, usable_device("mnist", o.device), file};
  {
    const nn::init::Skip no_values;
    trained.model = make_model(settings);
  }
  trained.model.load_state_dict(ct::io::load(file).part("model"));
  trained.model.to(trained.device);
  trained.model.eval();
  trained.images =
      load_images(o.data.empty() ? settings.data : o.data, o.data.empty() && settings.drawn, settings.seed);
  return trained;
}

}  // namespace

int eval(const UseOptions& o) {
  if (!o.json.empty()) ct::io::AtomicFile writable(o.json);
  const Trained t = load_trained(o);
  Loader loader(dataset_of(t.images, t.images.test), {.batch_size = 1000, .prefetch = t.device});
  const Score score = evaluate(t.model, loader, t.device);
  std::printf("model    %s on %s\ndata     %s\n", t.checkpoint.c_str(), ct::to_string(t.device).c_str(),
              t.images.name.c_str());
  std::printf("test accuracy %.2f%%, loss %.4f, of %lld images\n", 100 * score.accuracy, score.loss,
              static_cast<long long>(t.images.test.labels.size(0)));
  if (!o.json.empty())
    ct::io::write_file(o.json, ct::detail::cat("{\"test_accuracy\": ", score.accuracy,
                                               ", \"test_loss\": ", score.loss, "}\n"));
  return 0;
}

int predict(const UseOptions& o) {
  const Trained t = load_trained(o);
  const Images& test = t.images.test;
  Tensor pixels;  // u8 [28, 28]
  if (o.image.empty()) {
    CT_CHECK(o.index < test.labels.size(0), ct::IndexError, "mnist", "--index ", o.index, ": there are ",
             test.labels.size(0), " test images, counted from 0; choose one of them");
    pixels = test.pixels[o.index];
  } else {
    pixels = as_of_the_data(read_pgm(o.image), o.invert);
  }
  // Through the same dataset that it was trained on: the same centring.
  const ct::data::ImageDataset one =
      dataset_of(t.images, {pixels.unsqueeze(0).contiguous(), ct::zeros({1}, {.dtype = ct::i64})});
  const ct::NoGrad guard;
  const Tensor x = one.get(0).first.unsqueeze(0).to(t.device);
  const auto [p, classes] = ct::topk(ct::softmax(t.model.forward(x), -1), 3);
  std::printf("%s", drawn_as_text(pixels).c_str());
  if (o.image.empty()) {
    const auto label = static_cast<std::size_t>(test.labels[o.index].item<std::int64_t>());
    std::printf("test image %lld, which is: %s\n", static_cast<long long>(o.index),
                t.images.classes[label].c_str());
  }
  for (std::int64_t k = 0; k < 3; ++k)
    std::printf("%6.2f%%  %s\n", 100 * p[0][k].item(),
                t.images.classes[classes[0][k].item<std::size_t>()].c_str());
  return 0;
}
