#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "examples/common/run_record.h"
#include "examples/common/step_profile.h"

/// Settings of the command line.
struct Options {
  // data
  std::string text, tokens, val_tokens, tokenizer;
  double val_fraction = 0.1;
  std::int64_t vocab = 50304;
  // model
  std::string model = "gpt2";
  std::string preset = "auto";
  std::int64_t layers = 4, heads = 4, kv_heads = 0, embd = 128, block = 128;
  double dropout = 0;
  // machine
  std::string device = "auto", dtype = "f32";
  int threads = 0, workers = 1;
  bool recompute = false, fused_loss = true;
  // training
  std::int64_t batch = 16, accumulate = 1, iters = 3000, warmup = 50;
  double lr = 2e-3, min_lr = -1, weight_decay = 0.1, beta1 = 0.9, beta2 = 0.99, clip = 1, ema = 0;
  std::string schedule = "cosine";
  std::uint64_t seed = 42;
  // what it tells
  std::int64_t eval_interval = 200, eval_batches = 20, sample = 300;
  double minutes = 0;
  std::string out, resume;
  bool eager = false;
  ProfileFlags profile;
  Call call;
};

struct GenerateOptionsLine {
  std::string checkpoint, prompt, tokenizer, device = "auto", dtype = "f32";
  std::int64_t length = 500, top_k = 0, samples = 1;
  double temperature = 0.8, top_p = 1;
  std::uint64_t seed = 1;
  int threads = 0;
  bool ema = false;
};

struct LogitsOptions {
  std::string model, tokens, out, device = "auto", dtype = "f32";
  int threads = 0;
};

struct ExportOptions {
  std::string checkpoint, out;
  bool ema = false;
};

struct TokenizeOptions {
  std::string tokenizer, text, out, decoded, format = "raw";
};

/// The whole command line.
struct CommandLine {
  enum class Command { train, generate, logits, export_model, tokenize } command = Command::train;
  Options train;
  GenerateOptionsLine generate;
  LogitsOptions logits;
  ExportOptions export_model;
  TokenizeOptions tokenize;
};

/// Parses the command line. --resume takes the settings of the run's config.json, and other flags change
/// them. Returns false when the program should end at once with `exit_code` (--help, or an error that has
/// been printed). Throws ct::IoError for a run that can't be resumed.
bool parse_command_line(int argc, char** argv, CommandLine& line, int& exit_code);

/// The settings, a member for each flag that makes the run what it is.
flags::Members settings(const Options& options);

/// The settings in a run folder's config.json. Throws ct::IoError.
Options read_config(const std::string& folder);
