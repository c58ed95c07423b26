#include "examples/mnist/options.h"

#include "examples/common/command_line.h"
#include "examples/common/flags.h"
#include "examples/common/run_folder.h"

namespace {

const char* const kFooter =
    "Examples:\n"
    "  ./ct mnist                                     Fashion-MNIST, 20 epochs\n"
    "  ./ct mnist --data data/mnist --epochs 5        other images\n"
    "  ./ct mnist --resume runs/mnist-DATE-TIME       goes on where that run stopped, with its settings\n"
    "\n"
    "A run leaves in its folder: config.json (what it was made with), history.jsonl (each time it went on),\n"
    "metrics.csv, loss.svg, misclassified.svg, checkpoint-last.safetensors, checkpoint-best.safetensors.\n"
    "Ctrl-C saves and ends. Exit codes: 0 done, 1 an error, 2 a wrong command line, 130 interrupted.";

// The settings of a run. --threads, and where a run lives, belong to one call of the program alone.
void add_settings(CLI::App& app, flags::Settings& s, Options& o) {
  app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  s.add(&app, "data", o.data,
        "folder with IDX files (.gz or raw); without it Fashion-MNIST if installed, else drawn digits")
      ->check(flags::path());
  s.add_flag(&app, "drawn", o.drawn, "digits drawn by the program, whatever is installed");
  s.add(&app, "device", o.device, "auto, cpu, cuda or cuda:N")->check(flags::device());
  s.add(&app, "epochs", o.epochs, "passes over the training images")
      ->transform(flags::whole_number(1, 100000));
  s.add(&app, "batch", o.batch, "images per step")->transform(flags::whole_number(1, 1 << 20));
  s.add(&app, "lr", o.lr, "learning rate at its highest")->check(flags::positive());
  s.add(&app, "optimizer", o.optimizer, "sgd, adam or adamw")->check(CLI::IsMember({"sgd", "adam", "adamw"}));
  s.add(&app, "schedule", o.schedule, "of the learning rate")
      ->check(CLI::IsMember({"constant", "cosine", "step", "warmup-cosine"}));
  s.add(&app, "weight-decay", o.weight_decay, "of all weights: as a part of the gradient, with adamw apart")
      ->check(flags::not_negative());
  s.add(&app, "momentum", o.momentum, "for sgd")->check(flags::between(0, 1));
  s.add(&app, "dropout", o.dropout, "probability to drop a hidden unit")->check(flags::between(0, 0.95));
  s.add(&app, "hidden", o.hidden, "sizes of the hidden layers, separated by commas")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw)
      ->transform(flags::whole_number(1, 1 << 20));
  s.add(&app, "seed", o.seed, "of weights, order and dropout")->transform(flags::seed());
  s.add_flag(&app, "overfit-batch", o.overfit_batch,
             "train on the first batch alone: its loss must go to 0, or something is broken");
}

Options read_config(const std::string& folder) {
  Options o;
  CLI::App app;
  flags::Settings s;
  add_settings(app, s, o);
  flags::apply_config(app, "mnist", folder, config_flags("mnist", folder));
  return o;
}

}  // namespace

flags::Members settings(const Options& options) { return flags::members_of(options, add_settings); }

bool parse_options(int argc, char** argv, Options& o, int& exit_code) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const std::string from = flags::early(args, "--resume");
  if (!from.empty()) {
    o = read_config(RunFolder::folder_of(RunFolder::checkpoint_in("mnist", from)));
    o.call.before = settings(o);
  }
  CLI::App app{
      "Trains a multi-layer perceptron on 28 x 28 images: MNIST, Fashion-MNIST, or digits it draws itself.",
      "mnist"};
  app.formatter(std::make_shared<flags::Help>());
  app.footer(kFooter);
  flags::Settings s;
  add_settings(app, s, o);
  app.add_option("--threads", o.threads, "on the CPU, with the same result for any number; 0: all processors")
      ->transform(flags::whole_number(0, 1024));
  app.add_option("--resume", o.resume,
                 "a run folder, or a checkpoint in one, to go on with; other flags change its settings")
      ->check(flags::path());
  app.add_option("--out", o.out, "run folder; default: runs/mnist-DATE-TIME")->check(flags::path());
  app.add_option("--json", o.json, "write the result to this file")->check(flags::path());
  const bool good = flags::parse(app, args, exit_code, [&] {
    if (app.count("--drawn") > 0 && o.drawn && app.count("--data") > 0)
      throw CLI::ValidationError("--drawn", "it goes without --data; choose one of them");
    if (o.overfit_batch && !o.resume.empty())
      throw CLI::ValidationError("--overfit-batch", "it makes nothing that could go on; leave --resume out");
  });
  if (!good) return false;
  // Other data takes the place of the run's.
  if (app.count("--data") > 0) o.drawn = false;
  if (app.count("--drawn") > 0 && o.drawn) o.data.clear();
  o.call.command = flags::quoted("mnist", args);
  o.call.given = s.given();
  if (!o.resume.empty()) {
    const flags::Members now = settings(o);
    check_kept("mnist", o.resume, o.call.before, now, {"optimizer", "hidden", "batch"});
    // The layers that drop are counted among the others.
    if ((flags::value_of(o.call.before, "dropout") == "0") != (o.dropout == 0))
      check_kept("mnist", o.resume, o.call.before, now, {"dropout"});
  }
  return true;
}
