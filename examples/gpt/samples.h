#pragma once

#include <cstdint>
#include <map>
#include <sstream>
#include <string>

#include "examples/common/run_record.h"

/// samples.txt: what the model wrote after each evaluation, below a line "--- step 200: 300 bytes ---".
class Samples {
 public:
  /// Reads the samples of a resumed run's earlier part; none if there is no such file.
  void load(const std::string& path) {
    std::istringstream in(text_of(path));
    std::string line;
    while (std::getline(in, line)) {
      long long step = 0, bytes = 0;
      if (std::sscanf(line.c_str(), "--- step %lld: %lld bytes ---", &step, &bytes) != 2 || bytes < 0 ||
          static_cast<std::size_t>(bytes) > in.str().size())
        return;  // damaged from here on
      std::string text(static_cast<std::size_t>(bytes), ' ');
      if (!in.read(text.data(), bytes)) return;
      in.ignore();  // the end of its last line
      texts_[step] = text;
    }
  }
  /// Adds one; it takes the place of those that are as far or further.
  void add(std::int64_t step, const std::string& text) {
    texts_.erase(texts_.lower_bound(step), texts_.end());
    texts_[step] = text;
  }
  /// The whole file.
  std::string text() const {
    std::string out;
    for (const auto& [step, text] : texts_)
      out += "--- step " + std::to_string(step) + ": " + std::to_string(text.size()) + " bytes ---\n" + text +
             "\n";
    return out;
  }

 private:
  std::map<std::int64_t, std::string> texts_;
};
