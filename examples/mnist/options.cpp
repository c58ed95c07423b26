#include "examples/mnist/options.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "examples/common/flags.h"

bool parse_options(int argc, char** argv, Options& o, int& exit_code) {
  CLI::App app{
      "Trains a multi-layer perceptron on 28 x 28 images: MNIST, Fashion-MNIST, or digits it draws itself."};
  app.option_defaults()->always_capture_default();
  auto* data =
      app.add_option(
             "--data", o.data,
             "folder with IDX files (.gz or raw); without it Fashion-MNIST if installed, else drawn digits")
          ->check(flags::path());
  app.add_flag("--drawn", o.drawn, "digits drawn by the program, whatever is installed")->excludes(data);
  app.add_option("--device", o.device, "auto, cpu, cuda or cuda:N")->check(flags::device());
  app.add_option("--epochs", o.epochs, "passes over the training images")
      ->transform(flags::whole_number(1, 100000));
  app.add_option("--batch", o.batch, "images per step")->transform(flags::whole_number(1, 1 << 20));
  app.add_option("--lr", o.lr, "learning rate at its highest")->check(flags::positive());
  app.add_option("--optimizer", o.optimizer)->check(CLI::IsMember({"sgd", "adam", "adamw"}));
  app.add_option("--schedule", o.schedule, "of the learning rate")
      ->check(CLI::IsMember({"constant", "cosine", "step", "warmup-cosine"}));
  app.add_option("--weight-decay", o.weight_decay)->check(flags::not_negative());
  app.add_option("--momentum", o.momentum, "for sgd")->check(flags::between(0, 1));
  app.add_option("--dropout", o.dropout, "probability to drop a hidden unit")->check(flags::between(0, 0.95));
  app.add_option("--hidden", o.hidden, "sizes of the hidden layers, separated by commas")
      ->delimiter(',')
      ->transform(flags::whole_number(1, 1 << 20));
  app.add_option("--seed", o.seed, "of weights, order and dropout")->transform(flags::seed());
  app.add_option("--threads", o.threads, "on the CPU; 0: all processors")
      ->transform(flags::whole_number(0, 1024));
  auto* resume = app.add_option("--resume", o.resume, "a run folder, or a checkpoint in one, to go on with")
                     ->check(flags::path());
  app.add_option("--out", o.out, "run folder; default: runs/mnist-DATE-TIME")->check(flags::path());
  app.add_flag("--overfit-batch", o.overfit_batch,
               "train on the first batch alone: its loss must go to 0, or something is broken")
      ->excludes(resume);  // it makes nothing that could go on
  app.add_option("--json", o.json, "write the result to this file")->check(flags::path());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    exit_code = app.exit(e) == 0 ? 0 : 2;
    return false;
  }
  return true;
}

namespace {
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}
}  // namespace

std::string to_json(const Options& o) {
  std::ostringstream out;
  out << "{\n  \"data\": " << quoted(o.data) << ",\n  \"drawn\": " << (o.drawn ? "true" : "false")
      << ",\n  \"device\": " << quoted(o.device) << ",\n  \"epochs\": " << o.epochs
      << ",\n  \"batch\": " << o.batch << ",\n  \"lr\": " << o.lr
      << ",\n  \"optimizer\": " << quoted(o.optimizer) << ",\n  \"schedule\": " << quoted(o.schedule)
      << ",\n  \"weight_decay\": " << o.weight_decay << ",\n  \"momentum\": " << o.momentum
      << ",\n  \"dropout\": " << o.dropout << ",\n  \"hidden\": [";
  for (std::size_t i = 0; i < o.hidden.size(); ++i) out << (i ? ", " : "") << o.hidden[i];
  out << "],\n  \"seed\": " << o.seed << ",\n  \"threads\": " << o.threads
      << ",\n  \"overfit_batch\": " << (o.overfit_batch ? "true" : "false") << "\n}\n";
  return out.str();
}
