#include "examples/mnist/options.h"

#include "examples/common/command_line.h"
#include "examples/common/flags.h"
#include "examples/common/run_folder.h"

namespace {

const char* const kAbout =
    "Trains a network on 28 x 28 images: MNIST, Fashion-MNIST, or digits it draws itself.";
const char* const kFooter =
    "Examples:\n"
    "  ./ct mnist                                     Fashion-MNIST, 20 epochs\n"
    "  ./ct mnist --model cnn                         convolutions, with settings of their own\n"
    "  ./ct mnist --data data/mnist --epochs 5        other images\n"
    "  ./ct mnist --resume runs/mnist-DATE-TIME       goes on where that run stopped, with its settings\n"
    "  ./ct mnist eval --run runs/mnist-DATE-TIME     how many of the test images it names right\n"
    "  ./ct mnist predict --run runs/mnist-DATE-TIME --index 7\n"
    "\n"
    "A run leaves in its folder: config.json (what it was made with), history.jsonl (each time it went on),\n"
    "metrics.csv, loss.svg, misclassified.svg, checkpoint-last.safetensors, checkpoint-best.safetensors.\n"
    "Ctrl-C saves and ends. Exit codes: 0 done, 1 an error, 2 a wrong command line, 130 interrupted.";

// What a model is trained with where no flag says otherwise.
Options defaults_of(const std::string& model, const std::string& device) {
  Options o;
  if (model != "cnn") return o;
  bool gpu = false;
  try {
    gpu = ct::parse_device(device.empty() ? "auto" : device).is_cuda();
  } catch (const ct::Error&) {}  // the parser will say so
  o.model = "cnn";
  o.epochs = gpu ? 22 : 10;  // what a GPU has done in seconds
  o.lr = 2e-3;
  o.optimizer = "adamw";
  o.weight_decay = 0.05;
  o.schedule = "warmup-cosine";
  o.dropout = 0.3;
  o.hidden = {128};
  o.augment = "flip";
  return o;
}

// The settings of a run. --threads, and where a run lives, belong to one call of the program alone.
void add_settings(CLI::App& app, flags::Settings& s, Options& o) {
  app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  s.add(&app, "model", o.model, "mlp (a perceptron) or cnn (convolutions); it chooses other defaults too")
      ->check(CLI::IsMember({"mlp", "cnn"}));
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
  s.add(&app, "augment", o.augment,
        "what happens to training images: none; shift, by up to two pixels; flip, which also mirrors half of "
        "them")
      ->check(CLI::IsMember({"none", "shift", "flip"}));
  s.add(&app, "hidden", o.hidden, "sizes of the hidden layers, separated by commas")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw)
      ->transform(flags::whole_number(1, 1 << 20));
  s.add(&app, "seed", o.seed, "of weights, order and dropout")->transform(flags::seed());
  s.add_flag(&app, "overfit-batch", o.overfit_batch,
             "train on the first batch alone: its loss must go to 0, or something is broken");
}

// What belongs to one call of the program alone.
void add_call(CLI::App& app, Options& o) {
  app.add_option("--threads", o.threads, "on the CPU, with the same result for any number; 0: all processors")
      ->transform(flags::whole_number(0, 1024));
  app.add_option("--gemm", o.gemm, "the rung of ./ct ladder gemm that does the products, such as blocks")
      ->default_str("");
  app.add_option("--resume", o.resume,
                 "a run folder, or a checkpoint in one, to go on with; other flags change its settings")
      ->check(flags::path());
  app.add_option("--out", o.out, "run folder; default: runs/mnist-DATE-TIME")->check(flags::path());
  app.add_option("--json", o.json, "write the result to this file")->check(flags::path());
}

