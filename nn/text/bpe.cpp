#include <cotangent/nn/text/bpe.h>

#include <algorithm>
#include <filesystem>
#include <queue>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/printable.h>
#include <cotangent/nn/io/atomic_file.h>
#include <cotangent/nn/io/source_internal.h>
#include <cotangent/nn/text/bpe_internal.h>
#include <cotangent/nn/text/unicode_internal.h>

namespace ct::text {
namespace detail {

char32_t stand_in_of(unsigned char byte) {
  const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
  if (printable) return byte;
  // The others follow each other from 256 on.
  if (byte <= ' ') return 256u + byte;
  return byte <= 0xA0 ? 256u + 33 + (byte - 0x7Fu) : 256u + 67;
}

int byte_of_stand_in(char32_t code) {
  static const auto table = [] {
    std::array<int, 324> all;
    all.fill(-1);
    for (int b = 0; b < 256; ++b) all[stand_in_of(static_cast<unsigned char>(b))] = b;
    return all;
  }();
  return code < table.size() ? table[code] : -1;
}

bool replace_all(std::string& text, std::string_view from, std::string_view to, std::size_t room) {
  std::string replaced;
  for (std::size_t at = 0;;) {
    const std::size_t found = std::min(text.find(from, at), text.size());
    const bool last = found == text.size();
    if (replaced.size() + (found - at) + (last ? 0 : to.size()) > room) return false;
    replaced.append(text, at, found - at);
    if (last) break;
    replaced += to;
    at = found + from.size();
  }
  text = std::move(replaced);
  return true;
}

std::optional<std::string> BpeModel::normalize(std::string_view text, std::size_t room) const {
  std::string out(text);
  for (const Normalizer& n : normalizers) {
    if (!n.prepend) {
      if (!replace_all(out, n.from, n.to, room)) return std::nullopt;
    } else if (!out.empty()) {
      if (out.size() + n.to.size() > room) return std::nullopt;
      out.insert(0, n.to);
    }
  }
  return out;
}

namespace {

using Words = std::vector<std::string_view>;

// The way of one text through the model.
class Encoder {
 public:
  Encoder(const BpeModel& model, std::vector<std::int64_t>& ids) : m_(model), ids_(ids) {}

  void encode(std::string_view text) {
    bytes_ = text.size();
    room_to_normalize_ = room_to_cut_ = room_for(bytes_);
    between(m_.added, text, [&](std::string_view piece, bool first) {
      if (m_.normalizers.empty()) {
        normalized(piece, first);
      } else {
        const std::optional<std::string> changed = m_.normalize(piece, room_to_normalize_);
        check_growth(changed.has_value(), "normalizers");
        room_to_normalize_ -= changed->size();
        normalized(*changed, first);
      }
    });
  }

 private:
  // Calls `piece` for the text between added tokens.
  template <class F>
  void between(const AddedTokens& added, std::string_view text, F&& piece) {
    for (std::size_t at = 0; at < text.size();) {
      const AddedTokens::Found found = added.find(text, at);
      if (found.begin > at) piece(text.substr(at, found.begin - at), at == 0);
      if (!found.token) break;
      ids_.push_back(found.token->id);
      at = found.end;
    }
  }

  void normalized(std::string_view text, bool first) {
    between(m_.added_normalized, text, [&](std::string_view piece, bool inner_first) {
      kept_.clear();
      budget_.allow(piece.size());
      Words words = {piece};
      for (const Cut& cut : m_.cuts) {
        Words next;
        for (const std::string_view word : words)
          apply(cut, word, first && inner_first && word.data() == piece.data(), next);
        words = std::move(next);
      }
      for (const std::string_view word : words) encode_word(word);
    });
  }

  void check_growth(bool ok, const char* parts) const {
    CT_CHECK(ok, ValueError, kBpe, "the ", parts, " make more than ", kGrowth, " times as long a text of ",
             bytes_, " bytes (and more than ", room_for(bytes_),
             " bytes); they lengthen what others have lengthened: correct them in the tokenizer's file");
  }
  std::string_view keep(std::string text) {
    check_growth(text.size() <= room_to_cut_, "pre-tokenizers");
    room_to_cut_ -= text.size();
    return kept_.emplace_back(std::move(text));
  }

  void apply(const Cut& cut, std::string_view word, bool first, Words& out) {
    switch (cut.kind) {
      case Cut::Kind::byte_level:
        if (cut.add_prefix && !word.starts_with(' ')) word = keep(" " + std::string(word));
        if (!cut.pattern) return out.push_back(word);
        [[fallthrough]];
      case Cut::Kind::split: return split(cut, word, out);
      case Cut::Kind::metaspace: return metaspace(cut, word, first, out);
      case Cut::Kind::digits: return digits(cut, word, out);
    }
  }

