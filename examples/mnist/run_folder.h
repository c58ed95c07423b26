#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "examples/mnist/images.h"
#include "examples/mnist/options.h"

/// A line of metrics.csv.
struct Metrics {
  std::int64_t epoch;
  double loss, accuracy, test_loss, test_accuracy, lr, seconds, samples_per_s;
};

/// Where a run leaves its files: config.json, metrics.csv, loss.svg, checkpoints, misclassified.svg. Every
/// file appears as a whole or not at all.
class RunFolder {
 public:
  /// Makes the folder: --out, else the one that is resumed, else runs/mnist-DATE-TIME. Throws ct::IoError.
  explicit RunFolder(const Options& options);
  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const;
  /// Adds a line to metrics.csv and draws loss.svg anew.
  void add_metrics(const Metrics& metrics);
  /// The checkpoint that --resume names: itself, or the last one in a run folder.
  static std::string checkpoint_in(const std::string& path);

 private:
  std::string path_;
  std::vector<Metrics> metrics_;
};

/// A test image that the model got wrong.
struct WrongImage {
  std::int64_t index, label, guess;
};

/// A sheet of wrong guesses as SVG. `total` is how many there are in all.
std::string draw_misclassified(const ImageSet& images, const std::vector<WrongImage>& wrong,
                               std::int64_t total);
