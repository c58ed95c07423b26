#include <cotangent/nn/data/tokens.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/philox.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/nn/data/dataset.h>
#include <cotangent/nn/data/tokens_internal.h>
#include <cotangent/nn/io/atomic_file.h>

namespace ct::data {

static_assert(std::endian::native == std::endian::little, "token files are read as they lie in memory");

struct Tokens::Source {
  std::string name;
  std::shared_ptr<const io::ByteSource> bytes;  // null: the tokens are in `memory`
  std::vector<std::uint32_t> memory;
  std::uint64_t first_byte = 0;
  int width = 4;  // bytes of a token
  std::int64_t count = 0;
};

namespace {

constexpr char kOpen[] = "Tokens::open";
constexpr std::size_t kHeaderWords = 256, kHeaderBytes = 4 * kHeaderWords;
constexpr std::uint32_t kMagic16 = 20240520, kMagic32 = 20240801, kMagicChoices = 20240522;
constexpr std::uint32_t kVersion16 = 1, kVersion32 = 7;

// Keeps the places of windows apart from what a default generator with the same seed draws.
constexpr std::uint64_t kWindowStream = 0x70C325077A57ull;

}  // namespace

Tokens open_tokens(std::shared_ptr<const io::ByteSource> bytes) {
  auto source = std::make_shared<Tokens::Source>();
  source->name = bytes->name();
  std::uint32_t header[3] = {};
  if (bytes->size() >= sizeof header) bytes->read(0, header, sizeof header);
  bytes->check(header[0] != kMagicChoices, kOpen,
               "holds llm.c's multiple-choice questions; a file of plain tokens is wanted");
  if (header[0] == kMagic16 || header[0] == kMagic32) {
    const bool wide = header[0] == kMagic32;
    const std::uint32_t version = wide ? kVersion32 : kVersion16;
    bytes->check(header[1] == version, kOpen, "is of version ", header[1],
                 " of llm.c's token files; version ", version, " is known for files that start with ",
                 header[0]);
    source->width = wide ? 4 : 2;
    source->first_byte = kHeaderBytes;
    // A signed word there, but nothing forbids reading twice as many.
    const std::uint64_t wanted = kHeaderBytes + std::uint64_t{header[2]} * (wide ? 4 : 2);
    bytes->check(bytes->size() == wanted, kOpen, "has ", bytes->size(), " bytes, but its header announces ",
                 header[2], " tokens, which take ", wanted,
                 "; it is truncated or something was added: make it again");
    source->count = header[2];
  } else {
    bytes->check(bytes->size() % 2 == 0, kOpen, "has an odd number of bytes (", bytes->size(),
                 "); tokens of 16 bits are wanted: it is truncated, or no token file");
    source->width = 2;
    source->count = static_cast<std::int64_t>(bytes->size() / 2);
  }
  source->bytes = std::move(bytes);
  return Tokens(std::move(source));
}

Tokens Tokens::open(const std::string& path) { return open_tokens(io::open_file(kOpen, path)); }

Tokens Tokens::from_vector(const std::vector<std::int64_t>& tokens, std::string name) {
  auto source = std::make_shared<Source>();
  source->name = std::move(name);
  source->memory.reserve(tokens.size());
  for (const std::int64_t token : tokens) {
    CT_CHECK(token >= 0 && token <= std::int64_t{UINT32_MAX}, ValueError, "Tokens::from_vector", "token ",
             source->memory.size(), " is ", token, "; tokens lie in [0, 2^32)");
    source->memory.push_back(static_cast<std::uint32_t>(token));
  }
  source->count = static_cast<std::int64_t>(tokens.size());
  return Tokens(std::move(source));
}

Tokens::Tokens(std::shared_ptr<const Source> source) : source_(std::move(source)), end_(source_->count) {}
Tokens::Tokens(std::shared_ptr<const Source> source, std::int64_t begin, std::int64_t end)
    : source_(std::move(source)), begin_(begin), end_(end) {}

const std::string& Tokens::name() const { return source().name; }

const Tokens::Source& Tokens::source() const {
  CT_CHECK(source_, Error, "Tokens", "the tokens were moved from; use what they were moved to");
  return *source_;
}

void Tokens::read(std::int64_t start, std::span<std::int64_t> to) const {
  const std::int64_t count = static_cast<std::int64_t>(to.size());
  CT_CHECK(start >= 0 && start <= size() && count <= size() - start, IndexError, "Tokens::read", "tokens [",
           start, ", ", start + count, ") of ", printable_path(name()), " were asked for; it has ", size(),
           ": ask for a part of those");
  if (count == 0) return;
  const std::int64_t first = begin_ + start;
  const Source& from = source();
  if (!from.bytes) {
    std::copy_n(from.memory.begin() + first, count, to.begin());
    return;
  }
  // Read to the end of the room and spread from the front: a token never overtakes one that is still packed.
  const std::size_t width = static_cast<std::size_t>(from.width), packed = to.size() * width;
  char* room = reinterpret_cast<char*>(to.data()) + to.size_bytes() - packed;
  from.bytes->read(from.first_byte + static_cast<std::uint64_t>(first) * width, room, packed);
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::uint32_t token = 0;
    std::memcpy(&token, room + i * width, width);
    to[i] = token;
  }
}

