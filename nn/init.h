#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

// Initial values of parameters: PyTorch's formulas (torch.nn.init). All of them change the tensor in place
// without recording, return it, and need a floating dtype (else DTypeError). Draws come from the default
// generator, one per call, and are the same whatever the tensor's device; 16-bit types get the rounded f32
// values. Tensors of which fans are asked need rank >= 2 (else ShapeError): fan_in = size(1) * r and
// fan_out = size(0) * r, where r is the product of the sizes from axis 2 on.

namespace ct::nn::init {

/// While one lives, the functions below, called by this thread, leave tensors as they are and take no draws:
/// for a model whose values come from a file or are drawn afterwards. Its values until then are undefined.
class CT_API Skip {
 public:
  [[nodiscard]] Skip();
  ~Skip();
  Skip(const Skip&) = delete;
  Skip& operator=(const Skip&) = delete;

 private:
  bool previous_;
};

/// The size that the variance is scaled with.
enum class FanMode { fan_in, fan_out };

enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };

/// The factor that keeps the variance through a nonlinearity: 1 for linear and sigmoid, 5/3 for tanh, sqrt(2)
/// for relu, sqrt(2 / (1 + a^2)) for leaky_relu with slope a, 3/4 for selu.
CT_API double gain(Nonlinearity nonlinearity, double a = 0.01);

CT_API const Tensor& constant_(const Tensor& t, double value);
inline const Tensor& zeros_(const Tensor& t) { return constant_(t, 0); }
inline const Tensor& ones_(const Tensor& t) { return constant_(t, 1); }
/// U(low, high). Throws ValueError if low > high or one is not finite.
CT_API const Tensor& uniform_(const Tensor& t, double low = 0, double high = 1);
/// N(mean, std^2). Throws ValueError if std < 0 or one is not finite.
CT_API const Tensor& normal_(const Tensor& t, double mean = 0, double std = 1);
/// N(mean, std^2) within [low, high], by inversion of the distribution function.
CT_API const Tensor& trunc_normal_(const Tensor& t, double mean = 0, double std = 1, double low = -2,
                                   double high = 2);

/// U(-b, b), b = gain * sqrt(6 / (fan_in + fan_out)) (Glorot, Bengio 2010).
CT_API const Tensor& xavier_uniform_(const Tensor& t, double gain = 1);
/// N(0, s^2), s = gain * sqrt(2 / (fan_in + fan_out)).
CT_API const Tensor& xavier_normal_(const Tensor& t, double gain = 1);

struct KaimingOptions {
  double a = 0;  ///< the slope of a leaky_relu
  FanMode mode = FanMode::fan_in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
/// U(-b, b), b = gain(nonlinearity, a) * sqrt(3 / fan) (He et al. 2015).
CT_API const Tensor& kaiming_uniform_(const Tensor& t, KaimingOptions options = {});
/// N(0, s^2), s = gain(nonlinearity, a) / sqrt(fan).
CT_API const Tensor& kaiming_normal_(const Tensor& t, KaimingOptions options = {});

/// A matrix with orthonormal rows or columns (whichever are fewer), times `gain` (Saxe et al. 2013): Q of the
/// QR decomposition of a normal matrix, with R's diagonal made positive. Axes from 1 on count as columns.
CT_API const Tensor& orthogonal_(const Tensor& t, double gain = 1);

}  // namespace ct::nn::init
