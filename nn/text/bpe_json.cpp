#include <algorithm>
#include <cstdio>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/nn/io/json.h>
#include <cotangent/nn/text/bpe_internal.h>
#include <cotangent/nn/text/unicode_internal.h>

// Reading tokenizer.json. Nothing in it is trusted, and what is not known is refused rather than passed over:
// a tokenizer that is a little wrong spoils a model without a sound.

namespace ct::text::detail {
namespace {

using io::Json;

constexpr char kSpaceMark[] = "\xE2\x96\x81";  // U+2581, SentencePiece's space
constexpr int kMaxNesting = 8;

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name), m_(std::make_unique<BpeModel>()) {
    m_->byte_ids.fill(-1);
  }

  std::unique_ptr<const BpeModel> read(const Json& file) {
    check(file.is_object(), "is no JSON object; a tokenizer.json is wanted");
    const Json& model = member(file, "model");
    const std::string type = text_of(model, "type", "BPE");
    check(type == "BPE", "the model is of type ", printable(type), "; BPE is known");
    normalizer(optional(file, "normalizer"), 0);
    pre_tokenizer(optional(file, "pre_tokenizer"), 0);
    vocabulary(member(model, "vocab"));
    model_options(model);
    added_tokens(optional(file, "added_tokens"));
    what_tokens_stand_for();
    merges(member(model, "merges"));
    post_processor(optional(file, "post_processor"), 0);
    return std::move(m_);
  }
  BpeModel& model() { return *m_; }

  template <class... Args>
  void check(bool ok, const Args&... args) const {
    CT_CHECK(ok, IoError, kBpe, printable_path(name_), ": ", args...);
  }

 private:
  // --- JSON with types ---
  const Json& member(const Json& object, std::string_view key) const {
    const Json* found = object.find(key);
    check(found, "has no ", printable(key), " where one is wanted");
    return *found;
  }
  static const Json& optional(const Json& object, const char* key) {
    static const Json& none = *new Json;
    const Json* found = object.find(key);
    return found ? *found : none;
  }
  std::string text_of(const Json& object, const char* key, const char* fallback) const {
    check(object.is_object(), "an object with '", key, "' is wanted where there is ", object.kind());
    const Json& value = optional(object, key);
    if (value.is_null()) return fallback;
    check(value.text(), "'", key, "' is no text");
    return *value.text();
  }
  bool flag_of(const Json& object, const char* key, bool fallback) const {
    const Json& value = optional(object, key);
    if (value.is_null()) return fallback;
    check(value.boolean(), "'", key, "' is neither true nor false");
    return *value.boolean();
  }
  template <class... Args>
  const Json::List& list_of(const Json& value, const Args&... otherwise) const {
    check(value.list(), otherwise...);
    return *value.list();
  }
  std::int64_t id_of(const Json& value, std::string_view token) const {
    const auto id = value.unsigned_integer();
    check(id && *id < (1u << 30), "the token ", printable(token), " has no id in [0, 2^30)");
    return static_cast<std::int64_t>(*id);
  }

  const std::string& short_text(const std::string& text, std::size_t longest = kMaxText) const {
    check(text.size() <= longest, "a token, or a text to replace, is ", text.size(), " bytes long; at most ",
          longest, " are known");
    return text;
  }
  template <class Table, class Key>
  void check_crowd(const Table& table, const Key& key, const char* what) const {
    check(!crowded(table, key), what, " share one place in a table, which would be as slow as a list");
  }

  // --- parts of the file ---
  void normalizer(const Json& n, int depth) {
    if (n.is_null()) return;
    check(depth < kMaxNesting, "normalizers are nested too deeply");
    const std::string type = text_of(n, "type", "");
    if (type == "Sequence") {
      for (const Json& part : list_of(member(n, "normalizers"), "a Sequence of normalizers is a list"))
        normalizer(part, depth + 1);
    } else if (type == "Prepend") {
      m_->normalizers.push_back({true, {}, short_text(text_of(n, "prepend", ""))});
    } else if (type == "Replace") {
      const std::string from = text_of(member(n, "pattern"), "String", "");
      check(!from.empty(), "the normalizer Replace is known for a pattern that is a String");
      m_->normalizers.push_back({false, short_text(from), short_text(text_of(n, "content", ""))});
    } else {
      check(false, "the normalizer ", printable(type), " is not known; Sequence, Prepend and Replace are");
    }
    check(m_->normalizers.size() <= kMaxParts, "there are more than ", kMaxParts, " normalizers");
  }

