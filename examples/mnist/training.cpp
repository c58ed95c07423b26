#include "examples/mnist/training.h"

#include <chrono>
#include <cmath>
#include <memory>

#include <cotangent/ops/engine/gemm/replace.h>

#include "examples/common/command_line.h"
#include "examples/common/device.h"
#include "examples/common/evaluation.h"
#include "examples/common/interrupts.h"
#include "examples/common/metrics_table.h"
#include "examples/common/progress.h"
#include "examples/common/ranks.h"
#include "examples/common/run_folder.h"
#include "examples/mnist/augment.h"
#include "examples/mnist/images.h"
#include "examples/mnist/loop.h"
#include "examples/mnist/misclassified.h"
#include "examples/mnist/model.h"
#include "examples/mnist/score.h"

namespace nn = ct::nn;
using ct::Tensor;
using Clock = std::chrono::steady_clock;

namespace {

class Training : private Watch {
 public:
  explicit Training(const Options& options)
      : o_(options),
        ranks_("mnist", options.device),
        images_(load_images(options.data, options.drawn, options.seed)),
        folder_("mnist", options.out, options.resume, ranks_.first()),
        model_((ct::manual_seed(options.seed), make_model(options, ranks_.group()))),
        loader_(dataset_of(images_, images_.train),
                ranks_.part({.batch_size = options.batch, .shuffle = true, .seed = options.seed})),
        test_loader_(dataset_of(images_, images_.test), {.batch_size = 1000, .prefetch = device_}) {
    // A file that can't be written at the end is an error at the start.
    if (!ranks_.first()) o_.json.clear(), o_.profile = {};
    if (!o_.json.empty()) ct::io::AtomicFile writable(o_.json);
    CT_CHECK(ranks_.size() == 1 || !o_.overfit_batch, ct::ValueError, "mnist", "--overfit-batch with ",
             ranks_.size(), " ranks; one is enough to learn one batch: start the program by itself");
    // The values used, in place of those asked for.
    o_.device = ranks_.device_name();
    o_.data = images_.folder;
    o_.drawn = o_.data.empty();
    model_.to(device_);
    optimizer_ = make_optimizer(o_, model_.parameters());
    total_steps_ = o_.epochs * loader_.size();
    record_ = {.program = "mnist", .call = o_.call, .settings = settings(o_), .data_hash = data_};
    if (!o_.resume.empty()) resume();
    ranks_.train_together(model_);
    std::printf("data     %s: %lld to train on, %lld to test\n", images_.name.c_str(),
                static_cast<long long>(images_.train.labels.size(0)),
                static_cast<long long>(images_.test.labels.size(0)));
    if (!images_.note.empty()) std::printf("note     %s\n", images_.note.c_str());
    if (!o_.gemm.empty()) std::printf("products %s\n", o_.gemm.c_str());
    std::printf("model    %lld parameters on %s (%d threads)%s, %s\nrun      %s\n\n",
                static_cast<long long>(model_.num_parameters()), ct::to_string(device_).c_str(),
                ct::num_threads(), ranks_.text().c_str(), o_.optimizer.c_str(), folder_.path().c_str());
    std::fflush(stdout);
  }

  int run() {
    if (ranks_.any(interrupted())) {
      progress_.line("interrupted before it began");
      return 130;
    }
    begin();
    const Clock::time_point start = Clock::now();
    const auto seconds = [&] {  // its earlier parts too
      return earlier_seconds_ + std::chrono::duration<double>(Clock::now() - start).count();
    };
    if (o_.overfit_batch) return overfit();
    while (loader_.epoch() < o_.epochs) {
      if (!train_one_epoch()) {
        folder_.save_seconds(seconds());
        progress_.line("interrupted: saved; go on with --resume " + folder_.path());
        return 130;
      }
      finish_epoch(evaluated(), seconds());
    }
    const double took = seconds();
    profile_.finish();
    const Score test = evaluated();
    folder_.write("misclassified.svg", misclassified_sheet());
    std::printf("\ntest accuracy %.2f%% after %lld %s in %.1f s; loss curve and misclassified images in %s\n",
                100 * test.accuracy, static_cast<long long>(o_.epochs), o_.epochs == 1 ? "epoch" : "epochs",
                took, folder_.path().c_str());
    if (!o_.json.empty()) write_result(test, took);
    return 0;
  }

