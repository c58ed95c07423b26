// All readers of files: whatever a file says, the answer is a typed error that can be shown.

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <unistd.h>

#include <cotangent/core/base/error.h>
#include <cotangent/nn/data/idx.h>
#include <cotangent/nn/data/tokens.h>
#include <cotangent/nn/io/checkpoint.h>
#include <cotangent/nn/io/npy.h>
#include <cotangent/nn/io/safetensors_internal.h>
#include <cotangent/nn/models/huggingface.h>
#include <cotangent/nn/models/huggingface_internal.h>
#include <cotangent/nn/text/bpe.h>
#include <cotangent/nn/text/tokenizer.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using Catch::Matchers::Contains;
using ct::testing::TempFolder;

namespace {

std::string refused(const std::function<void()>& read) {
  try {
    read();
  } catch (const IoError& error) { return error.what(); }
  return "";
}

void read_header(const std::string& json) {
  io::parse_safetensors_header(*io::open_memory({}, "memory"), json, 0);
}
void read_values(const std::string& json) {
  StateDict dict;
  io::values_from_json(*io::open_memory({}, "memory"), json, dict);
}
void read_tokenizer(const std::string& json) { text::BpeTokenizer::from_json(json); }
void read_characters(const std::string& json) { text::CharTokenizer::from_json(json); }
void read_vocabulary(const std::string& json) { text::BpeTokenizer::from_vocab_and_merges(json, ""); }
void read_config(const std::string& json) { nn::models::parse_huggingface_config("config.json", json); }
void read_index(const std::string& json) { nn::models::parse_huggingface_index("index.json", json); }
// Tells the kinds of files apart as load_tokenizer() does.
void read_any(const std::string& json) {
  const TempFolder folder;
  folder.write("tokenizer.json", json);
  text::load_tokenizer(folder.path());
}

struct Case {
  const char* name;
  void (*read)(const std::string& json);
  std::vector<std::string> around;  // a text with @ where a value is wanted
};
const Case kCases[] = {
    {"header", read_header, {"@", R"({"a": @})", R"({"__metadata__": {"a": @}})"}},
    {"values", read_values, {"@", R"({"a": @})", R"({"a": {"bits": @}})"}},
    {"tokenizer",
     read_tokenizer,
     {"@", R"({"model": @})", R"({"model": {"type": @}})", R"({"model": {"type": "BPE", "vocab": {"a": @}}})",
      R"({"normalizer": @, "model": {"vocab": {}, "merges": []}})",
      R"({"pre_tokenizer": {"type": "Split", "pattern": @}, "model": {"vocab": {}, "merges": []}})",
      R"({"unknown": @, "model": {"vocab": {}, "merges": []}})"}},
    {"characters",
     read_characters,
     {"@", R"({"model": {"type": @, "vocab": ["a"]}})", R"({"model": {"type": "Characters", "vocab": [@]}})",
      R"({"pre_tokenizer": {"type": "Split", "pattern": @}, "model": {"type": "WordLevel", "vocab": {"a": 0}}})"}},
    {"vocabulary", read_vocabulary, {"@", R"({"a": @})", R"({"<|endoftext|>": @})"}},
    {"config", read_config, {"@", R"({"model_type": @})", R"({"model_type": "gpt2", "vocab_size": @})"}},
    {"index", read_index, {"@", R"({"weight_map": @})", R"({"weight_map": {"a": @}})"}},
    {"any tokenizer",
     read_any,
     {"@", R"({"model": {"type": @}})", R"({"pre_tokenizer": @, "model": {"type": "WordLevel"}})"}},
};

std::string with(std::string around, const std::string& value) {
  return around.replace(around.find('@'), 1, value);
}

}  // namespace