  void pre_tokenizer(const Json& p, int depth) {
    if (p.is_null()) return;
    check(depth < kMaxNesting, "pre-tokenizers are nested too deeply");
    check(!m_->byte_level,
          "a pre-tokenizer follows ByteLevel; it is the last one in the files that are known");
    const std::string type = text_of(p, "type", "");
    Cut cut;
    if (type == "Sequence") {
      for (const Json& part : list_of(member(p, "pretokenizers"), "a Sequence of pre-tokenizers is a list"))
        pre_tokenizer(part, depth + 1);
      return;
    }
    if (type == "ByteLevel") {
      m_->byte_level = true;
      cut.kind = Cut::Kind::byte_level;
      cut.add_prefix = flag_of(p, "add_prefix_space", true);
      if (flag_of(p, "use_regex", true)) cut.pattern = pattern(kGpt2Pattern, false);
    } else if (type == "Split") {
      const Json& pattern_of = member(p, "pattern");
      const bool literal = pattern_of.find("String");
      const std::string text = text_of(pattern_of, literal ? "String" : "Regex", "");
      check(!text.empty(), "a Split has no pattern; a Regex or a String is wanted");
      cut.pattern = pattern(text, literal);
      const std::string behavior = text_of(p, "behavior", "");
      check(behavior == "Isolated" || behavior == "Removed", "the behaviour ", printable(behavior),
            " of a Split is not known; Isolated and Removed are");
      const bool invert = flag_of(p, "invert", false);
      (invert ? cut.keep_rest : cut.keep_matches) = behavior == "Isolated";
    } else if (type == "Metaspace") {
      cut.kind = Cut::Kind::metaspace;
      cut.replacement = text_of(p, "replacement", kSpaceMark);
      check(cut.replacement == kSpaceMark, "Metaspace replaces spaces by something other than U+2581");
      const std::string scheme =
          text_of(p, "prepend_scheme", flag_of(p, "add_prefix_space", true) ? "always" : "never");
      check(scheme == "always" || scheme == "first" || scheme == "never", "Metaspace has the prepend_scheme ",
            printable(scheme), "; always, first and never are known");
      cut.prepend = scheme == "always"  ? Cut::Prepend::always
                    : scheme == "first" ? Cut::Prepend::first
                                        : Cut::Prepend::never;
      cut.split_at_replacement = flag_of(p, "split", true);
    } else if (type == "Digits") {
      cut.kind = Cut::Kind::digits;
      cut.individually = flag_of(p, "individual_digits", false);
    } else {
      check(false, "the pre-tokenizer ", printable(type),
            " is not known; Sequence, ByteLevel, Split, Metaspace and Digits are");
    }
    m_->cuts.push_back(std::move(cut));
    check(m_->cuts.size() <= kMaxParts, "there are more than ", kMaxParts, " pre-tokenizers");
  }
  std::shared_ptr<const Pattern> pattern(const std::string& text, bool literal) const {
    try {
      return std::make_shared<const Pattern>(literal ? Pattern::literal(kBpe, text) : Pattern(kBpe, text));
    } catch (const ValueError& e) {
      throw IoError(std::string(e.what()) + "; read from " + printable_path(name_).str());
    }
  }

  void vocabulary(const Json& vocab) {
    check(vocab.is_object(), "the vocabulary is no object of tokens and ids");
    m_->ids.reserve(vocab.members()->size());
    for (const auto& [token, value] : *vocab.members()) {
      const std::int64_t id = id_of(value, short_text(token, kMaxToken));
      m_->ids.emplace(token, id);
      check_crowd(m_->ids, token, "tokens");
      highest_ = std::max(highest_, id);
    }
    // Ids may have gaps, but memory is asked for by the highest.
    check(highest_ < 65536 + 16 * static_cast<std::int64_t>(m_->ids.size()), "the highest id is ", highest_,
          " for ", m_->ids.size(), " tokens");
  }

  void model_options(const Json& model) {
    const Json& dropout = optional(model, "dropout");
    check(dropout.is_null() || dropout.number() == 0.0,
          "dropout of merges is not known; encoding would be random");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      check(text_of(model, key, "").empty(), "'", key, "' is not known");
    m_->fuse_unknown = flag_of(model, "fuse_unk", false);
    m_->byte_fallback = flag_of(model, "byte_fallback", false);
    m_->ignore_merges = flag_of(model, "ignore_merges", false);
    const std::string unknown = text_of(model, "unk_token", "");
    if (unknown.empty()) return;
    const auto found = m_->ids.find(unknown);
    if (found != m_->ids.end()) m_->unknown = static_cast<std::int32_t>(found->second);
  }