 private:
  void begin() {
    folder_.begin(record_, [] {});
    if (o_.resume.empty() || !folder_.writes()) return;
    metrics_.load(folder_ / "metrics.csv");
    earlier_seconds_ = folder_.load_seconds();
    // Without a best checkpoint the next one is the best.
    if (!folder_.holds(RunFolder::kBest)) best_accuracy_ = 0;
  }

  // One pass over the training images; false if the user interrupted it.
  bool train_one_epoch() {
    epoch_start_ = Clock::now();
    tally_ = Tally(device_);
    if (ranks_.first() && resumed_.contains_value("tally.count")) tally_.load(resumed_);
    resumed_ = {};
    earlier_ = tally_.count();
    const auto rate = [&](std::int64_t step) {
      return o_.lr * schedule(o_.schedule, static_cast<double>(step), static_cast<double>(total_steps_));
    };
    const auto augment = [&](const Tensor& x) { return augmented(x, o_.augment); };
    if (!train_epoch(model_, *optimizer_, loader_, augment, rate,
                     flags::captures(device_.is_cuda(), o_.eager), *this))
      return false;
    train_ = tally_.of_all(ranks_.group()).score();
    samples_per_s_ = samples_per_s();
    return true;
  }

  void before_update(const Tensor& loss, const Tensor& x, const Tensor& y) override {
    // On a GPU the host runs ahead; looking at every loss would make it wait. The last one of an epoch is
    // always looked at: no checkpoint of broken weights replaces a good one.
    const std::int64_t step = loader_.epoch() * loader_.size() + loader_.position() - 1;
    if (device_.is_cpu() || step % 64 == 0 || loader_.position() == loader_.size() || interrupted())
      if (!std::isfinite(loss.item())) report("the loss", x, y);
  }

  bool after_update(const Tensor& loss, const Tensor& logits, const Tensor& x, const Tensor& y) override {
    tally_.add(loss, logits, y);
    profile_.step(), limit_.step();  // the next one
    if (!ranks_.any(interrupted())) {
      show();
      return true;
    }
    check_finite(x, y);
    // Inside the loop, so that the loader's state is that of the middle of the epoch.
    save(RunFolder::kLast, &tally_);
    return false;
  }

  // Images of the epoch, all ranks'.
  std::int64_t seen() const { return earlier_ + (tally_.count() - earlier_) * ranks_.size(); }
  double samples_per_s() const {
    return static_cast<double>(seen() - earlier_) /
           std::chrono::duration<double>(Clock::now() - epoch_start_).count();
  }

  void show() {
    if (!progress_.due()) return;
    const std::int64_t epoch = loader_.epoch();
    const Score score = tally_.score();  // waits for a GPU: before the clock
    const double rate = samples_per_s();
    const double left =
        static_cast<double>((o_.epochs - epoch) * images_.train.labels.size(0) - seen()) / rate;
    char text[160];
    std::snprintf(text, sizeof text, "loss %.4f  accuracy %.2f%%  %.0f samples/s%s  ETA %s", score.loss,
                  100 * score.accuracy, rate, limit_.text(static_cast<double>(o_.batch) / rate).c_str(),
                  clock_text(left).c_str());
    progress_.update("epoch " + std::to_string(epoch + 1) + "/" + std::to_string(o_.epochs),
                     static_cast<double>(loader_.position()), static_cast<double>(loader_.size()), text);
  }

  // A loss is no number: which op made the first bad value, and what to do.
  [[noreturn]] void report(const std::string& what, const Tensor& x, const Tensor& y) {
    const std::string op = ranks_.size() > 1
                               ? Ranks::kOneTells
                               : first_bad_op([&] { return ct::cross_entropy(model_.forward(x), y); });
    ct::detail::fail<ct::ValueError>("mnist", what, " is not a number; ", op, "; try a lower --lr");
  }

