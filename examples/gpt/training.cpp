#include "examples/gpt/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "examples/common/command_line.h"
#include "examples/common/device.h"
#include "examples/common/evaluation.h"
#include "examples/common/interrupts.h"
#include "examples/common/metrics_table.h"
#include "examples/common/progress.h"
#include "examples/common/ranks.h"
#include "examples/common/run_folder.h"
#include "examples/gpt/corpus.h"
#include "examples/gpt/loop.h"
#include "examples/gpt/model.h"
#include "examples/gpt/samples.h"
#include "examples/gpt/schedule.h"
#include "examples/gpt/throughput.h"
#include "examples/gpt/writing.h"

using ct::Tensor;
using ct::data::TokenDataset;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The averaged weights, if there are any, as a part of a checkpoint.
struct Averages {
  std::optional<ct::optim::Ema> ema;
  ct::StateDict state_dict() const { return ema ? ema->state_dict() : ct::StateDict(); }
  void load_state_dict(const ct::StateDict& state) {
    if (ema) ema->load_state_dict(state);
  }
};

class Training : private Watch {
 public:
  explicit Training(const Options& options)
      : o_(with_absolute_paths(options)),
        ranks_("gpt", options.device),
        corpus_(load_corpus(options)),
        folder_("gpt", options.out, options.resume, ranks_.first()),
        model_((ct::manual_seed(options.seed), make_model(options, corpus_.vocabulary))),
        loader_(
            TokenDataset(corpus_.train,
                         {.block = o_.block, .seed = o_.seed, .vocab_size = corpus_.vocabulary}),
            ranks_.part(
                {.batch_size = o_.batch, .workers = device_.is_cuda() ? o_.workers : 0, .seed = o_.seed})),
        scaler_({.enabled = o_.dtype == "f16" || o_.dtype == "pure-f16"}),
        loss_sum_(ct::zeros({}, {.device = device_})) {
    CT_CHECK(o_.val_tokens.empty() || corpus_.val.size() > o_.block, ct::ValueError, "gpt", "--val-tokens ",
             options.val_tokens, " has ", corpus_.val.size(), " tokens, fewer than one block of ", o_.block,
             " and the one that follows; give more, or choose a shorter --block");
    if (corpus_.val.size() > o_.block)
      val_.emplace(
          TokenDataset(corpus_.val, {.block = o_.block, .random = false, .vocab_size = corpus_.vocabulary}));
    const bool pure = o_.dtype.starts_with("pure-");
    model_->to(device_, pure ? parse_dtype(o_.dtype) : ct::f32);
    // Matrices decay, biases and norms do not.
    optimizer_ = std::make_unique<ct::optim::AdamW>(ct::optim::decay_groups(
        *model_, ct::optim::AdamWOptions{
                     .lr = o_.lr, .beta1 = o_.beta1, .beta2 = o_.beta2, .weight_decay = o_.weight_decay}));
    gradients_.emplace(*model_);
    if (o_.ema > 0) averages_.ema.emplace(*model_, ct::optim::EmaOptions{.decay = o_.ema, .warmup = true});
    if (!ranks_.first()) o_.profile = {};
    o_.device = ranks_.device_name();  // what is used, rather than what was asked for
    record_ = {.program = "gpt", .call = o_.call, .settings = settings(o_), .data_hash = data_};
    record_.facts = {{"data", flags::json(corpus_.place)}};
    if (!o_.resume.empty()) resume();
    ranks_.train_together(*model_);
    flops_ = flops_per_token(*model_, o_.block);
    introduce();
  }

  int run() {
    if (ranks_.any(interrupted())) {
      progress_.line("interrupted before it began");
      return 130;
    }
    begin();
    mark_ = started_ = Clock::now();
    const Learner learner{*model_,
                          *optimizer_,
                          scaler_,
                          averages_.ema ? &*averages_.ema : nullptr,
                          flags::captures(device_.is_cuda(), o_.eager),
                          ranks_};
    const bool all = train_steps(learner, o_, batches_, at_, *this);
    profile_.finish();
    if (!all) return stop();
    if (evaluated_ != at_.step && !evaluate()) return stop();
    progress_.line("done: " + std::to_string(o_.iters) + " steps in " + clock_text(seconds()) +
                   (val_ && best_ < kNone ? ", best validation loss " + fixed(best_, 4) : std::string()) +
                   "; " + folder_.path() + " holds curve and checkpoints" +
                   (corpus_.tokenizer ? "; ./ct gpt generate --checkpoint " + folder_.path() + " writes text"
                                      : std::string()));
    return 0;
  }