  void added_tokens(const Json& list) {
    if (list.is_null()) return;
    for (const Json& item : list_of(list, "'added_tokens' is no list")) {
      check(item.is_object(), "'added_tokens' holds something other than objects");
      AddedToken token;
      token.content = short_text(text_of(item, "content", ""));
      check(!token.content.empty(), "an added token is empty");
      token.id = id_of(optional(item, "id"), token.content);
      check(token.id <= highest_ + 65536, "the added token ", printable(token.content), " has the id ",
            token.id, ", far beyond the others");
      token.special = flag_of(item, "special", false);
      token.single_word = flag_of(item, "single_word", false);
      token.strip_left = flag_of(item, "lstrip", false);
      token.strip_right = flag_of(item, "rstrip", false);
      token.normalized = flag_of(item, "normalized", !token.special);
      added_.push_back(token);
      m_->ids[token.content] = token.id;
      check_crowd(m_->ids, token.content, "tokens");
      AddedToken in_text = token;
      if (token.normalized) {
        const auto normalized = m_->normalize(token.content, room_for(token.content.size()));
        check(normalized.has_value(), "the normalizers make an added token more than ", kGrowth,
              " times as long");
        in_text.content = *normalized;
      }
      if (!in_text.content.empty())
        (token.normalized ? m_->added_normalized : m_->added).add(std::move(in_text));
    }
    for (const AddedToken& token : added_) highest_ = std::max(highest_, token.id);
  }

  void what_tokens_stand_for() {
    bool marks = false;
    for (const Normalizer& n : m_->normalizers) {
      marks |= n.to == kSpaceMark;
      m_->drop_first_space |= n.prepend && n.to == kSpaceMark;
    }
    for (const Cut& cut : m_->cuts) {
      marks |= cut.kind == Cut::Kind::metaspace;
      m_->drop_first_space |= cut.kind == Cut::Kind::metaspace && cut.prepend != Cut::Prepend::never;
    }
    m_->bytes.resize(static_cast<std::size_t>(highest_ + 1));
    m_->special.resize(m_->bytes.size());
    if (m_->ignore_merges) m_->words.reserve(m_->ids.size());
    for (const auto& [text, id] : m_->ids) {
      std::string& bytes = m_->bytes[static_cast<std::size_t>(id)];
      unsigned byte = 0;
      if (m_->byte_level) {
        bytes = without_stand_ins(text);
        if (bytes.size() == 1 && text.size() <= 2) set_byte(bytes[0], id);
      } else if (m_->byte_fallback && text.size() == 6 && std::sscanf(text.c_str(), "<0x%02X>", &byte) == 1 &&
                 text[5] == '>') {
        bytes = std::string(1, static_cast<char>(byte));
        set_byte(bytes[0], id);
      } else {
        bytes = marks ? with_spaces(text) : text;
        std::size_t length = 0;
        const char32_t c = text.empty() ? 0 : decode_utf8(text, 0, length);
        if (length > 0 && length == text.size()) m_->char_ids[c] = static_cast<std::int32_t>(id);
      }
      if (m_->ignore_merges) {
        const std::string& word = m_->byte_level ? bytes : text;
        m_->words[word] = static_cast<std::int32_t>(id);
        check_crowd(m_->words, word, "tokens");
      }
    }
    for (const AddedToken& token : added_) {
      m_->bytes[static_cast<std::size_t>(token.id)] = token.content;
      m_->special[static_cast<std::size_t>(token.id)] = token.special;
    }
  }
  void set_byte(char byte, std::int64_t id) {
    m_->byte_ids[static_cast<unsigned char>(byte)] = static_cast<std::int32_t>(id);
  }
  static std::string without_stand_ins(const std::string& text) {
    std::string bytes;
    for (const char32_t c : decode_utf8(text)) {
      const int byte = byte_of_stand_in(c);
      if (byte < 0) return text;  // an added token that is part of the vocabulary
      bytes += static_cast<char>(byte);
    }
    return bytes;
  }
  static std::string with_spaces(std::string text) {
    replace_all(text, kSpaceMark, " ");
    return text;
  }

  void merges(const Json& list) {
    const Json::List& items = list_of(list, "the merges are no list");
    m_->merges.reserve(items.size());
    for (const Json& item : items) {
      if (const std::string* text = item.text()) {
        const std::size_t space = text->find(' ');
        check(space != std::string::npos, "merge ", rank_, " (", printable(*text), ") is no pair of tokens");
        merge(text->substr(0, space), text->substr(space + 1));
      } else {
        const Json::List& pair = list_of(item, "merge ", rank_, " is no pair of tokens");
        check(pair.size() == 2 && pair[0].text() && pair[1].text(), "merge ", rank_, " is no pair of tokens");
        merge(*pair[0].text(), *pair[1].text());
      }
    }
  }
  void merge(const std::string& left, const std::string& right) {
    const auto id = [&](const std::string& token) {
      const auto found = m_->ids.find(token);
      check(found != m_->ids.end(), "merge ", rank_, " (", printable(left), " with ", printable(right),
            ") needs the token ", printable(token), ", which is not in the vocabulary");
      return static_cast<std::int32_t>(found->second);
    };
    // The first of two equal merges has the lower rank, but the last one counts, as in the original.
    const std::uint64_t pair = BpeModel::pair(id(left), id(right));
    m_->merges[pair] = {rank_, id(left + right)};
    check_crowd(m_->merges, pair, "merges");
    ++rank_;
  }

