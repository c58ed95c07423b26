#pragma once

#include <cotangent/cotangent.h>

#include <cstdio>
#include <string>

#include "examples/gpt/corpus.h"
#include "examples/gpt/options.h"

// Cost of a step beside the machine's peak, and the lines and figures that report it.

/// Floating-point operations of forward and backward for one token: six for each weight that a token is
/// multiplied with, and the products of attention with itself (Chowdhery et al., PaLM, 2022, appendix B).
/// Work that --recompute repeats counts once.
inline double flops_per_token(const ct::nn::models::LanguageModel& model, std::int64_t block) {
  const ct::nn::models::ModelSizes s = model.sizes();
  double weights = 0;
  for (const auto& [name, parameter] : model.named_parameters())
    if (name.find("wpe") == std::string::npos) weights += static_cast<double>(parameter.numel());
  return 6 * weights + 12 * static_cast<double>(s.layers * s.heads * s.head_dim * block);
}

/// The highest rate of dense products of a GPU by its data sheet, or 0 if it is not known here.
inline double peak_flops(ct::Device device, const std::string& dtype) {
  if (!device.is_cuda()) return 0;
  struct Row {
    const char* name;
    double low_precision, f32;
  };
  static constexpr Row rows[] = {
      {"H100 PCIe", 756e12, 51e12},  {"H100", 989e12, 67e12},     {"H200", 989e12, 67e12},
      {"GH200", 989e12, 67e12},      {"H800", 989e12, 67e12},     {"B200", 2250e12, 75e12},
      {"A100", 312e12, 19.5e12},     {"A800", 312e12, 19.5e12},   {"L40S", 362e12, 91.6e12},
      {"RTX 4090", 165e12, 82.6e12}, {"RTX 3090", 71e12, 35.6e12}};
  const std::string name = ct::cuda_properties(device.index).name;
  for (const Row& row : rows)
    if (name.find(row.name) != std::string::npos) return dtype == "f32" ? row.f32 : row.low_precision;
  return 0;
}

/// "12.3k", "1.2M"
inline std::string short_count(double n) {
  char text[32];
  if (n < 1e3) {
    std::snprintf(text, sizeof text, "%.0f", n);
  } else if (n < 1e6) {
    std::snprintf(text, sizeof text, "%.1fk", n / 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.1fM", n / 1e6);
  }
  return text;
}

/// "85 MiB", "27.3 GiB"
inline std::string bytes_text(std::size_t bytes) {
  char text[32];
  const double mib = static_cast<double>(bytes) / (1 << 20);
  std::snprintf(text, sizeof text, mib < 1024 ? "%.0f MiB" : "%.1f GiB", mib < 1024 ? mib : mib / 1024);
  return text;
}

/// "1.2346" with four digits.
inline std::string fixed(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// "0.002", with two digits that count.
inline std::string short_number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

/// First lines of a run: its text, its model and its number of steps.
inline std::string introduction(const Options& o, const Corpus& corpus,
                                const ct::nn::models::LanguageModel& model, bool evaluates,
                                const std::string& ranks) {
  const ct::nn::models::ModelSizes s = model.sizes();
  const auto count = [](std::int64_t n) { return short_count(static_cast<double>(n)); };
  return ct::detail::cat("data     ", corpus.name, ": ", count(corpus.train.size()), " tokens to train on, ",
                         count(corpus.val.size()), " to evaluate on",
                         corpus.val.size() > 0 && !evaluates ? " (less than a block: not done)" : "",
                         ", vocabulary ", corpus.vocabulary, "\nmodel    ", o.model, ", ", s.layers,
                         " layers, ", s.heads, " heads, width ", s.width, ", block ", o.block, ": ",
                         count(model.num_parameters()), " parameters, ", o.dtype, " on ", o.device, " (",
                         ct::num_threads(), " threads)", ranks, "\nsteps    ", o.iters, " of ", o.accumulate,
                         " x ", o.batch, " sequences, ",
                         short_count(static_cast<double>(o.accumulate) * static_cast<double>(o.batch) *
                                     static_cast<double>(o.block)),
                         " tokens each\n");
}
