// Common properties of layer_norm and rms_norm: their sums with a residual, their parameters' gradients, their bits, and
// every path of their CUDA kernels.

#include <array>
#include <cmath>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/normalization/layer_norm.h>
#include <cotangent/ops/normalization/rms_norm.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using namespace ct;
using testing::check;
using testing::leaf;
using testing::waves;
using Inputs = std::array<Tensor, 4>;  // x, residual, weight, bias

struct Norm {
  bool centered;  // layer_norm, which alone has a bias

  const char* name() const { return centered ? "layer_norm" : "rms_norm"; }
  int inputs() const { return centered ? 4 : 3; }
  Tensor operator()(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}) const {
    return centered ? layer_norm(x, weight, bias) : rms_norm(x, weight);
  }
  std::array<Tensor, 2> add(const Inputs& in) const {
    return centered ? add_layer_norm(in[0], in[1], in[2], in[3]) : add_rms_norm(in[0], in[1], in[2]);
  }
};

template <class Make>
Inputs leaves(const Inputs& values, const Make& make) {
  Inputs out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = leaf(make(values[i]));
  return out;
}

// y, and the gradients that x, weight and bias get in `passes` passes, one after the other.
std::vector<float> results(const Norm& norm, const Inputs& values, const Tensor& g, int passes = 1) {
  const Inputs in = leaves(values, [](const Tensor& t) { return t.detach(); });
  std::vector<float> all;
  for (int i = 0; i < passes; ++i) {
    const Tensor y = norm(in[0], in[2], in[3]);
    y.backward(g);
    all = y.to_vector<float>();
  }
  for (int i = 0; i < norm.inputs(); ++i)
    if (i != 1)
      for (const float v : in[static_cast<std::size_t>(i)].grad().to_vector<float>()) all.push_back(v);
  return all;
}

Inputs wave_inputs(std::int64_t rows, std::int64_t n) {
  return {waves({rows, n}, 0, 2, 1), waves({rows, n}, 2), waves({n}, 1, 0.3, 1), waves({n}, 4)};
}

}  // namespace

TEST_CASE("add_layer_norm and add_rms_norm are the sum, then the norm", "[norm]") {
  const Norm norm{GENERATE(true, false)};
  INFO(norm.name());
  const testing::In in{GENERATE(f64, f32)};
  const auto typed = [&](const Tensor& t) { return t.to(in.dtype); };
  const Tensor gy = in.waves({5, 37}, 3), gs = in.waves({5, 37}, 5);
  // Results that are used, and so have a gradient: both, y alone, the sum alone.
  for (const int used : {3, 1, 2}) {
    const Inputs a = leaves(wave_inputs(5, 37), typed), c = leaves(wave_inputs(5, 37), typed);
    const auto [y, s] = norm.add(a);
    const Tensor sum = c[0] + c[1], want = norm(sum, c[2], c[3]);
    in.check(y, want.to_vector<double>());
    in.check(s, sum.to_vector<double>());
    const auto loss = [&](const Tensor& p, const Tensor& q) {
      return used == 3 ? (p * gy).sum() + (q * gs).sum() : used == 1 ? (p * gy).sum() : (q * gs).sum();
    };
    loss(y, s).backward();
    loss(want, sum).backward();
    for (std::size_t i = 0; i < static_cast<std::size_t>(norm.inputs()); ++i) {
      INFO("used " << used << ", gradient " << i);
      const Tensor& g = c[i].grad();
      in.check(a[i].grad(), g.defined() ? g.to_vector<double>()
                                        : std::vector<double>(static_cast<std::size_t>(a[i].numel())));
    }
  }
}

TEST_CASE("all rows have a share in the gradients of a norm's parameters", "[norm]") {
  const Norm norm{GENERATE(true, false)};
  INFO(norm.name());
  const testing::In in{GENERATE(f64, f32)};
  // More rows than one chunk of the CPU's has.
  const Tensor x = in.waves({700, 130}, 0), g = in.waves({700, 130}, 3);
  const Tensor w = leaf(in.waves({130}, 1)), b = leaf(in.waves({130}, 2));
  norm(x, w, b).backward(g);
  in.check(w.grad(), sum(g * norm(x), {0}).to_vector<double>(), 100);
  if (norm.centered) in.check(b.grad(), sum(g, {0}).to_vector<double>(), 100);
}

