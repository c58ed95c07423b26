#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/nn/module.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>

// Activations as modules, for Sequential. Each is the function of ops/ of the same name, element by element
// (Softmax and LogSoftmax along an axis); shapes are kept.

namespace ct::nn {

namespace detail {
template <Tensor (*Function)(const Tensor&)>
class Pointwise : public Module {
 public:
  Tensor forward(const Tensor& x) const { return Function(x); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};
}  // namespace detail

/// max(x, 0)
struct ReLU : detail::Pointwise<relu> {
  ReLU() { describe_as("ReLU"); }
};
/// x sigmoid(x)
struct SiLU : detail::Pointwise<silu> {
  SiLU() { describe_as("SiLU"); }
};
/// tanh(x)
struct Tanh : detail::Pointwise<ct::tanh> {
  Tanh() { describe_as("Tanh"); }
};
/// 1 / (1 + e^-x)
struct Sigmoid : detail::Pointwise<sigmoid> {
  Sigmoid() { describe_as("Sigmoid"); }
};

/// elu(x) times a scale, under which activations normalise themselves
struct SELU : detail::Pointwise<selu> {
  SELU() { describe_as("SELU"); }
};
/// min(max(x, 0), 6)
struct ReLU6 : detail::Pointwise<relu6> {
  ReLU6() { describe_as("ReLU6"); }
};
/// min(max(x + 3, 0), 6) / 6
struct Hardsigmoid : detail::Pointwise<hardsigmoid> {
  Hardsigmoid() { describe_as("Hardsigmoid"); }
};
/// x hardsigmoid(x)
struct Hardswish : detail::Pointwise<hardswish> {
  Hardswish() { describe_as("Hardswish"); }
};
/// x tanh(softplus(x))
struct Mish : detail::Pointwise<mish> {
  Mish() { describe_as("Mish"); }
};
/// x / (1 + |x|)
struct Softsign : detail::Pointwise<softsign> {
  Softsign() { describe_as("Softsign"); }
};
/// ln(sigmoid(x))
struct LogSigmoid : detail::Pointwise<logsigmoid> {
  LogSigmoid() { describe_as("LogSigmoid"); }
};

/// x where x > 0, else alpha (e^x - 1).
class CT_API ELU : public Module {
 public:
  explicit ELU(double alpha = 1);
  Tensor forward(const Tensor& x) const { return elu(x, alpha_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  double alpha_;
};

/// min(max(x, low), high). Throws ValueError for bounds that are NaN or cross.
class CT_API Hardtanh : public Module {
 public:
  explicit Hardtanh(double low = -1, double high = 1);
  Tensor forward(const Tensor& x) const { return hardtanh(x, low_, high_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  double low_, high_;
};

struct PReLUOptions {
  /// Initial value of each slope.
  double init = 0.25;
  DType dtype = DType::f32;
  Device device = cpu;
};
/// x where x > 0, else weight * x, with a parameter "weight" [num_parameters]: one slope for all, or one for each place of
/// axis 1. Throws ShapeError for fewer than one.
class CT_API PReLU : public Module {
 public:
  explicit PReLU(std::int64_t num_parameters = 1, PReLUOptions options = {});
  Tensor forward(const Tensor& x) const { return prelu(x, weight_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

  const Parameter& weight() const { return weight_; }

 private:
  Parameter weight_;
};

/// x where x > 0, else slope * x.
class CT_API LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double slope = 0.01);
  Tensor forward(const Tensor& x) const { return leaky_relu(x, slope_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  double slope_;
};

/// x Phi(x), or its approximation by tanh.
class CT_API GELU : public Module {
 public:
  explicit GELU(Gelu approximate = Gelu::exact);
  Tensor forward(const Tensor& x) const { return gelu(x, approximate_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  Gelu approximate_;
};

/// ln(1 + e^(beta x)) / beta, and x itself where beta x > threshold. Throws ValueError for beta = 0.
class CT_API Softplus : public Module {
 public:
  explicit Softplus(double beta = 1, double threshold = 20);
  Tensor forward(const Tensor& x) const { return softplus(x, beta_, threshold_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  double beta_, threshold_;
};

/// e^x / sum(e^x) along an axis.
class CT_API Softmax : public Module {
 public:
  explicit Softmax(std::int64_t axis = -1);
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  std::int64_t axis_;
};

/// log(softmax(x)) along an axis.
class CT_API LogSoftmax : public Module {
 public:
  explicit LogSoftmax(std::int64_t axis = -1);
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  std::int64_t axis_;
};

}  // namespace ct::nn
