#pragma once

#include <cotangent/cotangent.h>
#include <cotangent/nn/models/language_model.h>

#include <cstdint>
#include <string>
#include <vector>

/// The model's end tokens, without those that it can't read. `transformers` gives every GPT-2 the tokens of
/// the published one, however small its vocabulary.
std::vector<std::int64_t> readable_end_tokens(const ct::nn::models::LanguageModel& model);

/// Prints the prompt and what the model writes after it, token by token, and returns the latter. `begin`: tokens in front of the
/// prompt, which are not printed. Where both are empty it begins a new text or a new line. Throws what the
/// tokenizer throws for a prompt that it does not know.
std::string write_text(const ct::nn::models::LanguageModel& model, const ct::text::Tokenizer& tokenizer,
                       std::vector<std::int64_t> begin, const std::string& prompt,
                       ct::nn::models::GenerateOptions options, ct::Generator& generator);