 private:
  void begin() {
    folder_.begin(record_, [&] {
      if (corpus_.tokenizer && !(folder_.goes_on() && folder_.holds("tokenizer.json")))
        corpus_.tokenizer->save(folder_ / "tokenizer.json");
    });
    if (o_.resume.empty() || !folder_.writes()) return;
    if (!folder_.holds(RunFolder::kBest)) best_ = kNone;  // the next one is the best there is
    metrics_.load(folder_ / "metrics.csv");
    samples_.load(folder_ / "samples.txt");
    earlier_seconds_ = folder_.load_seconds();
  }

  void introduce() const {
    std::printf("%s", introduction(o_, corpus_, *model_, val_.has_value(), ranks_.text()).c_str());
    std::printf("run      %s\n\n", folder_.path().c_str());
    std::fflush(stdout);
  }

  Tensor loss_of(const Tensor& x, const Tensor& y) const { return ::loss_of(*model_, o_, x, y); }

  // The time that the run took, its earlier parts too.
  double seconds() const { return earlier_seconds_ + seconds_since(started_); }
  bool time_is_up() const { return o_.minutes > 0 && seconds_since(began_) >= 60 * o_.minutes; }

  bool before_step() override {
    if (at_.step % o_.eval_interval == 0 && evaluated_ != at_.step && !evaluate()) return false;
    profile_.step(), limit_.step();
    return true;
  }
  bool after_batch(const Tensor& loss, const Tensor& x, const Tensor& y) override {
    // On a GPU the host runs ahead; looking at every loss would make it wait.
    if (device_.is_cpu() || at_.step % 16 == 0)
      if (!std::isfinite(loss.item())) report(loss_of_step(), x, y);
    {
      const ct::NoGrad guard;
      loss_sum_.add_(loss.detach().to(ct::f32));
    }
    ++losses_;
    // Several ranks end behind a whole step, whose gradients they have in common.
    if ((ranks_.size() == 1 || at_.micro == o_.accumulate) && ranks_.any(interrupted() || time_is_up()))
      return false;
    show();
    return true;
  }
  void after_step(const Tensor& norm) override { norm_ = norm; }

  // The loss is no number: which op made the first bad value, and what to do.
  [[noreturn]] void report(const std::string& what, const std::string& why) const {
    const bool saved = folder_.holds(RunFolder::kLast) || folder_.holds(RunFolder::kBest);
    ct::detail::fail<ct::ValueError>("gpt", what, " is not a number; ", why, "; try a lower --lr",
                                     o_.dtype == "f32" ? "" : ", or --dtype f32",
                                     saved ? "; the checkpoints in " + folder_.path() + " are from before"
                                           : "; there is no checkpoint yet");
  }
  [[noreturn]] void report(const std::string& what, const Tensor& x, const Tensor& y) const {
    report(what, ranks_.size() > 1 ? Ranks::kOneTells : first_bad_op([&] { return loss_of(x, y); }));
  }
  std::string loss_of_step() const { return "the loss of step " + std::to_string(at_.step); }
  bool is_finite(const Tensor& x, const Tensor& y) const {
    const ct::NoGrad guard;
    return std::isfinite(loss_of(x, y).item());
  }

