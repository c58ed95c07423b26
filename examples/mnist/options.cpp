#include "examples/mnist/options.h"

#include <cotangent/core/base/error.h>
#include <cotangent/core/device/device.h>

#include "examples/common/command_line.h"
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

// Default options of a model.
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
void add_settings(flags::Flags run, Options& o) {
  run.one_of("--model", o.model, "mlp (a perceptron) or cnn (convolutions); it chooses other defaults too",
             {"mlp", "cnn"});
  run.path("--data", o.data,
           "folder with IDX files (.gz or raw); without it Fashion-MNIST if installed, else drawn digits");
  run.on("--drawn", o.drawn, "digits drawn by the program, whatever is installed");
  run.device(o.device);
  run.whole("--epochs", o.epochs, "passes over the training images", 1, 100000);
  run.whole("--batch", o.batch, "images per step", 1, 1 << 20);
  run.positive("--lr", o.lr, "learning rate at its highest");
  run.one_of("--optimizer", o.optimizer, "sgd, adam or adamw", {"sgd", "adam", "adamw"});
  run.one_of("--schedule", o.schedule, "of the learning rate",
             {"constant", "cosine", "step", "warmup-cosine"});
  run.not_negative("--weight-decay", o.weight_decay,
                   "of all weights: as a part of the gradient, with adamw apart");
  run.between("--momentum", o.momentum, "for sgd", 0, 1);
  run.between("--dropout", o.dropout, "probability to drop a hidden unit", 0, 0.95);
  run.one_of(
      "--augment", o.augment,
      "what happens to training images: none; shift, by up to two pixels; flip, which also mirrors half of "
      "them",
      {"none", "shift", "flip"});
  run.list("--hidden", o.hidden, "sizes of the hidden layers, separated by commas", 1, 1 << 20);
  run.seed("--seed", o.seed, "of weights, order and dropout");
  run.on("--overfit-batch", o.overfit_batch,
         "train on the first batch alone: its loss must go to 0, or something is broken");
}

// Flags of one call, which a resumed run does not keep.
void add_call(flags::Flags call, Options& o) {
  call.threads(o.threads, "on the CPU, with the same result for any number; 0: all processors");
  call.text("--gemm", o.gemm, "the rung of ./ct ladder gemm that does the products, such as blocks")
      .hide_default();
  call.on("--eager", o.eager, flags::kEagerHelp);
  call.path("--resume", o.resume,
            "a run folder, or a checkpoint in one, to go on with; other flags change its settings");
  call.path("--out", o.out, "run folder; default: runs/mnist-DATE-TIME");
  call.path("--json", o.json, "write the result to this file");
  o.profile.add(call);
}

// Shared flags of eval and predict.
void add_use(flags::Flags command, UseOptions& u) {
  command.path("--run", u.run, "run folder, or checkpoint in one; of a run the best one").required();
  command.path("--data", u.data, "folder with IDX files; default: what the run has learned from");
  command.device(u.device);
  command.threads(u.threads, "on the CPU; 0: all processors");
}

}  // namespace

flags::Members settings(const Options& options) { return flags::members_of(options, add_settings); }

Options read_config(const std::string& folder) {
  const std::vector<std::string> saved = config_flags("mnist", folder);
  Options o = defaults_of(flags::early(saved, "--model"), flags::early(saved, "--device"));
  flags::Program program("mnist", kAbout);
  add_settings(program.flags(), o);
  program.apply_config(folder, saved);
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
  flags::Program program("mnist", kAbout, kFooter);
  flags::Settings run;
  add_settings(program.flags(&run), o);
  const flags::Flags call = program.flags();
  add_call(call, o);

  UseOptions& u = line.use;
  const auto eval = call.command("eval", "says how many of the test images a trained network names right");
  add_use(eval, u);
  eval.path("--json", u.json, "write the result to this file");
  const auto predict = call.command("predict", "says what a trained network takes an image for");
  add_use(predict, u);
  predict.whole("--index", u.index, "the test image of this number", 0).hide_default();
  predict.path("--image", u.image,
               "a picture in a PGM file, light on dark as those of the data; one of another "
               "size is brought to 28 x 28");
  predict.on("--invert", u.invert, "the picture of --image is dark on light");

  const bool good = program.parse(args, exit_code, [&] {
    if (call.given("--drawn") && o.drawn && call.given("--data"))
      flags::refuse("--drawn", "it goes without --data; choose one of them");
    if (o.overfit_batch && !o.resume.empty())
      flags::refuse("--overfit-batch", "it makes nothing that could go on; leave --resume out");
    if (predict.parsed() && predict.given("--index") == predict.given("--image"))
      flags::refuse("predict", "it wants one image; give it --index or --image");
  });
  if (!good) return false;
  using Command = CommandLine::Command;
  line.command = eval.parsed() ? Command::eval : predict.parsed() ? Command::predict : Command::train;
  // Other data takes the place of the run's.
  if (call.given("--data")) o.drawn = false;
  if (call.given("--drawn") && o.drawn) o.data.clear();
  o.call.command = flags::quoted("mnist", args);
  o.call.given = run.given();
  if (!o.resume.empty()) {
    const flags::Members now = settings(o);
    check_kept("mnist", o.resume, o.call.before, now, {"model", "optimizer", "hidden", "batch"});
    // The layers that drop are counted among the others.
    if ((flags::value_of(o.call.before, "dropout") == "0") != (o.dropout == 0))
      check_kept("mnist", o.resume, o.call.before, now, {"dropout"});
  }
  return true;
}