  void post_processor(const Json& p, int depth) {
    if (p.is_null()) return;
    check(depth < kMaxNesting, "post-processors are nested too deeply");
    const std::string type = text_of(p, "type", "");
    if (type == "Sequence") {
      for (const Json& part : list_of(member(p, "processors"), "a Sequence of post-processors is a list"))
        post_processor(part, depth + 1);
      return;
    }
    if (type == "ByteLevel") return;  // about offsets alone
    if (type != "TemplateProcessing") {
      m_->after_problem = "the post-processor " + printable(type).str() + " of " +
                          printable_path(name_).str() + " is not known";
      return;
    }
    bool behind = false;
    for (const Json& item : list_of(member(p, "single"), "the template of a single text is no list")) {
      check(item.is_object(), "the template of a single text holds something other than objects");
      if (item.find("Sequence")) {
        behind = true;
        continue;
      }
      const std::string key = text_of(member(item, "SpecialToken"), "id", "");
      const Json& token = member(member(p, "special_tokens"), key);
      for (const Json& id :
           list_of(member(token, "ids"), "the special token ", printable(key), " has no list of ids")) {
        const std::int64_t number = id_of(id, key);
        check(number <= highest_, "the special token ", printable(key), " has the id ", number,
              "; the highest is ", highest_);
        (behind ? m_->after : m_->before).push_back(number);
        check(m_->before.size() + m_->after.size() <= kMaxTemplate, "the post-processor puts more than ",
              kMaxTemplate, " tokens around a text");
      }
    }
  }

  const std::string& name_;
  std::unique_ptr<BpeModel> m_;
  std::vector<AddedToken> added_;
  std::int64_t highest_ = -1;
  std::uint32_t rank_ = 0;
};

}  // namespace

std::unique_ptr<const BpeModel> read_bpe(std::string_view text, const std::string& name) {
  const Json file =
      io::parse_json({kBpe, name, "the text is", "it is truncated, or no tokenizer.json"}, text);
  Reader reader(name);
  reader.model().json = text;
  return reader.read(file);
}

std::unique_ptr<const BpeModel> read_bpe(std::string_view vocab, std::string_view merges,
                                         const std::string& name) {
  Json tokens = io::parse_json({kBpe, name, "the vocabulary is", "it is truncated, or no vocab.json"}, vocab);
  Reader(name).check(tokens.is_object(),
                     "is no JSON object of tokens and ids; it is truncated, or no vocab.json");
  Json::List added, pairs;
  constexpr char kEnd[] = "<|endoftext|>";
  if (const Json* id = tokens.find(kEnd))
    added.push_back(Json::object({{"id", *id}, {"content", kEnd}, {"special", true}}));
  for (std::size_t at = 0; at < merges.size();) {
    std::size_t end = std::min(merges.find('\n', at), merges.size());
    const std::size_t next = end + 1;
    if (end > at && merges[end - 1] == '\r') --end;
    const std::string_view line = merges.substr(at, end - at);
    Reader(name).check(ct::detail::is_utf8(line), "its merges hold ", printable(line),
                       ", which is not UTF-8");
    if (!line.empty() && !(at == 0 && line.starts_with("#version"))) pairs.emplace_back(std::string(line));
    at = next;
  }
  const auto byte_level = [](bool add_space) {
    const char* key = add_space ? "decoder" : "pre_tokenizer";
    const char* option = "add_prefix_space";
    return Json::Member(key, Json::object({{"type", "ByteLevel"}, {option, add_space}, {"use_regex", true}}));
  };
  std::vector<Json::Member> model = {{"type", "BPE"}, {"vocab", {}}, {"merges", std::move(pairs)}};
  model[1].second = std::move(tokens);
  const Json file = Json::object({{"version", "1.0"},
                                  {"added_tokens", std::move(added)},
                                  {"normalizer", {}},
                                  byte_level(false),
                                  {"post_processor", {}},
                                  byte_level(true),
                                  {"model", Json::object(std::move(model))}});
  return read_bpe(file.dump(kBpe), name);
}

}  // namespace ct::text::detail
