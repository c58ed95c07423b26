#include <cotangent/nn/text/bpe.h>

#include <fstream>
#include <iterator>
#include <thread>

#include <nlohmann/json.hpp>

#include <cotangent/core/base/error.h>
#include <cotangent/nn/text/bpe_internal.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
using ct::testing::TempFolder;
using nlohmann::json;
using text::BpeTokenizer;
using Ids = std::vector<std::int64_t>;
using Catch::Matchers::Contains;

namespace {

json golden() {
  std::ifstream file(COTANGENT_SOURCE_DIR "/tests/golden/tokenizers.json");
  return json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

// A byte-level tokenizer with the tokens "a", "b", "Ġ" (a space), "ab" and "abab".
json small() {
  return json::parse(R"({
    "added_tokens": [{"id": 5, "content": "<end>", "special": true, "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "abab": 4},
              "merges": ["a b", ["ab", "ab"]]}})");
}

std::string refused(const json& file) {
  try {
    BpeTokenizer::from_json(file.dump(), "t.json");
  } catch (const IoError& e) { return e.what(); }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("bpe: the ids and texts of Hugging Face's tokenizers", "[text][golden]") {
  const json cases = golden();
  REQUIRE(cases.size() == 3);
  for (const json& c : cases) {
    const auto tokenizer = BpeTokenizer::from_json(c["tokenizer"].dump());
    CHECK(tokenizer.beginning() == (c["name"] == "llama2" ? Ids{} : Ids{0}));
    for (const json& t : c["texts"]) {
      const std::string text = t["text"];
      CAPTURE(c["name"].get<std::string>(), text);
      const Ids ids = tokenizer.encode(text);
      CHECK(ids == t["ids"].get<Ids>());
      CHECK(tokenizer.encode(text, {.add_special = true}) == t["with_special"].get<Ids>());
      CHECK(tokenizer.decode(ids) == t["decoded"].get<std::string>());
    }
  }
}

TEST_CASE("bpe: vocab.json with merges.txt is the same tokenizer, and so is what save() writes", "[text]") {
  const json c = golden()[0];
  const json& model = c["tokenizer"]["model"];
  const TempFolder folder;
  json vocab = model["vocab"];
  folder.write("vocab.json", vocab.dump());
  std::string merges = "#version: 0.2\n";
  for (const json& pair : model["merges"]) {
    merges += pair.is_string() ? pair.get<std::string>()
                               : pair[0].get<std::string>() + " " + pair[1].get<std::string>();
    merges += '\n';
  }
  folder.write("merges.txt", merges);
  const auto direct = BpeTokenizer::load(folder.path());
  const auto by_file = BpeTokenizer::load(folder / "vocab.json");
  direct.save(folder / "tokenizer.json");
  const auto saved = text::load_tokenizer(folder.path());  // prefers tokenizer.json
  CHECK(saved->vocab_size() == static_cast<std::int64_t>(vocab.size()));
  for (const json& t : c["texts"]) {
    const std::string text = t["text"];
    if (text.find("<mask>") != std::string::npos) continue;  // an added token of the other file
    CHECK(direct.encode(text) == t["ids"].get<Ids>());
    CHECK(by_file.encode(text) == t["ids"].get<Ids>());
    CHECK(saved->encode(text) == t["ids"].get<Ids>());
  }
  CHECK(direct.is_special(direct.find_token("<|endoftext|>")));
  CHECK(direct.find_token("no such token") == -1);

  std::filesystem::remove(folder / "merges.txt");
  CHECK_THROWS_AS(BpeTokenizer::load(folder / "vocab.json"), IoError);
  CHECK_THROWS_AS(text::load_tokenizer(folder / "absent"), IoError);
  CHECK_THROWS_AS(BpeTokenizer::from_vocab_and_merges("[]", ""), IoError);
  CHECK_THROWS_AS(BpeTokenizer::from_vocab_and_merges("{\"a\"", ""), IoError);
  CHECK_THROWS_AS(BpeTokenizer::from_vocab_and_merges("{\"a\": 0}", "a\xff b"), IoError);
}

TEST_CASE("bpe: by hand", "[text]") {
  const auto t = BpeTokenizer::from_json(small().dump());
  CHECK(t.vocab_size() == 6);
  CHECK(t.encode("") == Ids{});
  CHECK(t.encode("ab") == Ids{3});
  CHECK(t.encode("aab") == Ids{0, 3});
  CHECK(t.encode("ababab") == Ids{4, 3});  // the leftmost pair first
  CHECK(t.encode("ab abab") == Ids{3, 2, 4});
  CHECK(t.encode("ab<end>ab") == Ids{3, 5, 3});
  CHECK(t.decode(Ids{3, 2, 4, 5}) == "ab abab<end>");
  CHECK(t.token_bytes(2) == " ");
  CHECK_THROWS_AS(t.token_bytes(6), IndexError);
  CHECK_THROWS_AS(t.token_bytes(-1), IndexError);
}

TEST_CASE("bpe: a character without a token", "[text]") {
  json file = small();
  const auto t = BpeTokenizer::from_json(file.dump());
  CHECK_THROWS_WITH(t.encode("abc"), Contains("'c' (U+0063)") && Contains("no unknown token"));
  CHECK_THROWS_WITH(t.encode("ab\xc3\xa9"), Contains("0xC3"));
  CHECK(t.encode("ab") == Ids{3});
  file["model"]["unk_token"] = "abab";
  CHECK(BpeTokenizer::from_json(file.dump()).encode("accab") == Ids{0, 4, 4, 3});
  file["model"]["fuse_unk"] = true;
  CHECK(BpeTokenizer::from_json(file.dump()).encode("accab") == Ids{0, 4, 3});
}

TEST_CASE("bpe: any bytes pass through a complete byte-level vocabulary", "[text]") {
  const auto t = BpeTokenizer::from_json(golden()[0]["tokenizer"].dump());
  std::string bytes;
  for (int i = 0; i < 1024; ++i) bytes += static_cast<char>(i * 167 ^ i >> 2);
  CHECK(t.decode(t.encode(bytes)) == bytes);
}

TEST_CASE("bpe: long words", "[text]") {
  const auto t = BpeTokenizer::from_json(small().dump());
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "ab";
  const Ids ids = t.encode(text);
  CHECK(ids.size() == 100000);
  CHECK(t.decode(ids) == text);
}

TEST_CASE("bpe: several threads use one tokenizer", "[text]") {
  const auto t = BpeTokenizer::from_json(golden()[0]["tokenizer"].dump());
  const Ids expected = t.encode("the quick brown fox");
  std::vector<std::thread> threads;
  std::vector<int> good(4);
  for (std::size_t n = 0; n < good.size(); ++n)
    threads.emplace_back([&, n] {
      for (int i = 0; i < 50; ++i) good[n] += t.encode("the quick brown fox") == expected;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(good == std::vector<int>(4, 50));
}

TEST_CASE("bpe: files that are refused", "[text]") {
  CHECK_THAT(refused(json::array()), Contains("t.json"));
  const auto with = [](const char* pointer, json value) {
    json file = small();
    file[json::json_pointer(pointer)] = std::move(value);
    return refused(file);
  };
  CHECK_THAT(with("/model/type", "WordPiece"), Contains("'WordPiece'; BPE is known"));
  CHECK_THAT(with("/model/vocab/c", -1), Contains("'c' has no id"));
  CHECK_THAT(with("/model/vocab/c", 1000000000), Contains("highest id"));
  CHECK_THAT(with("/model/vocab/c", 1.5), Contains("'c' has no id"));
  CHECK_THAT(with("/model/merges/0", "ab"), Contains("merge 0"));
  CHECK_THAT(with("/model/merges/1", "ab z"), Contains("merge 1") && Contains("'z'"));
  CHECK_THAT(with("/model/merges/0", "b a"), Contains("'ba'"));
  CHECK_THAT(with("/model/dropout", 0.1), Contains("dropout"));
  CHECK_THAT(with("/model/end_of_word_suffix", "</w>"), Contains("end_of_word_suffix"));
  CHECK_THAT(with("/normalizer", {{"type", "NFC"}}), Contains("'NFC' is not known"));
  CHECK_THAT(with("/pre_tokenizer/type", "Whitespace"), Contains("'Whitespace' is not known"));
  CHECK_THAT(with("/pre_tokenizer/use_regex", 3), Contains("use_regex"));
  CHECK_THAT(with("/added_tokens/0/content", ""), Contains("empty"));
  CHECK_THAT(with("/added_tokens/0/id", 99999999), Contains("far beyond"));
  const json split = {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "(?<=a)b"}}}};
  CHECK_THAT(with("/pre_tokenizer", split), Contains("(?<=a)b") && Contains("t.json"));
  json other = split;
  other["pattern"]["Regex"] = "a";
  other["behavior"] = "Contiguous";
  CHECK_THAT(with("/pre_tokenizer", other), Contains("'Contiguous'"));
  json file = small();
  file["post_processor"] = {{"type", "BertProcessing"}};
  const auto t = BpeTokenizer::from_json(file.dump());
  CHECK(t.encode("ab") == Ids{3});
  CHECK_THROWS_AS(t.encode("ab", {.add_special = true}), ValueError);
}

TEST_CASE("bpe: a tokenizer that was moved from says so", "[text]") {
  auto t = BpeTokenizer::from_json(small().dump());
  const BpeTokenizer other = std::move(t);
  CHECK(other.encode("ab") == Ids{3});
  const TempFolder folder;  // NOLINTBEGIN(bugprone-use-after-move)
  CHECK_THROWS_WITH(t.encode("a"), Contains("[BpeTokenizer]") && Contains("moved from"));
  CHECK_THROWS_AS(t.encode("a"), Error);
  CHECK_THROWS_WITH(t.vocab_size(), Contains("moved from"));
  CHECK_THROWS_WITH(t.token_bytes(0), Contains("moved from"));
  CHECK_THROWS_WITH(t.decode(Ids{0}), Contains("moved from"));
  CHECK_THROWS_WITH(t.decode(Ids{}), Contains("moved from"));
  CHECK_THROWS_WITH(t.beginning(), Contains("moved from"));
  CHECK_THROWS_WITH(t.find_token("a"), Contains("moved from"));
  CHECK_THROWS_WITH(t.is_special(0), Contains("moved from"));
  CHECK_THROWS_WITH(t.save(folder / "t.json"), Contains("moved from"));  // NOLINTEND(bugprone-use-after-move)
}

namespace {

json replacement(const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}
json sequence(const char* key, std::size_t count, const json& part) {
  return {{"type", "Sequence"}, {key, std::vector<json>(count, part)}};
}

}  // namespace

TEST_CASE("bpe: a normalizer can't make a text much longer", "[text]") {
  json file = small();
  file["normalizer"] = sequence("normalizers", 8, replacement("a", std::string(100, 'a')));
  const auto bomb = BpeTokenizer::from_json(file.dump());
  CHECK_THROWS_WITH(bomb.encode("aaaaaaaa"),
                    Contains("normalizers") && Contains("16 times") && Contains("8 bytes"));
  CHECK_THROWS_AS(bomb.encode("a"), ValueError);
  CHECK(bomb.encode("b<end>") == Ids{1, 5});
  // An added token that is normalized, when the file is read.
  file["added_tokens"][0]["content"] = "aa";
  file["added_tokens"][0]["normalized"] = true;
  CHECK_THAT(refused(file), Contains("normalizers") && Contains("t.json"));
  // Each piece between added tokens is normalized by itself; all of them share what the text allows.
  file = small();
  file["normalizer"] = {{"type", "Prepend"}, {"prepend", std::string(500, 'b')}};
  const auto prepends = BpeTokenizer::from_json(file.dump());
  CHECK(prepends.encode("a").size() == 501);
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "a<end>";
  CHECK_THROWS_WITH(prepends.encode(text), Contains("normalizers"));
  // Growth that real files ask for.
  file["normalizer"] = sequence("normalizers", 1, replacement("\t", std::string(8, ' ')));
  CHECK(BpeTokenizer::from_json(file.dump()).encode(std::string(10000, '\t')).size() == 80000);
}

TEST_CASE("bpe: pre-tokenizers can't make a text much longer", "[text]") {
  json file = small();
  const json split = {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "\u2581|a"}}}};
  json parts = json::array();
  for (int i = 0; i < 60; ++i)
    parts.push_back(split),
        parts.push_back({{"type", "Metaspace"}, {"prepend_scheme", "always"}, {"split", false}});
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", parts}};
  file["model"]["unk_token"] = "b";
  const auto t = BpeTokenizer::from_json(file.dump());
  CHECK_THROWS_WITH(t.encode(std::string(10000, 'a')), Contains("pre-tokenizers") && Contains("16 times"));
}

