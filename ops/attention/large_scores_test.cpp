#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/attention_testing.h"
#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using namespace ct;
using namespace testing::attention;
using testing::largest_difference;

// Queries and keys whose scores, at scale 1, are base + step * (key modulo 5), exactly, in every dtype.
Inputs large_scores(const Sizes& s, DType dtype, double root, double step) {
  Inputs in(s, dtype);
  const Tensor q = zeros(in.q.shape(), {.dtype = f64}), k = zeros(in.k.shape(), {.dtype = f64});
  q.narrow(3, 0, 1).fill_(root);
  q.narrow(3, 1, 1).fill_(step);
  k.narrow(3, 0, 1).fill_(root);
  for (std::int64_t j = 0; j < s.keys; ++j)
    k.narrow(2, j, 1).narrow(3, 1, 1).fill_(static_cast<double>(j % 5));
  in.q = q.to(dtype), in.k = k.to(dtype);
  return in;
}

// Gradients where scores are large: the probabilities must be those of their differences.
void check_large_scores(Device device) {
  const std::pair<DType, double> dtypes[] = {{f64, 1e-12}, {f32, 2e-5}, {f16, 6e-3}, {bf16, 5e-2}};
  const auto check = [&](const Inputs& in, const AttentionOptions& o, const Inputs& small,
                         const AttentionOptions& same, double tolerance) {
    const auto moved = [&](const Tensor& t) { return t.defined() ? t.to(device) : t; };
    Inputs there = in;
    there.q = moved(in.q), there.k = moved(in.k), there.v = moved(in.v);
    AttentionOptions options = o;
    options.mask = moved(o.mask);
    Inputs wanted = small;
    wanted.q = small.q.to(f64), wanted.k = small.k.to(f64), wanted.v = in.v.to(f64);
    const std::vector<Tensor> got = run(scaled_dot_product_attention, there, options),
                              want = run(composite, wanted, same);
    for (const std::size_t i : {std::size_t{0}, std::size_t{3}}) {  // the result, and dv
      CAPTURE(i);
      CHECK(largest_difference(got[i].to(f64).to(cpu), want[i]) < tolerance);
    }
    for (std::size_t i = 1; i < got.size(); ++i) CHECK(all(isfinite(got[i])).item<bool>());
  };
  for (const auto& [dtype, tolerance] : dtypes)
    for (const std::int64_t dim : {16, 17, 64, 128})
      for (const Sizes& s : {Sizes{1, 2, 1, 3, 4, dim}, Sizes{2, 2, 2, 135, 141, dim}}) {
        // By a mask, of rows that are hidden by a large number: equal scores give equal probabilities.
        const Tensor rows = zeros({s.queries, s.keys}, {.dtype = f64}),
                     none = zeros({s.queries, s.keys}, {.dtype = f64});
        const Inputs in(s, dtype);
        Inputs equal(s, f64);
        equal.q = zeros(in.q.shape(), {.dtype = f64});
        for (const double number : {-1e4, -1e9, 1e9, -1e30, -3e38}) {
          if (dtype == f16 && std::abs(number) > 65504) continue;
          for (const DType as : {dtype, f32}) {
            if (dtype == f64 && as == f32) continue;
            for (const bool causal : {false, true}) {
              CAPTURE(dtype, dim, s.queries, number, as, causal);
              Inputs still = in;
              still.q = zeros(in.q.shape(), {.dtype = dtype});
              check(still, {.mask = full({s.queries, s.keys}, number, {.dtype = as}), .causal = causal},
                    equal, {.causal = causal}, tolerance);
            }
          }
        }
        // By queries and keys.
        for (const double root : {16., 1024., 32768., 0x1p40}) {
          // On a GPU's tensor cores scores go up to 4e9; beyond, the result is NaN.
          if (root > 32768 && device.is_cuda() && is_low_precision(dtype) && dim != 17) continue;
          if (dtype == f16 && root > 1024) continue;  // their gradients leave its range
          for (const double step : {1., 0x1p-4}) {
            if (root * root > 0x1p22 * step) continue;  // beyond f32's digits
            CAPTURE(dtype, dim, s.queries, root, step);
            check(large_scores(s, dtype, root, step), {.scale = 1}, large_scores(s, f64, 0, step),
                  {.scale = 1}, tolerance);
          }
          CAPTURE(dtype, dim, s.queries, root);
          check(large_scores(s, dtype, root, 0), {.scale = 1}, large_scores(s, f64, 0, 0), {.scale = 1},
                tolerance);
        }
      }
}

// The gradients of k and v where a mask hides a key that is NaN, by the kernels and by the rule.
void check_hidden_nan(Device device) {
  for (const DType dtype : {f64, f32, bf16})
    for (const std::int64_t keys : {5, 70}) {
      const Inputs in({1, 2, 1, 3, keys, 16}, dtype);
      in.k.narrow(2, 1, 1).fill_(std::nan(""));
      const Tensor seen = ones({keys}, {.dtype = boolean});
      seen.narrow(0, 1, 1).fill_(false);
      const Tensor added = where(seen, zeros({}), full({}, -std::numeric_limits<float>::infinity()));
      for (const Tensor& mask : {seen, added.to(dtype)}) {
        std::vector<Tensor> leaves;
        for (const Tensor& t : {in.q, in.k, in.v})
          leaves.push_back(t.to(device).detach().set_requires_grad());
        const Tensor y =
            scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], {.mask = mask.to(device)});
        const Tensor outputs[] = {y}, cotangents[] = {ones_like(y.detach())};
        const auto gradients = [&](bool recorded) {
          return grad(outputs, leaves, cotangents, {.retain_graph = true, .create_graph = recorded});
        };
        const std::vector<Tensor> kernel = gradients(false), rule = gradients(true);
        for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
          CAPTURE(dtype, keys, mask.dtype(), i);
          CHECK(all(isfinite(kernel[i])).item<bool>());
          CHECK(largest_difference(rule[i].detach().to(f64).to(cpu), kernel[i].to(f64).to(cpu)) < 0.05);
        }
      }
    }
}

}  // namespace

TEST_CASE("attention's gradients are those of the scores' differences, however large they are",
          "[attention]") {
  check_large_scores(cpu);
}
TEST_CASE("attention's gradients on CUDA are those of the scores' differences, too", "[attention][cuda]") {
  check_large_scores(cuda(0));
}

TEST_CASE("attention's recorded gradients are not those of hidden keys", "[attention]") {
  check_hidden_nan(cpu);
}
TEST_CASE("attention's recorded gradients on CUDA are not those of hidden keys", "[attention][cuda]") {
  check_hidden_nan(cuda(0));
}