TEST_CASE("layer_norm and rms_norm have the same bits for any number of threads", "[norm]") {
  const Norm norm{GENERATE(true, false)};
  INFO(norm.name());
  Inputs in = wave_inputs(700, 130);
  for (Tensor& t : in) t = t.to(f32);
  const Tensor g = waves({700, 130}, 3).to(f32);
  const int threads = num_threads();
  const std::vector<float> first = results(norm, in, g);
  set_num_threads(threads == 1 ? 3 : 1);
  REQUIRE(results(norm, in, g) == first);
  set_num_threads(threads);
}

TEST_CASE("every path of layer_norm and rms_norm on CUDA agrees with the CPU",
          "[norm][layer_norm][rms_norm][cuda]") {
  const Norm norm{GENERATE(true, false)};
  INFO(norm.name());
  for (const DType dtype : {f32, f64, f16, bf16}) {
    const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 4e-6 : dtype == f16 ? 4e-3 : 3e-2;
    // One to three vectors per lane, one to 32 warps, odd rows of each kind, and rows read from memory again.
    for (const std::int64_t n : {1,    7,    32,   64,   100,  129,   384,   768,   1000,  1024,  1025, 1600,
                                 2047, 2050, 4096, 5120, 8192, 10000, 16384, 20000, 32768, 40001, 70000}) {
      for (const std::int64_t rows : {std::int64_t{3}, n > 4096 ? std::int64_t{37} : std::int64_t{2500}}) {
        if (rows > 3 && n != 64 && n != 129 && n != 768 && n != 4096 && n != 20000) continue;
        INFO(dtype << " rows " << rows << " n " << n);
        const Inputs in = wave_inputs(rows, n);
        const Tensor gy = waves({rows, n}, 3).to(dtype), gs = waves({rows, n}, 5).to(dtype);
        for (const bool add : {false, true}) {
          const Inputs a = leaves(in, [&](const Tensor& t) { return t.to(dtype).to(f64); });
          const Inputs b = leaves(in, [&](const Tensor& t) { return t.to(dtype).to(cuda(0)); });
          const auto run = [&](const Inputs& t) {
            const auto like = [&](const Tensor& g) { return g.to(t[0].dtype()).to(t[0].device()); };
            if (!add) {
              const Tensor y = norm(t[0], t[2], t[3]);
              y.backward(like(gy));
              return y;
            }
            const auto [y, s] = norm.add(t);
            backward(std::vector<Tensor>{y, s}, std::vector<Tensor>{like(gy), like(gs)});
            return y;
          };
          const Tensor want = run(a), got = run(b);
          check(got, want.to_vector<double>(), tolerance);
          for (int i = 0; i < norm.inputs(); ++i) {
            if (!add && i == 1) continue;
            INFO((add ? "add, " : "") << "gradient " << i);
            // Sums over rows are as exact as the largest of their parts.
            const double scale = i < 2 ? 1 : std::sqrt(static_cast<double>(rows)) * 4;
            const auto k = static_cast<std::size_t>(i);
            check(b[k].grad(), a[k].grad().to_vector<double>(), 4 * tolerance * scale);
          }
        }
      }
    }
  }
}

TEST_CASE("layer_norm and rms_norm on CUDA accumulate, and give the same bits twice", "[norm][cuda]") {
  const Norm norm{GENERATE(true, false)};
  INFO(norm.name());
  Inputs in = wave_inputs(3000, 768);
  for (Tensor& t : in) t = t.to(bf16).to(cuda(0));
  const Tensor g = waves({3000, 768}, 3).to(bf16).to(cuda(0));
  const std::vector<float> once = results(norm, in, g), twice = results(norm, in, g, 2);
  REQUIRE(results(norm, in, g) == once);
  for (std::size_t i = static_cast<std::size_t>(g.numel()); i < once.size(); ++i)
    if (!(std::abs(twice[i] - 2 * once[i]) <= 0.02f * (1 + std::abs(once[i]))))
      FAIL("element " << i << ": " << twice[i] << " after two passes, " << once[i] << " after one");
}
