#pragma once

#include <cotangent/cotangent.h>

#include <memory>
#include <string>

#include "examples/gpt/options.h"

/// What is learned.
struct Corpus {
  std::string name;
  ct::data::Tokens train, val;
  std::shared_ptr<const ct::text::Tokenizer> tokenizer;  // null: token files without one
  std::int64_t vocabulary = 0;
};

/// Reads --tokens, --text, or the sources of this project, which it knows the place of. Throws ct::IoError
/// and what the tokenizers throw.
Corpus load_corpus(const Options& options);

/// Tells two corpora apart by their tokens. Of a file with more than 16 million, those of a thousand places.
std::string fingerprint(const Corpus& corpus);

/// A whole file. Throws ct::IoError.
std::string read_text(const std::string& path);