TEST_CASE("io: JSON nested as deeply as one likes is refused by every reader", "[io]") {
  const auto deep = [](std::size_t n, const char* open, const char* close) {
    std::string text;
    for (std::size_t i = 0; i < n; ++i) text += open;
    text += '0';
    for (std::size_t i = 0; i < n; ++i) text += close;
    return text;
  };
  const std::vector<std::string> values = {deep(65, "[", "]"), deep(150000, "[", "]"),
                                           deep(150000, R"({"a":)", "}"), std::string(150000, '['),
                                           deep(150000, R"([{"type":)", "}]")};
  for (const Case& c : kCases)
    for (const std::string& around : c.around)
      for (const std::string& value : values) {
        INFO(c.name << ' ' << around << ' ' << value.substr(0, 10));
        CHECK(refused([&] { c.read(with(around, value)); }) != "");
      }
}

TEST_CASE("io: JSON with a NUL byte, a key twice, bytes that are not UTF-8 or more behind it", "[io]") {
  using std::string_literals::operator""s;
  for (const Case& c : kCases) {
    const std::string good = c.read == read_header || c.read == read_values || c.read == read_vocabulary
                                 ? "{}"
                                 : with(c.around[1], "0");
    for (const std::string& json : {good + "\0"s, good + "\0 [["s, "\0"s + good,
                                    R"({"a": "b)"
                                    "\0"
                                    R"(c"})"s}) {
      INFO(c.name << ' ' << json);
      CHECK_THAT(refused([&] { c.read(json); }), Contains("NUL") || Contains("does not begin with '{'"));
    }
    for (const std::string& value : {R"({"a": 1, "b": 2, "a": 3})"s, R"({"\u0061": 1, "a": 3})"s}) {
      INFO(c.name << ' ' << value);
      CHECK_THAT(refused([&] { c.read(value); }), Contains("twice") || Contains("has a number"));
    }
    for (const std::string& json : {"{\"\xff\": 1}"s, "{\"\xed\xa0\x80\": 1}"s, good + "x"s, good + good,
                                    good.substr(0, good.size() - 1), R"({"\ud800": 1})"s, R"({"a": 1e999})"s,
                                    "{\"a\": 01}"s, "{'a': 1}"s, "{\"a\": NaN}"s, "{\"a\": 1,}"s, ""s}) {
      INFO(c.name << ' ' << json);
      CHECK_THAT(refused([&] { c.read(json); }),
                 Contains("not valid JSON") || Contains("does not begin with '{'") || Contains("a number"));
    }
  }
}

TEST_CASE("io: names out of files come as text that a terminal does not act on", "[io]") {
  const std::string name = R"(\u001b]0;owned\u0007\u202e\u0000)",
                    shown = R"(\x1B]0;owned\x07\xE2\x80\xAE\x00)";
  const auto safe = [&](const std::string& message) {
    INFO(message);
    CHECK_THAT(message, Contains(shown));
    for (const char c : message) CHECK(static_cast<unsigned char>(c) >= ' ');
  };
  const std::string text = '"' + name + '"', field = R"({"dtype": "F32", "shape": [1], "data_offsets": [)";
  safe(refused([&] { read_header("{" + text + ": 1}"); }));
  safe(refused([&] { read_header("{" + text + ": {}}"); }));
  safe(refused([&] { read_header("{" + text + ": " + field + "0, 4]}}"); }));
  safe(refused([&] { read_header("{" + text + ": " + field + "0, 0]}}"); }));
  safe(refused([&] { read_header(R"({"a": {"dtype": )" + text + "}}"); }));
  safe(refused([&] { read_header(R"({"__metadata__": {)" + text + ": 1}}"); }));
  safe(refused([&] { read_values("{" + text + ": []}"); }));
  safe(refused([&] { read_vocabulary("{" + text + ": -1}"); }));
  const auto model = [](const std::string& more) {
    return R"({"model": {"vocab": {"a": 0}, "merges": []}, )" + more + "}";
  };
  safe(refused([&] { read_tokenizer(R"({"model": {"type": )" + text + "}}"); }));
  safe(refused([&] { read_tokenizer(model(R"("normalizer": {"type": )" + text + "}")); }));
  safe(refused([&] { read_tokenizer(model(R"("pre_tokenizer": {"type": )" + text + "}")); }));
  safe(refused([&] { read_tokenizer(model(R"("added_tokens": [{"content": )" + text + "}]")); }));
  safe(refused([&] { read_tokenizer(R"({"model": {"vocab": {"a": 0}, "merges": [)" + text + "]}}"); }));
  safe(refused([&] { read_characters(R"({"model": {"type": "Characters", "vocab": {)" + text + ": 1}}}"); }));
  safe(refused([&] { read_config(R"({"model_type": )" + text + "}"); }));
  safe(refused([&] { read_index(R"({"weight_map": {)" + text + ": 1}}"); }));
  safe(refused([&] { read_index(R"({"weight_map": {"a": "/)" + name + "\"}}"); }));
  const std::string config = R"({"model_type": "gpt2", "vocab_size": )" + text + "}";
  CHECK_THAT(refused([&] { read_config(config); }), Contains("\\u001b]0;owned"));

  // Long ones are shortened.
  const std::string message = refused([] { read_header("{\"" + std::string(1000000, 'x') + "\": 1}"); });
  CHECK(message.size() < 500);
  CHECK_THAT(message, Contains("(1000000 bytes)"));

  // A StateDict that was read, and a path.
  StateDict dict;
  dict.set("a\x1b[31m", testing::tensor_of<float>({1}, {1}));
  try {
    (void)dict.at("b\x1b");
    FAIL("was found");
  } catch (const ValueError& e) { CHECK_THAT(e.what(), Contains("'b\\x1B'; there are 'a\\x1B[31m'")); }
  CHECK_THAT(refused([] { io::load("no\x1b[31mfile\xff"); }), Contains("'no\\x1B[31mfile\\xFF'"));
}

