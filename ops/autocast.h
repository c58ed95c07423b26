#pragma once

#include <cotangent/autograd/autocast_mode.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

struct AutocastOptions {
  /// Whether a weight that is used several times is converted once. Costs the memory of the converted weights
  /// until the outermost guard ends.
  bool cache_weights = true;
};

/// Mixed precision: `ct::Autocast guard(ct::bf16);`. While it lives, each op that this thread calls picks
/// the dtype that suits it (docs/autocast.md lists them), on the CPU and on CUDA:
///   - products (matmul, linear, attention) convert f32 inputs to `dtype`, and their results have it;
///   - what loses digits (sums, exponentials, norms, softmax, losses) converts f16 and bf16 inputs to f32;
///     add_layer_norm and add_rms_norm, which stand between f32 sums and products, take 16-bit addends as
///     they are and give f32 sums and normalized rows of `dtype`;
///   - everything else converts inputs of different dtypes to the widest, and leaves one dtype alone.
/// Parameters stay f32, and so do their gradients, which products write, and add up, in f32: nothing is
/// rounded to 16 bits on the way. The conversions are part of the tape. In-place ops and f64 and integer
/// inputs are left alone.
///
/// A parameter is converted once for the lifetime of the outermost guard, and again after it has changed in
/// place (by an optimizer's step). Guards nest; the innermost one counts. Wrap the forward pass and the
/// loss, and call backward() outside: backward runs in the dtypes of the forward pass either way.
///
/// f16 gradients underflow: use optim::GradScaler with it. bf16 has the range of f32 and needs none.
class CT_API Autocast {
 public:
  /// Throws DTypeError unless `dtype` is bf16 or f16.
  [[nodiscard]] explicit Autocast(DType dtype, AutocastOptions options = {});

 private:
  detail::AutocastModeGuard guard_;
};

/// `ct::NoAutocast guard;`: ops take their inputs as they are while it lives, inside an Autocast. Convert
/// what comes from outside with .to(f32) first.
class CT_API NoAutocast {
 public:
  [[nodiscard]] NoAutocast() : guard_(detail::AutocastMode{}) {}

 private:
  detail::AutocastModeGuard guard_;
};

/// Whether a guard is in force in this thread.
inline bool autocast_enabled() { return detail::autocast_enabled(); }
/// The dtype of the innermost guard; bf16 if there is none.
inline DType autocast_dtype() { return detail::autocast_mode().dtype; }

}  // namespace ct
