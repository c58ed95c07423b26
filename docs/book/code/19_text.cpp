#include <cotangent/cotangent.h>
#include <cotangent/nn/models/gpt2.h>
#include <cotangent/nn/profile/profile.h>
#include <cotangent/nn/text/bpe.h>

#include <book.h>
#include <bpe.h>
#include <examples/common/svg.h>

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

// Chapter 19: text as bytes and tokens, a loss that can be compared, and text out of a model.

namespace {

using book::Pair;
using book::Tokens;
using ct::Tensor;
namespace models = ct::nn::models;

// --- a language of which all is known ---

const char* const kAdjectives[] = {"slithy",  "mimsy",  "frumious", "vorpal",
                                   "manxome", "uffish", "tulgey",   "frabjous"};
const char* const kNouns[] = {"tove",   "borogove",     "rath",  "jabberwock",
                              "jubjub", "bandersnatch", "sword", "foe"};
const char* const kVerbs[] = {"sought", "shunned", "slew", "saw"};
constexpr double kBitsOfSentence = 3 + 3 + 2 + 3 + 3;  // each word is drawn from 8, 8, 4, 8 and 8

/// Sentences of that language.
std::string speak(int sentences, unsigned seed) {
  std::mt19937 draw(seed);
  std::string text;
  for (int i = 0; i < sentences; ++i) {
    text +=
        std::string(" the ") + kAdjectives[draw() % 8] + ' ' + kNouns[draw() % 8] + ' ' + kVerbs[draw() % 4];
    text += std::string(" the ") + kAdjectives[draw() % 8] + ' ' + kNouns[draw() % 8] + " and";
  }
  return text;
}

/// The bytes of a token, with _ for a space.
std::string spelled(int id, const std::vector<Pair>& merges) {
  if (id < 256) return std::string(1, id == ' ' ? '_' : static_cast<char>(id));
  const Pair& pair = merges[static_cast<std::size_t>(id) - 256];
  return spelled(pair.first, merges) + spelled(pair.second, merges);
}

void pairs(const std::string& text) {
  book::section("pairs");
  const std::vector<Pair> merges = book::learn(text, 200);
  for (const std::size_t n : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 40u, 80u})
    std::printf("token %3zu = %-9s + %s\n", 256 + n, spelled(merges[n].first, merges).c_str(),
                spelled(merges[n].second, merges).c_str());
  std::printf("after %zu merges each word is a token, and nothing is left to merge\n", merges.size());
  const std::vector<Pair> some(merges.begin(), merges.begin() + 30);
  for (const char* const words : {" the slithy tove", " the unfrumious toves"}) {
    std::string cut;
    for (const int id : book::encode(words, some)) cut += (cut.empty() ? "" : "|") + spelled(id, some);
    std::printf("with 30:%s = %s\n", words, cut.c_str());
  }
}

/// The library's tokenizer of these merges, by GPT-2's two files.
void held_to_the_library(const std::string& text) {
  const std::vector<Pair> merges = book::learn(text, 60);
  const auto written = [&](int id) {  // a space as GPT-2's files write it
    std::string out;
    for (const char c : spelled(id, merges)) out += c == '_' ? "\u0120" : std::string(1, c);
    return out;
  };
  std::map<std::string, int> ids;
  for (int id = 'a'; id <= 'z'; ++id) ids[written(id)] = id;
  ids[written(' ')] = ' ';
  std::string list = "#version: 0.2\n";
  for (std::size_t m = 0; m < merges.size(); ++m) {
    list += written(merges[m].first) + " " + written(merges[m].second) + "\n";
    ids[written(256 + static_cast<int>(m))] = 256 + static_cast<int>(m);
  }
  std::string json;
  for (const auto& [token, id] : ids)
    json += (json.empty() ? "{\"" : ", \"") + token + "\": " + std::to_string(id);
  const auto library = ct::text::BpeTokenizer::from_vocab_and_merges(json + "}", list);
  const Tokens own = book::encode(text, merges);
  book::claim(library.encode(text) == std::vector<std::int64_t>(own.begin(), own.end()),
              "the library has the same tokens");
}

// --- bits per byte ---

/// Bits that a model of pairs of tokens needs for `text`: it has counted which token follows which in `seen`, and adds a
/// tenth to each count. Of `contexts` tokens before the next it looks at 0 or 1.
double bits(const Tokens& seen, const Tokens& text, std::size_t vocabulary, bool context) {
  std::map<Pair, double> count;
  std::map<int, double> all;
  for (std::size_t i = 1; i < seen.size(); ++i) {
    const int before = context ? seen[i - 1] : 0;
    ++count[{before, seen[i]}], ++all[before];
  }
  double sum = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    const int before = context ? text[i - 1] : 0;
    sum -=
        std::log2((count[{before, text[i]}] + 0.1) / (all[before] + 0.1 * static_cast<double>(vocabulary)));
  }
  return sum;
}

