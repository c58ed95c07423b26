#pragma once

#include <map>
#include <string>
#include <variant>

#include <cotangent/core/base/export.h>
#include <cotangent/nn/models/gpt2.h>
#include <cotangent/nn/models/llama.h>

namespace ct::nn::models {

using HuggingfaceConfig = std::variant<Gpt2Config, LlamaConfig>;

/// Reads the text of a config.json; `path` is for messages. dtype and device are left as they are. Throws
/// IoError.
CT_API HuggingfaceConfig parse_huggingface_config(const std::string& path, const std::string& text);
/// The text of config.json for parameters of `dtype`.
CT_API std::string huggingface_config_text(const HuggingfaceConfig& config, DType dtype);

/// The file of each tensor according to the text of a model.safetensors.index.json. Throws IoError, also for
/// a file that does not lie in the folder itself.
CT_API std::map<std::string, std::string> parse_huggingface_index(const std::string& path,
                                                                  const std::string& text);

}  // namespace ct::nn::models