TEST_CASE("io: paths that can't be followed and sizes that can't be had are IoErrors", "[io]") {
  const TempFolder folder;
  std::filesystem::create_symlink("loop", folder / "loop");
  std::filesystem::create_directory(folder / "model");
  std::filesystem::create_symlink("model.safetensors", folder / "model/model.safetensors");
  folder.write("model/config.json", nn::models::huggingface_config_text(nn::models::Gpt2Config{}, f32));
  const std::string tiny(100000, 'p');
  for (const std::string& path : {folder / "loop", folder / "loop/deeper", tiny, std::string("a\0b", 3)}) {
    INFO(path.substr(0, 100));
    CHECK_THROWS_AS(io::load(path), IoError);
    CHECK_THROWS_AS(io::load_npy(path), IoError);
    CHECK_THROWS_AS(io::load_npz(path), IoError);
    CHECK_THROWS_AS(io::load_checkpoint(path, {}), IoError);
    CHECK_THROWS_AS(nn::models::load_huggingface(path), IoError);
    CHECK_THROWS_AS(data::Tokens::open(path), IoError);
    CHECK_THROWS_AS(data::read_idx(path), IoError);
    CHECK_THROWS_AS(data::idx(path, data::Split::train), IoError);
    CHECK_THROWS_AS(text::load_tokenizer(path), IoError);
    CHECK_THROWS_AS(text::BpeTokenizer::load(path), IoError);
    CHECK_THROWS_AS(text::CharTokenizer::load(path), IoError);
  }
  CHECK_THROWS_AS(nn::models::load_huggingface(folder / "model"), IoError);

  // Files of holes: large, and on no disk.
  const auto hole = [&](const std::string& name, const std::string& start, off_t bytes) {
    folder.write(name, start);
    return truncate((folder / name).c_str(), bytes) == 0;
  };
  if (!hole("tokenizer.json", "{", off_t{1} << 43)) return;  // a file system without holes or of small files
  CHECK_THROWS_AS(text::load_tokenizer(folder.path()), IoError);
  CHECK_THROWS_AS(text::BpeTokenizer::load(folder.path()), IoError);
  CHECK_THROWS_AS(text::CharTokenizer::load(folder / "tokenizer.json"), IoError);
  REQUIRE(hole("model/config.json", "{", off_t{1} << 43));
  CHECK_THROWS_AS(nn::models::load_huggingface(folder / "model"), IoError);
}