  Score evaluated() {
    const Evaluation scope(model_);
    return evaluate(model_, test_loader_, device_, ranks_.group());
  }

  // The losses of the steps do not tell of the last update, and no checkpoint of weights that it broke
  // replaces a good one.
  void check_finite(const Tensor& x, const Tensor& y) {
    const Evaluation scope(model_);
    if (!std::isfinite(loss_of(x, y))) report("the loss", x, y);
  }
  double loss_of(const Tensor& x, const Tensor& y) {
    const ct::NoGrad guard;
    return ct::cross_entropy(model_.forward(x), y).item();
  }
  void check_test(const Score& test) {
    if (std::isfinite(test.loss)) return;
    const std::string what = "the test loss after epoch " + std::to_string(loader_.epoch());
    const Evaluation scope(model_);
    for (auto [x, y] : test_loader_)
      if (!std::isfinite(loss_of(x, y))) report(what, x, y);
    ct::detail::fail<ct::ValueError>(
        "mnist", what, " is not a number; its losses are finite, their sum (add_) is not; try a lower --lr");
  }

  void finish_epoch(const Score& test, double seconds) {
    check_test(test);
    const std::int64_t epoch = loader_.epoch();  // the next one
    char text[200];
    std::snprintf(
        text, sizeof text,
        "epoch %lld/%lld  loss %.4f  accuracy %.2f%%  test loss %.4f  test accuracy %.2f%%  %.0f samples/s",
        static_cast<long long>(epoch), static_cast<long long>(o_.epochs), train_.loss, 100 * train_.accuracy,
        test.loss, 100 * test.accuracy, samples_per_s_);
    progress_.line(text);
    metrics_.add({static_cast<double>(epoch), train_.loss, train_.accuracy, test.loss, test.accuracy,
                  optimizer_->lr(), seconds, samples_per_s_});
    folder_.write("metrics.csv", metrics_.csv());
    folder_.write("loss.svg", svg::chart("Loss by epoch", "epoch", "cross-entropy",
                                         {metrics_.curve("train_loss", "training loss", "#1f6fb4"),
                                          metrics_.curve("test_loss", "test loss", "#d9541e")}));
    // The best one first: a run that is killed between the two repeats this epoch with the same result.
    // The other way round, "last" would not know of the best one, and a worse one would take its place.
    if (test.accuracy > best_accuracy_) {
      best_accuracy_ = test.accuracy;
      save(RunFolder::kBest);
    }
    save(RunFolder::kLast);
    folder_.save_seconds(seconds);
  }

  // Everything a resumed run needs to go on as if it had never stopped.
  void save(const std::string& name, const Tally* tally = nullptr) {
    ct::StateDict extras;
    if (tally) tally->of_all(ranks_.group()).save(extras);
    if (!folder_.writes()) return;
    extras.set_value("best_accuracy", best_accuracy_);
    extras.set_value("data", data_);
    ct::io::save_checkpoint(folder_.path() + "/" + name,
                            {{"model", model_}, {"optimizer", *optimizer_}, {"loader", loader_}}, extras);
  }

  void resume() {
    const std::string path = RunFolder::checkpoint_in("mnist", o_.resume);
    const ct::StateDict extras =
        ct::io::load_checkpoint(path, {{"model", model_}, {"optimizer", *optimizer_}, {"loader", loader_}});
    const std::int64_t epochs = loader_.epoch(), batches = loader_.position();
    CT_CHECK(epochs < o_.epochs || (epochs == o_.epochs && batches == 0), ct::ValueError, "mnist", path,
             " has made ", epochs, " epochs and ", batches, " batches of the next, more than --epochs ",
             o_.epochs, "; choose more to go on");
    if (extras.contains_value("data") && extras.value<std::string>("data") != data_)
      std::printf("note     not what this run has learned from: %s\n", images_.name.c_str());
    // An older checkpoint does not know of the best one that has been written since.
    best_accuracy_ = folder_.best("best_accuracy").value_or(extras.value<double>("best_accuracy"));
    resumed_ = extras;
    record_.at = ct::detail::cat("epoch ", epochs + 1, ", batch ", batches);
    std::printf("resumed  %s, %s\n", path.c_str(), record_.at.c_str());
    for (const std::string& change : record_.changes()) std::printf("changed  %s\n", change.c_str());
  }