// What eval and predict have in common.
void add_use(CLI::App& sub, UseOptions& u) {
  sub.add_option("--run", u.run, "run folder, or checkpoint in one; of a run the best one")
      ->required()
      ->check(flags::path());
  sub.add_option("--data", u.data, "folder with IDX files; default: what the run has learned from")
      ->check(flags::path());
  sub.add_option("--device", u.device, "auto, cpu, cuda or cuda:N")->check(flags::device());
  sub.add_option("--threads", u.threads, "on the CPU; 0: all processors")
      ->transform(flags::whole_number(0, 1024));
}

}  // namespace

flags::Members settings(const Options& options) { return flags::members_of(options, add_settings); }

Options read_config(const std::string& folder) {
  const std::vector<std::string> saved = config_flags("mnist", folder);
  Options o = defaults_of(flags::early(saved, "--model"), flags::early(saved, "--device"));
  CLI::App app;
  flags::Settings s;
  add_settings(app, s, o);
  flags::apply_config(app, "mnist", folder, saved);
  return o;
}

bool parse_command_line(int argc, char** argv, CommandLine& line, int& exit_code) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const bool subcommand = !args.empty() && !args[0].empty() && args[0][0] != '-';
  const std::string from = subcommand ? "" : flags::early(args, "--resume");
  Options& o = line.train;
  if (!from.empty()) {
    o = read_config(RunFolder::folder_of(RunFolder::checkpoint_in("mnist", from)));
    o.call.before = settings(o);
  } else if (!subcommand) {
    o = defaults_of(flags::early(args, "--model"), flags::early(args, "--device"));
  }
  CLI::App app{kAbout, "mnist"};
  app.formatter(std::make_shared<flags::Help>());
  app.footer(kFooter);
  app.require_subcommand(0, 1);
  flags::Settings s;
  add_settings(app, s, o);
  add_call(app, o);

  UseOptions& u = line.use;
  auto* eval = app.add_subcommand("eval", "says how many of the test images a trained network names right");
  add_use(*eval, u);
  eval->add_option("--json", u.json, "write the result to this file")->check(flags::path());
  auto* predict = app.add_subcommand("predict", "says what a trained network takes an image for");
  add_use(*predict, u);
  auto* index = predict->add_option("--index", u.index, "the test image of this number")
                    ->transform(flags::whole_number(0))
                    ->default_str("");
  auto* image =
      predict
          ->add_option("--image", u.image,
                       "a picture in a PGM file, light on dark as those of the data; one of another "
                       "size is brought to 28 x 28")
          ->check(flags::path());
  predict->add_flag("--invert", u.invert, "the picture of --image is dark on light");

  const bool good = flags::parse(app, args, exit_code, [&] {
    if (app.count("--drawn") > 0 && o.drawn && app.count("--data") > 0)
      throw CLI::ValidationError("--drawn", "it goes without --data; choose one of them");
    if (o.overfit_batch && !o.resume.empty())
      throw CLI::ValidationError("--overfit-batch", "it makes nothing that could go on; leave --resume out");
    if (predict->parsed() && (index->count() > 0) == (image->count() > 0))
      throw CLI::ValidationError("predict", "it wants one image; give it --index or --image");
  });
  if (!good) return false;
  using Command = CommandLine::Command;
  line.command = eval->parsed() ? Command::eval : predict->parsed() ? Command::predict : Command::train;
  // Other data takes the place of the run's.
  if (app.count("--data") > 0) o.drawn = false;
  if (app.count("--drawn") > 0 && o.drawn) o.data.clear();
  o.call.command = flags::quoted("mnist", args);
  o.call.given = s.given();
  if (!o.resume.empty()) {
    const flags::Members now = settings(o);
    check_kept("mnist", o.resume, o.call.before, now, {"model", "optimizer", "hidden", "batch"});
    // The layers that drop are counted among the others.
    if ((flags::value_of(o.call.before, "dropout") == "0") != (o.dropout == 0))
      check_kept("mnist", o.resume, o.call.before, now, {"dropout"});
  }
  return true;
}