void bits_per_byte(const std::string& seen, const std::string& text) {
  book::section("bits per byte");
  const std::vector<Pair> merges = book::learn(seen, 200);
  const auto bytes = static_cast<double>(text.size());
  std::printf("merges   tokens   bytes a token   bits a token   bits a byte\n");
  svg::Curve by_token{"bits a token", "#c33", {}, {}}, by_byte{"bits a byte", "#36a", {}, {}};
  for (const std::size_t n : {0u, 10u, 20u, 40u, 60u, 80u, 103u}) {
    const std::vector<Pair> some(merges.begin(),
                                 merges.begin() + static_cast<std::ptrdiff_t>(std::min(n, merges.size())));
    const Tokens before = book::encode(seen, some), after = book::encode(text, some);
    const auto tokens = static_cast<double>(after.size());
    const double needed = bits(before, after, 256 + some.size(), true);
    by_token.x.push_back(static_cast<double>(n)), by_token.y.push_back(needed / tokens);
    by_byte.x.push_back(static_cast<double>(n)), by_byte.y.push_back(needed / bytes);
    std::printf("%6zu %8zu %15.2f %14.2f %13.2f\n", n, after.size(), bytes / tokens, needed / tokens,
                needed / bytes);
  }
  std::printf("bytes, and no look at the one before: %.2f bits a byte\n",
              bits(book::encode(seen, {}), book::encode(text, {}), 256, false) / bytes);
  std::printf("the language itself: %.0f bits a sentence, %.2f a byte\n", kBitsOfSentence,
              kBitsOfSentence * 200 / bytes);
  book::figure("19-bits",
               svg::chart("A model that looks at one token", "merges", "bits", {by_token, by_byte}));
}

// --- a transformer ---

Tensor tensor_of(const Tokens& tokens) {
  return ct::from_vector(std::vector<std::int64_t>(tokens.begin(), tokens.end()));
}

/// Mean loss on windows of `text`, each predicted from at most 63 bytes before.
Tensor loss_of(const models::Gpt2& model, const Tensor& text, std::mt19937& draw) {
  std::vector<Tensor> windows;
  for (int i = 0; i < 8; ++i)
    windows.push_back(
        text.narrow(0, static_cast<std::int64_t>(draw() % static_cast<unsigned>(text.numel() - 65)), 65));
  const Tensor batch = ct::stack(windows, 0);
  return model.loss(batch.narrow(1, 0, 64), batch.narrow(1, 1, 64));  // the target is the token after each
}

models::Gpt2 train(const std::string& seen, const std::string& text) {
  book::section("trained");
  ct::manual_seed(1);
  models::Gpt2 model({.vocab_size = 128,
                      .n_positions = 128,
                      .n_embd = 48,
                      .n_layer = 2,
                      .n_head = 4,
                      .embd_pdrop = 0,
                      .attn_pdrop = 0,
                      .resid_pdrop = 0});
  ct::optim::AdamW adam(model.parameters(), {.lr = 0.002});
  const Tensor learned = tensor_of(book::encode(seen, {})), other = tensor_of(book::encode(text, {}));
  std::mt19937 draw(1);
  const auto bits_a_byte = [&] {
    const ct::NoGrad guard;
    std::mt19937 same(2);
    double sum = 0;
    for (int i = 0; i < 8; ++i) sum += loss_of(model, other, same).item() / 8;
    return sum / std::log(2.0);
  };
  const double before = bits_a_byte();
  for (int i = 0; i < 400; ++i) {
    adam.zero_grad();
    loss_of(model, learned, draw).backward();
    adam.step();
  }
  const double after = bits_a_byte();
  std::printf("a transformer of 2 layers, on bytes: %.1f bits a byte before, less than 0.6 after 400 steps\n",
              before);
  std::printf("log2 128 = 7.0\n");
  book::claim(after < 0.6, "it has learned (" + std::to_string(after) + ")");
  return model;
}

// --- choosing the next ---

