#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "examples/common/run_record.h"
#include "examples/common/step_profile.h"

/// Settings of a training. The defaults are those of a perceptron; --model cnn has others.
struct Options {
  std::string model = "mlp";
  std::string data;
  bool drawn = false;
  std::string device = "auto";
  std::int64_t epochs = 20;
  std::int64_t batch = 128;
  double lr = 1e-3;
  std::string optimizer = "adam";
  std::string schedule = "cosine";
  double weight_decay = 0;
  double momentum = 0.9;
  double dropout = 0.2;
  std::string augment = "none";
  std::vector<std::int64_t> hidden = {256, 256};
  std::uint64_t seed = 42;
  int threads = 0;   // 0: as many as there are processors
  std::string gemm;  // the rung of the ladder gemm that does the products; empty: the library
  std::string resume;
  std::string out;
  bool overfit_batch = false, eager = false;
  std::string json;
  ProfileFlags profile;
  Call call;
};

/// Settings behind "eval" or "predict".
struct UseOptions {
  std::string run, device = "auto", data, json;
  std::string image;        // predict: a file,
  std::int64_t index = -1;  // or one of the test images
  bool invert = false;
  int threads = 0;
};

/// The whole command line.
struct CommandLine {
  enum class Command { train, eval, predict } command = Command::train;
  Options train;
  UseOptions use;
};

/// Parses the command line. --resume takes the settings of the run's config.json, and other flags change
/// them. Returns false when the program should end at once with `exit_code` (--help, or an error that has
/// been printed). Throws ct::IoError for a run that can't be resumed, ct::ValueError for a flag that can't
/// change.
bool parse_command_line(int argc, char** argv, CommandLine& line, int& exit_code);

/// The settings, a member for each flag that makes the run what it is.
flags::Members settings(const Options& options);

/// The settings in a run folder's config.json. Throws ct::IoError.
Options read_config(const std::string& folder);
