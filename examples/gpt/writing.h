#pragma once

#include <cotangent/cotangent.h>
#include <cotangent/nn/models/language_model.h>

#include <string>

/// Prints the prompt and what the model writes after it, token by token. An empty prompt begins a new line or
/// a new text. Throws what the tokenizer throws for a prompt that it does not know.
void write_text(const ct::nn::models::LanguageModel& model, const ct::text::Tokenizer& tokenizer,
                const std::string& prompt, ct::nn::models::GenerateOptions options, ct::Generator& generator);