  // No checkpoint of broken weights replaces a good one. The losses of the steps tell of all updates but the
  // last, for which there must be a loss of now: `val`, or that of a window.
  void check_finite(std::optional<double> val) {
    const Evaluation scope(*model_);
    if (val && !std::isfinite(*val)) {
      const std::string what = "the validation loss after step " + std::to_string(at_.step);
      auto windows = validation_windows();
      for (const auto& [x, y] : windows)
        if (!is_finite(x, y)) report(what, x, y);
      report(what, "its losses are finite, their sum (add_) is not");
    }
    const bool steps = losses_ == 0 || std::isfinite(loss_sum_.item());
    if (steps && val) return;
    const auto window = loader_.dataset().get_batch(std::vector<std::int64_t>{0});
    const Tensor x = std::get<0>(window).to(device_), y = std::get<1>(window).to(device_);
    if (!steps || !is_finite(x, y)) report(loss_of_step(), x, y);
  }

  // The mean of all ranks' losses.
  void share_losses() {
    loss_sum_.copy_(ct::dist::all_reduce(loss_sum_, ranks_.group(), ct::dist::ReduceOp::mean));
  }

  int stop() {
    share_losses();
    check_finite(std::nullopt);
    // A step may have been broken off between two batches: their gradients are kept with the rest.
    save(RunFolder::kLast);
    std::string where = "step " + std::to_string(at_.step) + " of " + std::to_string(o_.iters);
    if (at_.micro > 0)
      where += ", after " + std::to_string(at_.micro) + " of the next one's " +
               std::to_string(o_.accumulate) + (o_.accumulate == 1 ? " batch" : " batches");
    progress_.line(std::string(interrupted() ? "interrupted" : "time is up") + " at " + where +
                   ": saved; go on with --resume " + folder_.path());
    return interrupted() ? 130 : 0;
  }

  void show() {
    if (!progress_.due()) return;
    const std::int64_t batches = loader_.position() - mark_batches_;
    if (batches <= 0) return;
    const double loss = loss_sum_.item() / static_cast<double>(losses_);  // waits for a GPU: before the clock
    const double now_seconds = seconds_since(mark_);
    rate_ = static_cast<double>(batches * o_.batch * o_.block) / now_seconds;
    const std::int64_t left = (o_.iters - at_.step) * o_.accumulate - at_.micro;
    std::string text = "loss " + fixed(loss, 4) + "  lr " + short_number(learning_rate(o_, at_.step));
    if (norm_.defined()) text += "  norm " + fixed(norm_.item(), 2);
    text += "  " + short_count(rate_) + " tok/s";
    if (const double peak = ranks_.size() * peak_flops(device_, o_.dtype); peak > 0)
      text += "  MFU " + fixed(100 * rate_ * flops_ / peak, 1) + "%";
    text += limit_.text(now_seconds * static_cast<double>(o_.accumulate) / static_cast<double>(batches));
    text += "  " + bytes_text(ct::memory_stats(device_).peak_in_use) + "  ETA " +
            clock_text(static_cast<double>(left * o_.batch * o_.block) / rate_);
    progress_.update("step " + std::to_string(at_.step) + "/" + std::to_string(o_.iters),
                     static_cast<double>(at_.step), static_cast<double>(o_.iters), text);
  }
  // Loss on the validation text, a line of metrics, a sample, checkpoints. False if interrupted.
  bool evaluate() {
    const double trained = seconds_since(mark_);
    const std::int64_t batches = loader_.position() - mark_batches_;
    if (batches > 0 && trained > 0) rate_ = static_cast<double>(batches * o_.batch * o_.block) / trained;
    share_losses();
    const double train_loss = losses_ > 0 ? loss_sum_.item() / static_cast<double>(losses_) : NAN;
    const double norm = norm_.defined() ? norm_.item() : NAN;
    const double lr = learning_rate(o_, std::max<std::int64_t>(0, at_.step - 1));
    std::optional<double> val;
    std::string sample;
    {
      const Evaluation scope(*model_);
      std::optional<ct::optim::EmaScope> averaged;  // what is evaluated, and writes the sample
      if (averages_.ema) averaged.emplace(*averages_.ema);
      val = validation_loss();
      if (ranks_.any(interrupted())) return false;
      check_finite(val);
      progress_.line("step " + std::to_string(at_.step) +
                     (losses_ > 0 ? "  loss " + fixed(train_loss, 4) : std::string()) +
                     (val ? "  validation loss " + fixed(*val, 4) : std::string()) +
                     (at_.step == 0 ? "  (a guess would be ln " + std::to_string(corpus_.vocabulary) + " = " +
                                          fixed(std::log(static_cast<double>(corpus_.vocabulary)), 2) + ")"
                                    : std::string()) +
                     "  lr " + short_number(lr) +
                     (at_.step > 0 ? "  " + short_count(rate_) + " tok/s" : std::string()));
      if (at_.step > 0) sample = write_sample();
    }
    if (ranks_.any(interrupted())) return false;  // the sample may be cut short: all of it is done again
    metrics_.add({static_cast<double>(at_.step), train_loss, val.value_or(NAN), lr, norm, rate_, seconds()});
    folder_.write("metrics.csv", metrics_.csv());
    folder_.write("loss.svg", svg::chart("Loss by step", "step", "cross-entropy",
                                         {metrics_.curve("train_loss", "training loss", "#1f6fb4"),
                                          metrics_.curve("val_loss", "validation loss", "#d9541e")}));
    if (!sample.empty()) {
      samples_.add(at_.step, sample);
      folder_.write("samples.txt", samples_.text());
    }
    evaluated_ = at_.step;
    losses_ = 0;
    loss_sum_.fill_(0);
    if (at_.step > 0) {
      const bool better = val && *val < best_;
      if (better) best_ = *val;
      // The best one first: the last one says what the best loss was, so it must not be there without it.
      if (better || !val) save(RunFolder::kBest);
      save(RunFolder::kLast);
    }
    mark_ = Clock::now();
    mark_batches_ = loader_.position();
    return true;
  }

