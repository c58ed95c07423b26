#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/models/language_model.h>

// Models as the Hugging Face `transformers` library keeps them: a folder with config.json and
// model.safetensors, or model.safetensors.index.json and the files that it names.

namespace ct::nn::models {

struct HuggingfaceLoadOptions {
  /// The parameters' dtype; left out, that of the files.
  std::optional<DType> dtype = {};
  Device device = cpu;
};

/// The model in `folder`, in evaluation mode: an Gpt2 or an Llama.
///
/// Everything is checked, and the message of an IoError names the file and the place: config.json is missing,
/// malformed, describes another kind of model or has a setting that this library does not implement; tensors
/// are missing, unknown, or of another shape than config.json says; a file is truncated. Sizes in config.json
/// that do not fit together (heads that do not divide the width) throw the ShapeError of the model.
CT_API std::unique_ptr<LanguageModel> load_huggingface(const std::string& folder,
                                                       const HuggingfaceLoadOptions& options = {});

struct HuggingfaceSaveOptions {
  /// A file holds at most so many bytes of tensors, but at least one tensor.
  std::int64_t max_file_bytes = std::int64_t{5} << 30;
};

/// Writes `model` (a Gpt2 or a Llama) so that `transformers` loads it, parameters bit for bit. The folder is
/// made if it is not there; files of the same names are replaced. The format has no Gpt2 without biases: one
/// is written with biases of 0. Throws IoError, and ValueError for a model of another kind.
CT_API void save_huggingface(const std::string& folder, const LanguageModel& model,
                             const HuggingfaceSaveOptions& options = {});

}  // namespace ct::nn::models

// Names that these had until 0.3.
namespace ct::io {
using nn::models::HuggingfaceLoadOptions;
using nn::models::HuggingfaceSaveOptions;
using nn::models::load_huggingface;
using nn::models::save_huggingface;
}  // namespace ct::io
