#include <cotangent/ops/elementwise/dropout.h>

#include <cmath>
#include <vector>

#include <cotangent/core/base/philox.h>
#include <cotangent/core/device/parallel.h>

#include "tests/catch.h"

namespace {

using namespace ct;
using V = std::vector<double>;

Tensor constant(const Shape& shape, DType dtype = f64) {
  Tensor t = Tensor::allocate(shape, f64, Device{});
  for (std::int64_t i = 0; i < t.numel(); ++i) t.data<double>()[i] = 1;
  return t.to(dtype);
}

}  // namespace

TEST_CASE("dropout drops by the words of its draw") {
  for (const DType dtype : {f64, f32}) {
    Generator generator(7);
    generator.reserve(3);
    const V y = dropout(constant({3001}, dtype), 0.25, true, generator).to_vector<double>();
    REQUIRE(generator.offset() == 4);
    const double kept = dtype == f64 ? 1 / 0.75 : static_cast<float>(1 / 0.75);
    for (std::size_t i = 0; i < y.size(); ++i)
      REQUIRE(y[i] == (philox_word({7, 3}, i) < 0x40000000u ? 0.0 : kept));
  }
}

TEST_CASE("dropout keeps the mean and the share of elements") {
  Generator generator(1);
  for (const double p : {0.1, 0.5, 0.9}) {
    const std::int64_t n = 100000;
    const V y = dropout(constant({n}, f32), p, true, generator).to_vector<double>();
    double kept = 0;
    for (const double v : y) {
      REQUIRE((v == 0 || std::abs(v * (1 - p) - 1) < 1e-6));
      kept += v != 0;
    }
    REQUIRE(std::abs(kept / n - (1 - p)) < 4 * std::sqrt(p * (1 - p) / n));
  }
}

TEST_CASE("dropout is the same for any layout, dtype and number of threads, and differs between draws") {
  Generator a(3), b(3), c(3);
  const Tensor x = constant({50, 1000}, f32);
  const V once = dropout(x, 0.5, true, a).to_vector<double>();
  const int threads = num_threads();
  set_num_threads(threads == 1 ? 2 : 1);
  REQUIRE(dropout(constant({1000, 50}).t(), 0.5, true, b).to_vector<double>() == once);
  set_num_threads(threads);
  REQUIRE(dropout(x.to(bf16), 0.5, true, c).to_vector<double>() == once);
  REQUIRE(dropout(x, 0.5, true, a).to_vector<double>() != once);
}

TEST_CASE("dropout that drops nothing returns its input and draws nothing") {
  Generator generator(1);
  const Tensor x = constant({4});
  REQUIRE(dropout(x, 0.5, false, generator).is_same(x));
  REQUIRE(dropout(x, 0, true, generator).is_same(x));
  REQUIRE(generator.offset() == 0);
}

TEST_CASE("dropout with p = 1 gives zeros") {
  Generator generator(1);
  Tensor x = constant({5});
  x.set_requires_grad();
  const Tensor y = dropout(x, 1, true, generator);
  REQUIRE(y.to_vector<double>() == V(5, 0.0));
  y.backward(constant({5}));
  REQUIRE(x.grad().to_vector<double>() == V(5, 0.0));
}

TEST_CASE("the gradient of dropout is dropped where the input was") {
  Generator generator(11);
  Tensor x = constant({300});
  x.set_requires_grad();
  const Tensor y = dropout(x, 0.4, true, generator);
  dropout(x, 0.4, true, generator);  // another draw in between must not matter
  y.backward(constant({300}));
  REQUIRE(x.grad().to_vector<double>() == y.to_vector<double>());
}

TEST_CASE("dropout refuses what is not a probability") {
  REQUIRE_THROWS_AS(dropout(constant({2}), -0.01), ValueError);
  REQUIRE_THROWS_AS(dropout(constant({2}), 1.01, false), ValueError);
  REQUIRE_THROWS_AS(dropout(constant({2}), std::nan("")), ValueError);
  REQUIRE_THROWS_AS(dropout(constant({2}).to(i64), 0.5), DTypeError);
  REQUIRE_THROWS_WITH(dropout(Tensor{}, 0.5), Catch::Contains("[dropout] x is undefined"));
}

TEST_CASE("dropout that fails draws nothing") {
  Generator generator(1);
  const Tensor integers = constant({3}, i64);
  REQUIRE_THROWS_AS(dropout(integers, 0.5, true, generator), DTypeError);
  REQUIRE_THROWS_AS(dropout(integers, 0, true, generator), DTypeError);
  REQUIRE_THROWS_AS(dropout(integers, 0.5, false, generator), DTypeError);
  REQUIRE(generator.offset() == 0);
}

TEST_CASE("dropout drops the same elements on CUDA", "[cuda]") {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const std::int64_t n : {1, 3, 4, 8, 1000, 4097, 100000}) {
      Generator a(5), b(5);
      const Tensor x = constant({n}, dtype);
      REQUIRE(dropout(x.to(cuda(0)), 0.3, true, b).to_vector<double>() ==
              dropout(x, 0.3, true, a).to_vector<double>());
      const Tensor odd = constant({n + 1}, dtype).narrow(0, 1, n);  // off the 16-byte boundary
      REQUIRE(
          dropout(constant({n + 1}, dtype).to(cuda(0)).narrow(0, 1, n), 0.3, true, b).to_vector<double>() ==
          dropout(odd, 0.3, true, a).to_vector<double>());
    }
}
