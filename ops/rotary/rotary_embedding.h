#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// Scaling of a rotary embedding's frequencies for contexts longer than those trained on.
struct RotaryScaling {
  enum class Kind {
    none,
    linear,  ///< all frequencies divided by `factor`
    llama3   ///< Llama 3.1's "rope_scaling": low frequencies divided by `factor`, high ones kept, in between
             ///< both
  };
  Kind kind = Kind::none;
  double factor = 1;
  /// llama3: waves longer than original_length / low_frequency_factor are low frequencies, waves shorter than
  /// original_length / high_frequency_factor high ones.
  double low_frequency_factor = 1, high_frequency_factor = 4;
  /// llama3: the length of the contexts that the model was first trained on.
  std::int64_t original_length = 8192;
};

/// The most elements of a row that are rotated.
inline constexpr std::int64_t kMaxRotaryDim = 512;

struct RotaryOptions {
  /// Pair i of D/2 turns by position * base^(-2 i / D).
  double base = 10000;
  /// Pairing of elements: neighbours (GPT-J, the original paper), or i and i + D/2 (GPT-NeoX, Llama as
  /// Hugging Face stores it).
  bool interleaved = false;
  /// Number of leading elements that are rotated; the others pass unchanged. 0: all.
  std::int64_t rotary_dim = 0;
  RotaryScaling scaling = {};
};

/// Rotary position embedding (Su et al. 2021): each pair of elements (a, b) of the last axis is turned by an
/// angle phi that grows with the position, to (a cos phi - b sin phi, a sin phi + b cos phi).
///
/// x is [..., T, D] of a floating dtype and any strides ([B, H, T, D] as a view of a projection [B, T, H, D],
/// say), `positions` i64 or i32, [T] or, with an axis in front of T, [B, T] with B = x.size(0). The result
/// has x's shape and is contiguous.
///
/// Angles are computed in f32, as PyTorch's models do, and in f64 for f64; sine and cosine are not rounded to
/// 16 bits. Positions get no gradient; that of x is the cotangent turned back.
///
/// Throws ShapeError where shapes do not fit, ValueError for an odd rotary_dim, one larger than D or than
/// 512, or a base, factor or length that is not positive and finite, DTypeError, DeviceError.
CT_API Tensor rotary_embedding(const Tensor& x, const Tensor& positions, const RotaryOptions& options = {});

}  // namespace ct