  void read_codes(std::string_view word) {
    codes_.clear(), offsets_.clear();
    for (std::size_t at = 0, length = 0; at < word.size(); at += length) {
      codes_.push_back(decode_utf8(word, at, length));
      offsets_.push_back(at);
    }
    offsets_.push_back(word.size());
  }
  std::string_view part(std::string_view word, std::size_t begin, std::size_t end) const {
    return word.substr(offsets_[begin], offsets_[end] - offsets_[begin]);
  }

  void split(const Cut& cut, std::string_view word, Words& out) {
    read_codes(word);
    cut.pattern->find_all(codes_, matches_, budget_);
    std::size_t at = 0;
    const auto rest = [&](std::size_t end) {
      if (cut.keep_rest && end > at) out.push_back(part(word, at, end));
    };
    for (const Pattern::Match& match : matches_) {
      rest(match.begin);
      if (cut.keep_matches) out.push_back(part(word, match.begin, match.end));
      at = match.end;
    }
    rest(codes_.size());
  }

  void metaspace(const Cut& cut, std::string_view word, bool first, Words& out) {
    std::string changed;
    for (const char c : word) c == ' ' ? void(changed += cut.replacement) : void(changed += c);
    const bool wanted = cut.prepend == Cut::Prepend::always || (cut.prepend == Cut::Prepend::first && first);
    if (wanted && !changed.starts_with(cut.replacement)) changed.insert(0, cut.replacement);
    const std::string_view all = keep(std::move(changed));
    if (!cut.split_at_replacement) return out.push_back(all);
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t next = std::min(all.find(cut.replacement, at + 1), all.size());
      out.push_back(all.substr(at, next - at));
      at = next;
    }
  }

  void digits(const Cut& cut, std::string_view word, Words& out) {
    read_codes(word);
    const auto digit = [&](std::size_t i) {
      const Category k = category_of(codes_[i]);
      return k == Category::Nd || k == Category::Nl || k == Category::No;
    };
    for (std::size_t at = 0; at < codes_.size();) {
      std::size_t end = at + 1;
      while (end < codes_.size() && digit(end) == digit(at) && !(digit(at) && cut.individually)) ++end;
      out.push_back(part(word, at, end));
      at = end;
    }
  }

  // --- words to tokens ---
  void encode_word(std::string_view word) {
    if (m_.ignore_merges)
      if (const auto whole = m_.words.find(word); whole != m_.words.end())
        return ids_.push_back(whole->second);
    if (const auto known = cache_.find(word); known != cache_.end()) {
      ids_.insert(ids_.end(), known->second.begin(), known->second.end());
      return;
    }
    first_symbols(word);
    merge();
    const std::size_t before = ids_.size();
    for (std::int32_t i = symbols_.empty() ? -1 : 0; i >= 0; i = symbols_[static_cast<std::size_t>(i)].next)
      ids_.push_back(symbols_[static_cast<std::size_t>(i)].id);
    if (word.size() < 64 && cache_.size() < 100000)
      cache_.emplace(
          word, std::vector<std::int64_t>(ids_.begin() + static_cast<std::ptrdiff_t>(before), ids_.end()));
  }

  struct Symbol {
    std::int32_t id, previous, next;
    bool gone = false;
  };

  void push(std::int32_t id) {
    const auto n = static_cast<std::int32_t>(symbols_.size());
    if (n > 0) symbols_.back().next = n;
    symbols_.push_back({id, n - 1, -1});
  }

  void first_symbols(std::string_view word) {
    symbols_.clear();
    if (m_.byte_level) {
      for (const char c : word) {
        const auto byte = static_cast<unsigned char>(c);
        push_known(m_.byte_ids[byte], byte < 0x80 ? char32_t{byte} : kBadByte + byte);
      }
      return;
    }
    for (std::size_t at = 0, length = 0; at < word.size(); at += length) {
      const char32_t c = decode_utf8(word, at, length);
      if (const auto found = m_.char_ids.find(c); found != m_.char_ids.end()) {
        push(found->second);
        continue;
      }
      bool all = m_.byte_fallback;
      for (std::size_t i = 0; i < length; ++i)
        all = all && m_.byte_ids[static_cast<unsigned char>(word[at + i])] >= 0;
      if (!all) {
        push_known(-1, c);
        continue;
      }
      for (std::size_t i = 0; i < length; ++i) push(m_.byte_ids[static_cast<unsigned char>(word[at + i])]);
    }
  }
  void push_known(std::int32_t id, char32_t character) {
    if (id >= 0) return push(id);
    CT_CHECK(m_.unknown >= 0, ValueError, kBpe, show(character),
             " has no token in the vocabulary, which has no unknown token either; leave it out, or use a "
             "tokenizer "
             "that knows it");
    if (!(m_.fuse_unknown && !symbols_.empty() && symbols_.back().id == m_.unknown)) push(m_.unknown);
  }

