#include "examples/gpt/writing.h"

#include <cstdio>

#include "examples/common/interrupts.h"

namespace {

// Number of bytes at the end that begin a character whose rest has not come yet.
std::size_t unfinished(const std::string& bytes) {
  for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

bool can_read(const ct::nn::models::LanguageModel& model, std::int64_t token) {
  return 0 <= token && token < model.sizes().vocabulary;
}

// First tokens of a new text.
std::vector<std::int64_t> new_text(const ct::nn::models::LanguageModel& model,
                                   const ct::text::Tokenizer& tokenizer) {
  if (const auto begin = model.begin_token(); begin && can_read(model, *begin)) return {*begin};
  if (const auto ends = readable_end_tokens(model); !ends.empty()) return {ends[0]};
  try {
    return tokenizer.encode("\n");
  } catch (const ct::ValueError&) { return {0}; }
}

}  // namespace

std::vector<std::int64_t> readable_end_tokens(const ct::nn::models::LanguageModel& model) {
  std::vector<std::int64_t> tokens = model.end_tokens();
  std::erase_if(tokens, [&](std::int64_t token) { return !can_read(model, token); });
  return tokens;
}

std::string write_text(const ct::nn::models::LanguageModel& model, const ct::text::Tokenizer& tokenizer,
                       std::vector<std::int64_t> begin, const std::string& prompt,
                       ct::nn::models::GenerateOptions options, ct::Generator& generator) {
  std::vector<std::int64_t> ids = std::move(begin);
  const auto opening = std::ssize(ids);
  const std::vector<std::int64_t> said = tokenizer.encode(prompt);
  ids.insert(ids.end(), said.begin(), said.end());
  if (ids.empty()) ids = new_text(model, tokenizer);
  const std::int64_t vocabulary = model.sizes().vocabulary;
  for (const std::int64_t id : ids)
    CT_CHECK(id < vocabulary, ct::IndexError, "gpt", "the tokenizer gives the token ", id,
             ", the model knows ", vocabulary, "; it is not this model's tokenizer");
  const auto longest = static_cast<std::ptrdiff_t>(model.sizes().max_length);
  std::fwrite(prompt.data(), 1, prompt.size(), stdout);
  std::fflush(stdout);
  if (const auto over = std::ssize(ids) - longest; over > 0) {
    // The opening of a text stays, unless it would fill the whole window.
    const auto first = ids.begin() + (opening < longest ? opening : 0);
    ids.erase(first, first + over);
  }
  std::string waiting, written;
  const auto write = [&](std::size_t bytes) {
    std::fwrite(waiting.data(), 1, bytes, stdout);
    std::fflush(stdout);
    written.append(waiting, 0, bytes);
    waiting.erase(0, bytes);
  };
  options.on_token = [&](const ct::Tensor& next) {
    const std::int64_t id = next.to_vector<std::int64_t>()[0];
    if (id < tokenizer.vocab_size()) waiting += tokenizer.token_bytes(id);
    write(waiting.size() - unfinished(waiting));
    return !interrupted();
  };
  const ct::Device device = model.head()->device();
  const auto count = static_cast<std::int64_t>(ids.size());
  model.generate(ct::from_vector(ids, {1, count}).to(device), options, generator);
  write(waiting.size());
  return written;
}
