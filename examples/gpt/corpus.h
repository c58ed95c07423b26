#pragma once

#include <cotangent/cotangent.h>

#include <memory>
#include <string>

#include "examples/gpt/options.h"

/// Training data: a text or a token file.
struct Corpus {
  std::string name;   // for people
  std::string place;  // the absolute path of the file, or of the sources
  ct::data::Tokens train, val;
  std::shared_ptr<const ct::text::Tokenizer> tokenizer;  // null: token files without one
  std::int64_t vocabulary = 0;
};

/// Reads --tokens, --text, or the sources of this project, which it knows the place of. Throws ct::IoError
/// and what the tokenizers throw.
Corpus load_corpus(const Options& options);

/// A run may be resumed from anywhere, so its settings say where its data is from anywhere.
Options with_absolute_paths(Options options);

/// Checks that a resumed run's tokenizer equals the tokenizer.json at `path` that the run began with: else
/// the ids would stand for other tokens. Throws ct::ValueError.
void check_tokenizer(const Corpus& corpus, const std::string& path);

/// `count` windows for an evaluation: the same ones each time, spread evenly over the text.
ct::data::Subset<ct::data::TokenDataset> spread(const ct::data::TokenDataset& windows, std::int64_t count);

/// Tells two corpora apart by their tokens. A file with more than 16 million is sampled at a thousand
/// places.
std::string fingerprint(const Corpus& corpus);
