#include <cotangent/cotangent.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {

using testing::values;
using V = std::vector<double>;

void keeps_nan(Device device, std::initializer_list<int> sizes) {
  for (const DType t : {f32, f64, f16, bf16})
    for (const int n : sizes) {
      Tensor x = ones({n, n}, {.dtype = t});
      x[1].fill_(std::numeric_limits<double>::quiet_NaN());
      const Tensor w = full({n, n}, -1. / n, {.dtype = t}), b = zeros({n}, {.dtype = t});
      const V y = values(linear_impl::linear_relu(x.to(device), w.to(device), b.to(device)).narrow(0, 0, 3));
      INFO(name(t) << " " << n);
      CHECK(y.front() == 0);
      CHECK(std::isnan(y[static_cast<std::size_t>(n)]));
      CHECK(std::isnan(y[static_cast<std::size_t>(2 * n - 1)]));
      CHECK(y.back() == 0);
    }
}

}  // namespace

TEST_CASE("linear_relu has the bits of linear and relu on the CPU, for any threads", "[linear]") {
  const int threads = num_threads();
  for (const DType t : {f32, f64, f16, bf16})
    for (const auto& [rows, ins, outs] :
         {std::array{64, 784, 128}, {1, 3, 5}, {33, 17, 19}, {0, 3, 2}, {3, 0, 2}}) {
      const TensorOptions options{.dtype = t};
      const Tensor x = randn({rows, ins}, options), w = randn({outs, ins}, options),
                   b = randn({outs}, options), g = randn({outs, rows}, options).t();
      const auto run = [&](bool fused, bool bias) {
        const auto leaf = [](const Tensor& v) { return v.clone().set_requires_grad(); };
        const Tensor xs = leaf(x), ws = leaf(w), bs = leaf(b), c = bias ? bs : Tensor();
        std::vector<V> all;
        for (int pass = 0; pass < 2; ++pass) {  // the second pass adds
          const Tensor y = fused ? linear_impl::linear_relu(xs, ws, c) : relu(linear(xs, ws, c));
          y.backward(g);
          all.push_back(values(y));
        }
        for (const Tensor& p : {xs, ws, bs})
          if (p.grad().defined()) all.push_back(values(p.grad()));
        return all;
      };
      for (const bool bias : {true, false}) {
        const auto want = run(false, bias);
        for (const int n : {1, 2, 3}) {
          set_num_threads(n);
          CHECK((run(true, bias) == want));
        }
        set_num_threads(threads);
      }
    }
}

TEST_CASE("linear_relu keeps a NaN", "[linear]") { keeps_nan(cpu, {3, 64}); }
TEST_CASE("linear_relu keeps a NaN on the GPU", "[linear][cuda]") {
  keeps_nan(cuda(0), {3, 64, 1024});  // small products, and those of libraries
}