  // Merges the neighbours of the earliest merge first, the leftmost before others.
  void merge() {
    for (std::size_t i = 0; i + 1 < symbols_.size(); ++i) consider(static_cast<std::int32_t>(i));
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      Symbol& left = symbols_[static_cast<std::size_t>(best.at)];
      if (left.gone || left.next < 0) continue;
      Symbol& right = symbols_[static_cast<std::size_t>(left.next)];
      const auto found = m_.merges.find(BpeModel::pair(left.id, right.id));
      if (found == m_.merges.end() || found->second.id != best.id) continue;  // changed since
      left.id = best.id;
      right.gone = true;
      left.next = right.next;
      if (right.next >= 0) symbols_[static_cast<std::size_t>(right.next)].previous = best.at;
      if (left.previous >= 0) consider(left.previous);
      consider(best.at);
    }
  }
  void consider(std::int32_t at) {
    const Symbol& left = symbols_[static_cast<std::size_t>(at)];
    if (left.next < 0) return;
    const auto found =
        m_.merges.find(BpeModel::pair(left.id, symbols_[static_cast<std::size_t>(left.next)].id));
    if (found != m_.merges.end()) queue_.push({found->second.rank, at, found->second.id});
  }

  struct Candidate {
    std::uint32_t rank;
    std::int32_t at, id;
    bool operator<(const Candidate& other) const {  // the top of the queue is the largest
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };

  const BpeModel& m_;
  std::vector<std::int64_t>& ids_;
  // Budget of the whole text, which its pieces and words share.
  std::size_t bytes_ = 0, room_to_normalize_ = 0, room_to_cut_ = 0;
  Pattern::Budget budget_;
  std::deque<std::string> kept_;  // texts that words are parts of
  std::vector<char32_t> codes_;
  std::vector<std::size_t> offsets_;
  std::vector<Pattern::Match> matches_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> queue_;
  ByText<std::vector<std::int64_t>> cache_;
};

}  // namespace
}  // namespace detail

BpeTokenizer::BpeTokenizer(std::shared_ptr<const detail::BpeModel> model) : model_(std::move(model)) {}
BpeTokenizer::~BpeTokenizer() = default;
BpeTokenizer::BpeTokenizer(BpeTokenizer&&) noexcept = default;

BpeTokenizer BpeTokenizer::from_json(std::string_view json, const std::string& name) {
  return BpeTokenizer(detail::read_bpe(json, name));
}
BpeTokenizer BpeTokenizer::from_vocab_and_merges(std::string_view vocab, std::string_view merges,
                                                 const std::string& name) {
  return BpeTokenizer(detail::read_bpe(vocab, merges, name));
}

BpeTokenizer BpeTokenizer::load(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::string file = path;
  if (fs::is_directory(path, ignored)) {
    file = path + "/tokenizer.json";
    if (!fs::exists(file, ignored)) file = path + "/vocab.json";
    CT_CHECK(fs::exists(file, ignored), IoError, detail::kBpe, printable_path(path),
             " has neither tokenizer.json nor vocab.json; give the folder or file of a tokenizer");
  }
  const std::string text = io::read_text_file(detail::kBpe, file);
  if (fs::path(file).filename() != "vocab.json") return from_json(text, file);
  const std::string merges = (fs::path(file).parent_path() / "merges.txt").string();
  return from_vocab_and_merges(text, io::read_text_file(detail::kBpe, merges), file);
}

const detail::BpeModel& BpeTokenizer::model() const {
  CT_CHECK(model_, Error, detail::kBpe,
           "the tokenizer is empty because it was moved from; use the one it was moved to");
  return *model_;
}

std::int64_t BpeTokenizer::vocab_size() const { return static_cast<std::int64_t>(model().bytes.size()); }

std::vector<std::int64_t> BpeTokenizer::encode(std::string_view text, EncodeOptions options) const {
  const detail::BpeModel& m = model();
  std::vector<std::int64_t> ids;
  if (options.add_special) {
    CT_CHECK(m.after_problem.empty(), ValueError, detail::kBpe, m.after_problem,
             "; encode without add_special and add the tokens by hand");
    ids = m.before;
  }
  detail::Encoder(m, ids).encode(text);
  if (options.add_special) ids.insert(ids.end(), m.after.begin(), m.after.end());
  return ids;
}

std::vector<std::int64_t> BpeTokenizer::beginning() const { return model().before; }

std::string BpeTokenizer::token_bytes(std::int64_t id) const {
  CT_CHECK(id >= 0 && id < vocab_size(), IndexError, detail::kBpe, "token ", id,
           " is out of range; ids lie in [0, ", vocab_size(), ")");
  return model().bytes[static_cast<std::size_t>(id)];
}

std::string BpeTokenizer::decode(std::span<const std::int64_t> ids) const {
  const bool drop_first_space = model().drop_first_space;
  std::string text = Tokenizer::decode(ids);
  if (drop_first_space && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

void BpeTokenizer::save(const std::string& path) const { io::write_file(path, model().json); }

std::int64_t BpeTokenizer::find_token(std::string_view text) const {
  const auto found = model().ids.find(text);
  return found == model().ids.end() ? -1 : found->second;
}

bool BpeTokenizer::is_special(std::int64_t id) const {
  return id >= 0 && id < vocab_size() && model().special[static_cast<std::size_t>(id)];
}

}  // namespace ct::text