Tokens Tokens::part(std::int64_t start, std::int64_t count) const {
  CT_CHECK(start >= 0 && count >= 0 && start <= size() && count <= size() - start, IndexError, "Tokens::part",
           "the part of ", count, " tokens from ", start, " on was asked for; '", name(), "' has ", size(),
           ": ask for fewer");
  source();
  return Tokens(source_, begin_ + start, begin_ + start + count);
}

std::pair<Tokens, Tokens> Tokens::split(double last) const {
  CT_CHECK(last >= 0 && last <= 1, ValueError, "Tokens::split", "got the share ", last,
           "; it must lie in [0, 1]");
  const auto second = static_cast<std::int64_t>(std::floor(static_cast<double>(size()) * last));
  return {part(0, size() - second), part(size() - second, second)};
}

void save_tokens(const std::string& path, std::span<const std::int64_t> tokens, TokenFormat format) {
  constexpr char op[] = "save_tokens";
  const std::size_t width = format == TokenFormat::llmc32 ? 4 : 2;
  const std::int64_t limit = width == 4 ? std::int64_t{1} << 32 : 1 << 16;
  std::string bytes;
  bytes.reserve(kHeaderBytes + tokens.size() * width);
  if (format != TokenFormat::raw) {
    CT_CHECK(tokens.size() <= INT32_MAX, ValueError, op, "got ", tokens.size(),
             " tokens; the header counts up to 2^31 - 1: write several files, or raw ones");
    std::uint32_t header[kHeaderWords] = {width == 4 ? kMagic32 : kMagic16,
                                          width == 4 ? kVersion32 : kVersion16,
                                          static_cast<std::uint32_t>(tokens.size())};
    bytes.append(reinterpret_cast<const char*>(header), sizeof header);
  }
  for (const std::int64_t token : tokens) {
    CT_CHECK(token >= 0 && token < limit, ValueError, op, "got the token ", token,
             "; this format holds those in [0, ", limit, ")");
    bytes.append(reinterpret_cast<const char*>(&token), width);
  }
  io::write_file(path, bytes);
}

TokenDataset::TokenDataset(Tokens tokens, TokenDatasetOptions options)
    : tokens_(std::move(tokens)), options_(options) {
  CT_CHECK(options.block > 0, ValueError, "TokenDataset", "block is ", options.block, "; it must be > 0");
  CT_CHECK(options.vocab_size >= 0, ValueError, "TokenDataset", "vocab_size is ", options.vocab_size,
           "; it must be > 0, or 0 for no check");
  CT_CHECK(tokens_.size() > options.block, ValueError, "TokenDataset", printable_path(tokens_.name()),
           " gives ", tokens_.size(), " tokens, a window takes ", options.block,
           " and the one that follows; use a longer text or a shorter block");
}

std::int64_t TokenDataset::size() const {
  return options_.random ? std::int64_t{1} << 62 : (tokens_.size() - 1) / options_.block;
}

std::int64_t TokenDataset::start_of(std::int64_t i) const {
  CT_CHECK(i >= 0 && i < size(), IndexError, "TokenDataset", "window ", i,
           " is out of range; it must lie in [0, ", size(), ')');
  if (!options_.random) return i * options_.block;
  const GeneratorState draw{options_.seed ^ kWindowStream, 0};
  return philox_integer(draw, static_cast<std::uint64_t>(i), 0, tokens_.size() - options_.block);
}

std::array<Tensor, 2> TokenDataset::get_batch(std::span<const std::int64_t> windows) const {
  const std::int64_t rows = static_cast<std::int64_t>(windows.size()), block = options_.block;
  const Tensor x = allocate_batch({rows, block}, i64), y = allocate_batch({rows, block}, i64);
  std::vector<std::int64_t> window(static_cast<std::size_t>(block) + 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t start = start_of(windows[static_cast<std::size_t>(r)]);
    tokens_.read(start, window);
    if (options_.vocab_size > 0) {
      const auto worst = std::max_element(window.begin(), window.end());
      CT_CHECK(*worst < options_.vocab_size, IndexError, "TokenDataset", printable_path(tokens_.name()),
               " holds the token ", *worst, " at position ",
               tokens_.begin() + start + (worst - window.begin()), "; the vocabulary ends at ",
               options_.vocab_size - 1,
               ": the model needs a larger one, or the file is of another tokenizer");
    }
    std::copy_n(window.begin(), block, x.data<std::int64_t>() + r * block);
    std::copy_n(window.begin() + 1, block, y.data<std::int64_t>() + r * block);
  }
  return {x, y};
}

}  // namespace ct::data
