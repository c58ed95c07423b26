#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/io/npy.h>
#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/creation/creation.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

// Parameters and gradients of the optimizer tests: the formulas of tests/golden/make_optim.py, ratios of
// small integers that f32 (and mostly f16) holds exactly.

namespace ct::testing {

inline const std::vector<Shape>& optim_shapes() {
  static const std::vector<Shape> shapes = {{37}, {3, 1}, {1}, {7}};
  return shapes;
}

inline Tensor optim_initial(const Shape& shape, std::int64_t k, DType dtype, Device device = cpu) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < numel(shape); ++i)
    values.push_back(static_cast<double>((i * 271 + k * 97 + 13) % 401 - 200) / 128);
  return from_vector(values, shape, {.dtype = dtype, .device = device, .requires_grad = true});
}

inline Tensor optim_gradient(const Shape& shape, std::int64_t k, std::int64_t t, DType dtype,
                             Device device = cpu) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < numel(shape); ++i)
    values.push_back(static_cast<double>((i * 7919 + t * 104729 + k * 1299709) % 2003 - 901) / 1024);
  return from_vector(values, shape, {.dtype = dtype, .device = device});
}

/// Parameters of the golden runs.
inline std::vector<Tensor> optim_params(DType dtype, Device device = cpu) {
  std::vector<Tensor> params;
  for (const Shape& shape : optim_shapes())
    params.push_back(optim_initial(shape, static_cast<std::int64_t>(params.size()), dtype, device));
  return params;
}

/// Sets the gradients of step t; some parameters have none in some steps.
inline void optim_set_gradients(std::vector<Tensor>& params, std::int64_t t) {
  for (std::size_t k = 0; k < params.size(); ++k) {
    Tensor& p = params[k];
    const bool none = (k == 2 && t % 3 == 1) || (k == 3 && t >= 40 && t < 60);
    p.set_grad(none ? Tensor{}
                    : optim_gradient(p.shape(), static_cast<std::int64_t>(k), t, p.dtype(), p.device()));
  }
}

/// PyTorch's values, made by tests/golden/make_optim.py.
inline const StateDict& optim_golden() {
  static const StateDict file = io::load_npz(COTANGENT_SOURCE_DIR "/tests/golden/optim.npz");
  return file;
}

/// The largest difference, relative to the wanted value or, near zero, to `scale`.
inline double worst_each(const std::vector<double>& got, const std::vector<double>& want, double scale) {
  REQUIRE(got.size() == want.size());
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - want[i]) / std::max(std::abs(want[i]), scale);
    if (std::isnan(error)) return error;
    most = std::max(most, error);
  }
  return most;
}

/// All elements, one tensor after the other.
inline std::vector<double> flat_values(const std::vector<Tensor>& tensors) {
  std::vector<double> all;
  for (const Tensor& t : tensors) {
    const std::vector<double> values = t.detach().to_vector<double>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

inline Tensor parameter(std::vector<double> values, DType dtype = f32) {
  return from_vector(values, {.dtype = dtype, .requires_grad = true});
}

inline Tensor with_grad(Tensor p, std::vector<double> grad) {
  p.set_grad(from_vector(grad, p.shape(), {.dtype = p.dtype()}));
  return p;
}

inline std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) { return e.what(); }
  return "nothing was thrown";
}

inline void check_mentions(const std::string& text, const std::vector<const char*>& words) {
  for (const char* word : words) {
    INFO(text);
    CHECK(text.find(word) != std::string::npos);
  }
}

inline std::vector<std::string> all_bytes(const std::vector<Tensor>& tensors) {
  std::vector<std::string> bytes;
  for (const Tensor& t : tensors) bytes.push_back(bytes_of(t));
  return bytes;
}

/// Running averages that forget at once hold the last value, whatever came before it.
inline void check_small_after_large(Device device) {
  for (const DType dtype : {f32, f64, bf16}) {
    Tensor p = from_vector(std::vector<double>{0, 0}, {.dtype = f64}).to(dtype).to(device);
    p.set_requires_grad();
    // With a memory of nothing each step is lr long, in the direction of its gradient.
    optim::Adam adam({p}, {.lr = 0.125, .beta1 = 0, .beta2 = 0, .eps = 0});
    optim::Ema ema({p}, {.decay = 0});
    double want = 0;
    for (const double size : {1000.0, 1e-4, -3.0, 1e-6, 1e-3}) {
      p.set_grad(from_vector(std::vector<double>{size, -size}, {.dtype = f64}).to(dtype).to(device));
      adam.step();
      want -= size > 0 ? 0.125 : -0.125;
      CHECK(p.to_vector<double>()[0] == Approx(want).epsilon(1e-6));
      CHECK(p.to_vector<double>()[1] == Approx(-want).epsilon(1e-6));
    }
    for (const double value : {1e30, 1e-4, 7.0}) {
      p.detach().fill_(value);
      ema.update();
      CHECK(ema.averages()[0].to_vector<double>() == p.to_vector<double>());
    }
  }
}

}  // namespace ct::testing