TEST_CASE("bpe: lists and texts that a file can't have without end", "[text]") {
  const auto with = [](const char* pointer, json value) {
    json file = small();
    file[json::json_pointer(pointer)] = std::move(value);
    return refused(file);
  };
  const json digits = {{"type", "Digits"}};
  CHECK_THAT(with("/pre_tokenizer", sequence("pretokenizers", 1000, digits)),
             Contains("more than 128 pre-tokenizers"));
  CHECK_THAT(with("/normalizer", sequence("normalizers", 1000, replacement("a", "b"))),
             Contains("more than 128 normalizers"));
  const std::string long_text(10000, 'a');
  CHECK_THAT(with("/normalizer", replacement(long_text, "b")), Contains("10000 bytes"));
  CHECK_THAT(with("/normalizer", replacement("b", long_text)), Contains("10000 bytes"));
  CHECK_THAT(with("/normalizer", {{"type", "Prepend"}, {"prepend", long_text}}), Contains("10000 bytes"));
  CHECK_THAT(with("/added_tokens/0/content", long_text), Contains("10000 bytes"));
  CHECK_THAT(with("/model/vocab", {{long_text, 0}}), Contains("10000 bytes"));
  // A template that names one list of ids again and again.
  json ids = std::vector<int>(1000, 1), single = std::vector<json>(1000, {{"SpecialToken", {{"id", "x"}}}});
  CHECK_THAT(
      with("/post_processor",
           {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", {{"x", {{"ids", ids}}}}}}),
      Contains("post-processor") && Contains("1024"));
}

TEST_CASE("bpe: a table can't be filled at one place", "[text]") {
  json file = small();
  json& vocab = file["model"]["vocab"];
  // Tokens "a", "aa", ..., of which each two may merge; those merges whose places in the table are one.
  constexpr std::size_t count = 200;
  const auto token = [](std::size_t id) { return std::string(id + 1, 'a'); };
  vocab = json::object();
  for (std::size_t id = 0; id < 2 * count; ++id) vocab[token(id)] = id;
  file["added_tokens"] = json::array();
  std::unordered_map<std::uint64_t, int, text::detail::PairHash> places;
  places.reserve(100);
  json& merges = file["model"]["merges"] = json::array();
  for (std::size_t left = 0; left < count && merges.size() < 100; ++left)
    for (std::size_t right = 0; right < count && merges.size() < 100; ++right)
      if (places.bucket(text::detail::BpeModel::pair(static_cast<int>(left), static_cast<int>(right))) == 7)
        merges.push_back({token(left), token(right)});
  REQUIRE(merges.size() == 100);
  CHECK_THAT(refused(file), Contains("merges share one place"));
  text::detail::ByText<int> texts;
  texts.reserve(100);
  json many = json::object();
  for (std::size_t n = 0; many.size() < 100; ++n)
    if (texts.bucket(std::to_string(n)) == 7) many[std::to_string(n)] = many.size();
  vocab = many;
  CHECK_THAT(refused(file), Contains("tokens share one place"));
}

TEST_CASE("bpe: added tokens are found in time that grows with the text", "[text]") {
  json file = small();
  json& added = file["added_tokens"];
  // Thousands that begin alike, some of which are parts of others.
  for (int i = 1; i < 900; ++i)
    added.push_back({{"id", 5 + i},
                     {"content", std::string(static_cast<std::size_t>(i), 'a') + 'x'},
                     {"normalized", false}});
  for (int i = 0; i < 20000; ++i)
    added.push_back({{"id", 1000 + i}, {"content", "aab" + std::to_string(i)}, {"normalized", false}});
  const auto t = BpeTokenizer::from_json(file.dump());
  CHECK(t.encode("baaaax") == Ids{1, 9});      // the leftmost, though "aax" is a token too
  CHECK(t.encode("aab123b") == Ids{1123, 1});  // of those that begin there, the longest
  CHECK(t.encode(std::string(4000, 'a')) == Ids(4000, 0));
}