void sampling() {
  book::section("sampling");
  const std::vector<double> logits{4, 3, 2.5, 1, 0, -1};
  struct Way {
    const char* name;
    ct::SampleOptions options;
  };
  std::printf("logits         ");
  for (const double x : logits) std::printf("%7.1f", x);
  std::printf("\n");
  for (const Way& way : {Way{"temperature 1", {}}, Way{"temperature 0.5", {.temperature = 0.5}},
                         Way{"temperature 2", {.temperature = 2}}, Way{"top_k 3", {.top_k = 3}},
                         Way{"top_p 0.8", {.top_p = 0.8}}}) {
    const std::int64_t draws = 100000;
    const Tensor rows = ct::from_vector(logits).unsqueeze(0).expand({draws, 6});
    ct::manual_seed(3);
    std::vector<double> share(6);
    for (const std::int64_t id : ct::sample_logits(rows, way.options).to_vector<std::int64_t>())
      share[static_cast<std::size_t>(id)] += 1.0 / static_cast<double>(draws);
    std::printf("%-15s", way.name);
    for (const double s : share) std::printf("%7.2f", s);
    std::printf("\n");
  }
}

// --- one token at a time ---

void cache(const models::Gpt2& model) {
  book::section("cache");
  const ct::NoGrad guard;
  const Tensor prompt = tensor_of(book::encode(" the ", {})).unsqueeze(0);
  std::printf("tokens written   million operations: without a cache   with one\n");
  std::vector<std::int64_t> plain, cached;
  for (const std::int64_t n : {10, 40, 100}) {
    Tensor text = prompt;
    const auto flops = [](const ct::Profile& p) {
      double sum = 0;
      for (const auto& call : p.calls)
        if (call.parent < 0) sum += call.flops;
      return sum / 1e6;
    };
    const ct::Profile all = ct::profile([&] {
      for (std::int64_t i = 0; i < n; ++i) {
        const Tensor logits = model.forward(text);  // of all positions, of which one is used
        const Tensor next = ct::sample_logits(logits.narrow(1, text.size(1) - 1, 1), {.temperature = 0});
        text = ct::cat({text, next}, 1);
      }
    });
    const ct::Profile one = ct::profile([&] {
      cached = model.generate(prompt, {.max_new_tokens = n, .temperature = 0}).to_vector<std::int64_t>();
    });
    plain = text.to_vector<std::int64_t>();
    book::claim(plain == cached, "the text is the same");
    std::printf("%14lld %37.0f %10.0f\n", static_cast<long long>(n), flops(all), flops(one));
  }
  std::printf("the text is the same\n");
}

void written(const models::Gpt2& model) {
  book::section("written");
  const Tensor prompt = tensor_of(book::encode(" the ", {})).unsqueeze(0);
  for (const double temperature : {0.0, 1.0, 3.0}) {
    ct::manual_seed(4);
    const Tensor text = model.generate(prompt, {.max_new_tokens = 70, .temperature = temperature});
    std::string out;
    for (const std::int64_t id : text.to_vector<std::int64_t>())
      out += id >= ' ' && id < 127 && id != '<' && id != '`' ? static_cast<char>(id) : '?';
    std::printf("temperature %.0f:%s\n", temperature, out.c_str());
  }
}

void measured(const models::Gpt2& model) {
  book::section("measured");
  const Tensor prompt = tensor_of(book::encode(" the ", {})).unsqueeze(0);
  const ct::TimeOptions warm{.warmup = 1, .runs = 5, .flush = false, .device = ct::cpu};
  const double one = ct::time_of([&] { model.generate(prompt, {.max_new_tokens = 100}); }, warm) / 100;
  const Tensor many = prompt.expand({32, prompt.size(1)}).contiguous();
  const double batch = ct::time_of([&] { model.generate(many, {.max_new_tokens = 100}); }, warm) / 100;
  std::printf("one text: %.0f us a token\n32 texts at once: %.0f us for 32 tokens, %.1f us a token\n",
              1e6 * one, 1e6 * batch, 1e6 * batch / 32);
}

void roof() {
  book::section("roof");
  std::printf(
      "on an H200, 4.8 TB/s, 16 bits       weights, GB   us a token   tokens/s, one text   32 texts\n");
  struct Model {
    const char* name;
    double parameters;
  };
  for (const Model& m :
       {Model{"GPT-2, 124 million parameters", 0.124e9}, Model{"a model of 7 billion", 7e9}}) {
    const double us = 2 * m.parameters / 4.8e12 * 1e6;
    std::printf("%-35s %11.2f %12.0f %20.0f %10.0f\n", m.name, 2 * m.parameters / 1e9, us, 1e6 / us,
                32e6 / us);
  }
}

void chapter() {
  const std::string seen = speak(1500, 1), text = speak(200, 2);
  pairs(seen);
  held_to_the_library(seen);
  bits_per_byte(seen, text);
  const models::Gpt2 model = train(seen, text);
  sampling();
  cache(model);
  roof();
  written(model);
  measured(model);
}

}  // namespace

int main() { return book::run(chapter); }
