#pragma once

#include <cotangent/cotangent.h>
#include <cotangent/nn/models/language_model.h>

#include <memory>
#include <string>

#include "examples/gpt/options.h"

using LanguageModel = ct::nn::models::LanguageModel;

/// A new model with the sizes that the options give, on the CPU in f32. Draws from the default generator.
std::unique_ptr<LanguageModel> make_model(const Options& options, std::int64_t vocabulary);

/// A trained model in evaluation mode, with the folder it is from.
struct Trained {
  std::unique_ptr<LanguageModel> model;
  std::string folder;
  bool is_run = false;
};

/// Whether the folder is that of a run: it has a checkpoint of this program.
bool is_run(const std::string& folder);

/// From a run folder, a checkpoint in one, or the folder of a Hugging Face model. `ema`: a run's averaged
/// weights. Throws ct::IoError, or ct::ValueError if it does not fit.
Trained load_trained(const std::string& path, ct::Device device, ct::DType dtype, bool ema);

/// "f32", "bf16", "f16", with or without "pure-".
ct::DType parse_dtype(const std::string& name);
