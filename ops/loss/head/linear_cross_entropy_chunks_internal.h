#pragma once

#include <cotangent/ops/engine/gemm/product.h>
#include <cotangent/ops/loss/classes/class_loss_internal.h>
#include <cotangent/ops/loss/head/linear_cross_entropy_internal.h>

// The walk over chunks of rows, the same on every device, and what a device adds to its matrix products.

namespace ct::loss::head {

/// Some rows of logits on their way to being rows of gradients.
struct Chunk {
  DType dtype = DType::f32;
  std::int64_t rows = 0, classes = 0;
  std::int64_t pitch = 0;  // from row to row; rows start at multiples of 64 bytes
  void* logits = nullptr;
  loss::Labels labels;       // of these rows, as are:
  void* log_sums = nullptr;  // lse is log_sum + rest, as in cross_entropy
  void* rests = nullptr;
  void* losses = nullptr;
  std::int64_t ignore_index = 0;
  double smoothing = 0;
  // The cotangent of the loss, one for each row or one for all, and what the loss was divided by, both in the
  // compute type. Null: 1.
  const void* cotangent = nullptr;
  bool each = false;
  const void* divisor = nullptr;
};

enum class Step : std::uint8_t {
  losses,    ///< writes log_sums, rests and losses
  both,      ///< the same, then the logits' gradient over the logits
  gradient,  ///< the logits' gradient over the logits; reads log_sums and rests
};

struct DeviceSteps {
  const gemm::Backend& backend;
  std::int64_t chunk_bytes;  // of logits, about
  /// Throws for a label out of range, or has `rows` report it and count it as ignored.
  void (*check)(const loss::Labels& labels, std::int64_t rows, std::int64_t classes,
                std::int64_t ignore_index);
  void (*rows)(Step step, const Chunk& chunk);
  /// Over all rows: writes the divisor, and the loss (or the losses) into `out`.
  void (*reduce)(const Chunk& all, Reduction reduction, void* divisor, const Tensor& out);
  /// to = from * cotangent / divisor (+ to). Null cotangent: 1. Nothing counted (divisor 0): 0. `from` and
  /// `to` are contiguous, of the dtype or, `from` alone or both, its accumulating type, and may be the same
  /// memory.
  void (*scale)(const Tensor& from, const Tensor& to, bool accumulate, DType dtype, const void* cotangent,
                const void* divisor);
};

void forward(const Forward& f, const DeviceSteps& device);
void scale(const Backward& b, const DeviceSteps& device);
void recompute(const Backward& b, const DeviceSteps& device);

}  // namespace ct::loss::head
