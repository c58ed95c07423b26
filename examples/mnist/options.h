#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "examples/common/run_record.h"

/// What the command line says. The defaults are the settings of the README's run.
struct Options {
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
  double dropout = 0.3;
  std::vector<std::int64_t> hidden = {512, 512};
  std::uint64_t seed = 42;
  int threads = 0;  // 0: as many as there are processors
  std::string resume;
  std::string out;
  bool overfit_batch = false;
  std::string json;
  Call call;
};

/// Parses the command line. --resume takes the settings of the run's config.json, and other flags change
/// them. Returns false when the program should end at once with `exit_code` (--help, or an error that has
/// been printed). Throws ct::IoError for a run that can't be resumed, ct::ValueError for a flag that can't
/// change.
bool parse_options(int argc, char** argv, Options& options, int& exit_code);

/// The settings, a member for each flag that makes the run what it is.
flags::Members settings(const Options& options);