  ct::data::DataLoader<ct::data::Subset<TokenDataset>> validation_windows() const {
    const std::int64_t batches =
        std::min(o_.eval_batches, val_->size() / o_.batch + 1);  // no product overflows
    return ct::data::DataLoader(spread(*val_, batches * o_.batch),
                                {.batch_size = o_.batch, .prefetch = device_});
  }

  std::optional<double> validation_loss() const {
    if (!val_) return std::nullopt;
    const ct::NoGrad guard;
    auto windows = validation_windows();
    Tensor sum = ct::zeros({}, {.device = device_});
    std::int64_t count = 0;
    for (std::int64_t i = 0; const auto& [x, y] : windows) {
      if (interrupted() && ranks_.size() == 1) return std::nullopt;
      count += x.size(0);
      if (i++ % ranks_.size() != ranks_.group().rank()) continue;  // another rank's
      sum.add_(loss_of(x, y).to(ct::f32) * static_cast<double>(x.size(0)));
    }
    return ct::dist::all_reduce(sum, ranks_.group()).item() / static_cast<double>(count);
  }

  std::string write_sample() const {
    if (o_.sample == 0 || !corpus_.tokenizer || !ranks_.first()) return {};
    // Draws of its own: a sample changes nothing in the training.
    ct::Generator draws(o_.seed + static_cast<std::uint64_t>(at_.step));
    std::printf("---\n");
    const std::string text = write_text(*model_, *corpus_.tokenizer, {}, "",
                                        {.max_new_tokens = o_.sample, .temperature = 0.8}, draws);
    std::printf("\n---\n");
    std::fflush(stdout);
    return text;
  }

  // Everything a resumed run needs to go on as if it had never stopped.
  void save(const std::string& name) {
    if (!folder_.writes()) return;
    ct::StateDict extras;
    extras.set_value("vocabulary", corpus_.vocabulary);
    extras.set_value("step", at_.step);
    extras.set_value("micro", at_.micro);
    extras.set_value("accumulate", o_.accumulate);
    extras.set_value("data", data_);
    extras.set_value("evaluated", evaluated_);
    extras.set_value("losses", losses_);
    extras.set("loss_sum", loss_sum_);
    extras.set_value("best", best_);
    if (norm_.defined()) extras.set("norm", norm_);
    ct::io::save_checkpoint(folder_ / name,
                            {{"model", *model_},
                             {"optimizer", *optimizer_},
                             {"loader", loader_},
                             {"gradients", *gradients_},
                             {"scaler", scaler_},
                             {"ema", averages_}},
                            extras);
    folder_.save_seconds(seconds());
  }

