#include "tests/fuzz/json_mutator.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

namespace ct::fuzz {
namespace {

class Changer {
 public:
  explicit Changer(std::mt19937_64& random) : random_(random) {}

  void change(std::string& json) {
    const std::vector<Part> all = values_of(json);
    if (all.empty()) {
      json = value();
      return;
    }
    const Part at = all[below(all.size())];
    switch (below(6)) {
      case 0: {  // NUL, or no UTF-8
        static constexpr char bytes[] = {'\0', '\xff', '\xc3', '\x1b'};
        json.insert(below(json.size() + 1), 1, bytes[below(std::size(bytes))]);
        break;
      }
      case 1:  // the same again, with its key if it has one
        json.insert(at.end, "," + json.substr(at.member, at.end - at.member));
        break;
      case 2:  // inside of another
        json.insert(at.end, "]").insert(at.begin, "[");
        break;
      default: json.replace(at.begin, at.end - at.begin, value());
    }
  }

 private:
  struct Part {
    std::size_t member, begin, end;  // where its key begins, and the value itself
  };

  std::uint64_t below(std::uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }

  static std::size_t after_text(const std::string& json, std::size_t at) {
    for (++at; at < json.size() && json[at] != '"'; ++at)
      if (json[at] == '\\') ++at;
    return std::min(at + 1, json.size());
  }

  // All values, as far as the text is JSON.
  static std::vector<Part> values_of(const std::string& json) {
    constexpr std::size_t kMost = 4096;
    std::vector<Part> all;
    std::vector<std::size_t> open;  // of all
    const auto skip = [&](std::size_t at) {
      while (at < json.size() && std::strchr(" \t\r\n", json[at]) && json[at]) ++at;
      return at;
    };
    for (std::size_t at = skip(0); at < json.size() && all.size() < kMost;) {
      const char c = json[at];
      if (c == ']' || c == '}') {
        ++at;
        if (open.empty()) break;
        all[open.back()].end = at;
        open.pop_back();
      } else if (c == ',') {
        ++at;
      } else {
        Part part{at, at, json.size()};
        if (c == '"') {
          const std::size_t behind = skip(after_text(json, at));
          if (behind < json.size() && json[behind] == ':') part.begin = at = skip(behind + 1);
          if (at >= json.size()) break;
        }
        all.push_back(part);
        if (json[at] == '[' || json[at] == '{') {
          open.push_back(all.size() - 1);
          ++at;
        } else {
          at = json[at] == '"' ? after_text(json, at)
                               : std::min(json.find_first_of(",]} \n\t\r", at + 1), json.size());
          all.back().end = at;
        }
      }
      at = skip(at);
    }
    return all;
  }

  std::string value() {
    static constexpr const char* scalars[] = {"null",
                                              "true",
                                              "-1",
                                              "0.5",
                                              "1e308",
                                              "18446744073709551615",
                                              "18446744073709551616",
                                              "-9223372036854775808",
                                              "4294967296",
                                              "\"\"",
                                              "\"\\u0000\\ud83d\\ude00\"",
                                              "\"\\ud800\"",
                                              "\"type\"",
                                              "[]",
                                              "{}",
                                              R"({"bits": 9218868437227405312})",
                                              R"({"Regex": "a"})",
                                              R"({"type": "Sequence"})"};
    switch (below(4)) {
      case 0: return nested();
      case 1: {
        std::string text(below(2) ? below(40) : below(300000), 'a');
        if (!text.empty() && below(2)) text[below(text.size())] = static_cast<char>(random_());
        return '"' + text + '"';
      }
      case 2: {  // JSON in a text, as the values of a checkpoint are
        std::string text;
        for (const char c : nested()) text.append(c == '"' ? "\\" : "").append(1, c);
        return '"' + text + '"';
      }
      default: return scalars[below(std::size(scalars))];
    }
  }

  std::string nested() {
    static constexpr std::size_t depths[] = {1, 2, 3, 8, 9, 32, 33, 62, 63, 64, 65, 1000, 150000};
    static constexpr const char* levels[][2] = {
        {"[", "]"}, {"{\"a\":", "}"}, {"{\"type\":", "}"}, {"[{\"a\":", "}]"}};
    const std::size_t depth = depths[below(std::size(depths))];
    const auto& level = levels[below(std::size(levels))];
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) text += level[0];
    text += "0";
    if (below(4) > 0)
      for (std::size_t i = 0; i < depth; ++i) text += level[1];
    return text;
  }

  std::mt19937_64& random_;
};

}  // namespace

void change_json(std::string& input, std::mt19937_64& random) {
  // The files of the input, by where they begin.
  std::vector<std::size_t> begins = {0};
  for (std::size_t at = 0; (at = input.find("\n\x1e\n", at)) != input.npos; at += 3) begins.push_back(at + 3);
  const std::size_t chosen = random() % begins.size(), begin = begins[chosen];
  const std::size_t end = chosen + 1 < begins.size() ? begins[chosen + 1] - 3 : input.size();
  Changer changer(random);
  std::uint64_t length = 0;
  if (begin < end && (input[begin] == '{' || input[begin] == '[')) {
    std::string json = input.substr(begin, end - begin);
    changer.change(json);
    input.replace(begin, end - begin, json);
  } else if (end - begin > 8 && input[begin + 8] == '{') {
    std::memcpy(&length, input.data() + begin, sizeof length);
    if (length > end - begin - 8) return;
    std::string json = input.substr(begin + 8, static_cast<std::size_t>(length));
    changer.change(json);
    input.replace(begin + 8, static_cast<std::size_t>(length), json);
    length = json.size();
    std::memcpy(input.data() + begin, &length, sizeof length);
  }
}

}  // namespace ct::fuzz