  int overfit() {
    for (auto [x, y] : loader_) {
      for (int step = 1; step <= 500 && !interrupted(); ++step) {
        optimizer_->zero_grad();
        const Tensor loss = ct::cross_entropy(model_.forward(x), y);
        loss.backward();
        optimizer_->step();
        const double value = loss.item();
        if (!std::isfinite(value)) report("the loss", x, y);
        if (step % 50 == 0 || value < 1e-3) std::printf("step %d  loss %.5f\n", step, value);
        if (value >= 1e-3) continue;
        std::printf("learned by heart in %d steps: forward, backward and optimizer work\n", step);
        return 0;
      }
      break;
    }
    if (interrupted()) return 130;
    std::fprintf(stderr,
                 "mnist: one batch was not learned in 500 steps; something is broken, or --lr is far off\n");
    return 1;
  }

  std::string misclassified_sheet() {
    const Evaluation scope(model_);
    const ct::NoGrad guard;
    std::vector<WrongImage> wrong;
    std::int64_t first = 0, total = 0;
    for (auto [x, y] : test_loader_) {
      const auto guesses = ct::argmax(model_.forward(x), -1).to_vector<std::int64_t>();
      const auto labels = y.template to_vector<std::int64_t>();
      for (std::size_t i = 0; i < labels.size(); ++i) {
        if (guesses[i] == labels[i]) continue;
        ++total;
        if (wrong.size() < 60) wrong.push_back({first + static_cast<std::int64_t>(i), labels[i], guesses[i]});
      }
      first += static_cast<std::int64_t>(labels.size());
    }
    return draw_misclassified(images_, wrong, total);
  }

  void write_result(const Score& test, double seconds) {
    char text[512];
    std::snprintf(text, sizeof text,
                  "{\"dataset\": \"%s\", \"test_accuracy\": %.4f, \"test_loss\": %.5f, \"seconds\": %.2f, "
                  "\"samples_per_s\": %.0f, "
                  "\"device\": \"%s\", \"params\": %lld, \"epochs\": %lld}\n",
                  images_.name.substr(0, images_.name.find(" (")).c_str(), test.accuracy, test.loss, seconds,
                  samples_per_s_, ct::to_string(device_).c_str(),
                  static_cast<long long>(model_.num_parameters()), static_cast<long long>(o_.epochs));
    ct::io::write_file(o_.json, text);
  }

  Options o_;
  Ranks ranks_;
  const ct::Device device_ = ranks_.device();
  ImageSet images_;
  const std::string data_ = fingerprint(images_);
  RunFolder folder_;
  MetricsTable metrics_{{"epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "lr",
                         "seconds", "samples_per_s"}};
  RunRecord record_;
  nn::Sequential model_;
  Loader loader_, test_loader_;
  std::unique_ptr<ct::optim::Optimizer> optimizer_;
  Progress progress_;
  StepProfile profile_{o_.profile};
  StepLimit limit_;
  std::int64_t total_steps_ = 0;
  ct::StateDict resumed_;  // the extras of the checkpoint, until the first epoch has taken its figures
  // State of the current epoch: its figures, the number of images that an earlier call has seen, its begin
  // here.
  Tally tally_{device_};
  std::int64_t earlier_ = 0;
  Clock::time_point epoch_start_;
  Score train_;
  double samples_per_s_ = 0, best_accuracy_ = 0, earlier_seconds_ = 0;
};

}  // namespace

int train(const Options& options) {
  if (options.threads > 0) ct::set_num_threads(options.threads);
  ct::gemm::replace(options.gemm, usable_device("mnist", options.device));
  return Training(options).run();
}
