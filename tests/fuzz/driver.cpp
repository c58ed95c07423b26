// Runs the parsers on changed copies of well-formed files, without a fuzzing engine: the same inputs for the
// same seed.
//   ct_fuzz [--rounds N] [--seed N] [--target NAME] [FILE...]
//   ct_fuzz [--target NAME] --seeds FOLDER
// With files, each is given to the parsers as it is (to repeat a finding: an input that kills the program is
// left in ct_fuzz-crash.bin). With --seeds the well-formed files are written to FOLDER/NAME/, for libFuzzer to start
// from.

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/targets.h"

namespace {

using ct::fuzz::Target;

const std::string* g_input = nullptr;

void keep_input(int signal) {
  const int fd = open("ct_fuzz-crash.bin", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd >= 0 && g_input && write(fd, g_input->data(), g_input->size()) < 0) _exit(1);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string change(std::string bytes, const std::string& other) {
    if (below(16) == 0) {
      ct::fuzz::change_json(bytes, random_);
      if (below(2)) return bytes;
    }
    for (std::uint64_t n = 1 + below(4); n > 0; --n) step(bytes, other);
    return bytes;
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void step(std::string& bytes, const std::string& other) {
    static const char* const tokens[] = {"[",
                                         "]",
                                         "{",
                                         "}",
                                         "\"",
                                         ",",
                                         ":",
                                         "-1",
                                         "1e9",
                                         "null",
                                         "18446744073709551615",
                                         "9223372036854775807",
                                         "\"shape\"",
                                         "\"F64\"",
                                         "'shape'",
                                         "True",
                                         "(",
                                         ")",
                                         "\\u0000",
                                         "__metadata__"};
    const std::uint64_t at = below(bytes.size() + 1);
    const bool inside = at < bytes.size();
    switch (below(9)) {
      case 0:
        if (inside) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        if (inside) bytes[at] = static_cast<char>(random_());
        break;
      case 2: bytes.resize(at); break;
      case 3: bytes.insert(at, 1, static_cast<char>(random_())); break;
      case 4: bytes.erase(at, 1 + below(8)); break;
      case 5: bytes.insert(at, tokens[below(std::size(tokens))]); break;
      case 6: {  // a length, count or offset at its limits
        static constexpr std::uint64_t values[] = {0,          1,          0x7f,      0xff,      0xffff,
                                                   0x7fffffff, 0xffffffff, INT64_MAX, UINT64_MAX};
        const std::uint64_t value = values[below(std::size(values))];
        const std::size_t width = std::size_t{1} << below(4);
        if (at + width <= bytes.size()) std::memcpy(bytes.data() + at, &value, width);
        break;
      }
      case 7:  // a digit, for numbers in text
        for (std::size_t i = at; i < bytes.size(); ++i) {
          if (bytes[i] < '0' || bytes[i] > '9') continue;
          bytes[i] = static_cast<char>('0' + below(10));
          break;
        }
        break;
      default: bytes.insert(at, other.substr(below(other.size()), below(64)));
    }
  }

  std::mt19937_64 random_;
};

bool run(const Target& target, const std::string& input) {
  g_input = &input;
  return target.run(std::as_bytes(std::span(input)));
}

void write_seeds(const Target& target, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::size_t n = 0;
  for (const std::string& seed : target.seeds())
    std::ofstream(folder / std::to_string(n++), std::ios::binary) << seed;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t rounds = 100000, seed = 1;
  std::string only, seeds_folder;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--") && i + 1 < argc) {
      const std::string value = argv[++i];
      if (word == "--rounds")
        rounds = std::stoull(value);
      else if (word == "--seed")
        seed = std::stoull(value);
      else if (word == "--target")
        only = value;
      else if (word == "--seeds")
        seeds_folder = value;
      else
        return std::cerr << "unknown option " << word << '\n', 2;
    } else {
      files.push_back(word);
    }
  }
  for (int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(signal, keep_input);
  for (const Target& target : ct::fuzz::targets()) {
    if (!only.empty() && only != target.name) continue;
    for (const std::string& file : files) {
      std::ifstream in(file, std::ios::binary);
      run(target, {std::istreambuf_iterator<char>(in), {}});
    }
    if (!seeds_folder.empty()) write_seeds(target, std::filesystem::path(seeds_folder) / target.name);
    if (!files.empty() || !seeds_folder.empty()) continue;
    const std::vector<std::string> seeds = target.seeds();
    if (seeds.empty()) continue;  // a format that this build does not read
    Mutator mutator(seed);
    for (const std::string& s : seeds)
      if (!run(target, s)) return std::cerr << target.name << ": a well-formed input was refused\n", 1;
    std::uint64_t accepted = 0;
    const std::uint64_t count = rounds / static_cast<std::uint64_t>(target.slower);
    for (std::uint64_t n = 0; n < count; ++n)
      accepted +=
          run(target, mutator.change(seeds[n % seeds.size()], seeds[(n / seeds.size()) % seeds.size()]));
    std::cout << target.name << ": " << count << " inputs, " << accepted << " accepted\n";
  }
}