  void resume() {
    const std::string path = RunFolder::checkpoint_in("gpt", o_.resume);
    check_tokenizer(corpus_, RunFolder::folder_of(path) + "/tokenizer.json");
    const ct::StateDict extras = ct::io::load_checkpoint(path, {{"model", *model_},
                                                                {"optimizer", *optimizer_},
                                                                {"loader", loader_},
                                                                {"gradients", *gradients_},
                                                                {"scaler", scaler_},
                                                                {"ema", averages_}});
    at_.step = extras.value<std::int64_t>("step");
    at_.micro = extras.value<std::int64_t>("micro");
    // Checkpoints of earlier versions do not tell all of it.
    const bool tells = extras.contains_value("data");
    const std::int64_t accumulate = tells ? extras.value<std::int64_t>("accumulate") : o_.accumulate;
    // All batches of a step may be done, and its update not.
    CT_CHECK(at_.step >= 0 && at_.micro >= 0 && at_.micro <= accumulate, ct::IoError, "gpt", path,
             " has made ", at_.step, " steps and ", at_.micro, " of ", accumulate,
             " batches, which no run does; it is damaged, or was made with a larger --accumulate");
    CT_CHECK(at_.step <= o_.iters, ct::ValueError, "gpt", path, " has made ", at_.step,
             " steps, more than --iters ", o_.iters, "; choose more to go on");
    CT_CHECK(at_.micro == 0 || accumulate == o_.accumulate, ct::ValueError, "gpt", path, " has ", at_.micro,
             " of the ", accumulate, " batches of a step, which can't become one of ", o_.accumulate,
             "; go on with --accumulate ", accumulate, ", or from a checkpoint between two steps");
    if (tells && extras.value<std::string>("data") != data_)
      std::printf("note     not what this run has learned from, or another part of it: %s\n",
                  corpus_.name.c_str());
    evaluated_ = extras.value<std::int64_t>("evaluated");
    losses_ = extras.value<std::int64_t>("losses");
    loss_sum_.copy_(extras.at("loss_sum"));
    // An older checkpoint does not know of the best one that has been written since.
    best_ = folder_.best("best").value_or(extras.value<double>("best"));
    if (const Tensor* norm = extras.find("norm")) norm_ = norm->to(device_);
    mark_batches_ = loader_.position();
    record_.at = "step " + std::to_string(at_.step);
    std::printf("resumed  %s, %s\n", path.c_str(), record_.at.c_str());
    for (const std::string& change : record_.changes()) std::printf("changed  %s\n", change.c_str());
  }

  const Clock::time_point began_ = Clock::now();
  Options o_;
  Ranks ranks_;
  const ct::Device device_ = ranks_.device();
  Corpus corpus_;
  const std::string data_ = fingerprint(corpus_);
  RunFolder folder_;
  MetricsTable metrics_{{"step", "train_loss", "val_loss", "lr", "grad_norm", "tokens_per_s", "seconds"}};
  Samples samples_;
  RunRecord record_;
  std::unique_ptr<LanguageModel> model_;
  Loader loader_;
  std::optional<TokenDataset> val_;
  std::unique_ptr<ct::optim::AdamW> optimizer_;
  ct::optim::GradScaler scaler_;
  Averages averages_;
  Place at_;
  std::optional<ct::optim::GradientState> gradients_;
  Batches batches_{loader_};
  Progress progress_;
  StepProfile profile_{o_.profile};
  StepLimit limit_;
  Tensor loss_sum_, norm_;  // on the device: adding to them waits for nothing
  std::int64_t losses_ = 0, evaluated_ = -1;
  static constexpr double kNone = 1e30;
  double best_ = kNone, rate_ = 0, flops_ = 0, earlier_seconds_ = 0;
  Clock::time_point started_, mark_;
  std::int64_t mark_batches_ = 0;
};

}  // namespace

int train(const Options& options) {
  if (options.threads > 0) ct::set_num_threads(options.threads);
  return Training(options).run();
}
