#include <cotangent/ops/indexing/embedding.h>

#include <cmath>
#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/creation/creation.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using namespace ct;
using testing::values;
using V = std::vector<double>;

Tensor indices(const Shape& shape, const V& v, DType dtype = i64) { return values(shape, v).to(dtype); }

// Whole numbers: sums of them are exact in every order.
Tensor counting(const Shape& shape, int modulus) {
  Tensor t = Tensor::allocate(shape, f32, cpu);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = static_cast<float>((i * 7919) % modulus - modulus / 2);
  return t;
}

// The gradient of the table in the plainest way.
V summed(const V& g, const std::vector<std::int64_t>& idx, std::int64_t rows, std::int64_t columns,
         std::int64_t padding = -1) {
  V dw(static_cast<std::size_t>(rows * columns), 0.0);
  for (std::size_t i = 0; i < idx.size(); ++i)
    for (std::int64_t c = 0; idx[i] != padding && c < columns; ++c)
      dw[static_cast<std::size_t>(idx[i] * columns + c)] +=
          g[i * static_cast<std::size_t>(columns) + static_cast<std::size_t>(c)];
  return dw;
}

}  // namespace

TEST_CASE("embedding picks rows", "[embedding]") {
  const testing::In in{GENERATE(f64, f32)};
  const Tensor w = in.values({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor y = embedding(indices({2, 2}, {2, 0, 0, 1}), w);
  REQUIRE(y.shape() == Shape{2, 2, 2});
  REQUIRE(y.to_vector<double>() == V{5, 6, 1, 2, 1, 2, 3, 4});
  REQUIRE(embedding(indices({}, {1}, i32), w).to_vector<double>() == V{3, 4});
  REQUIRE(embedding(indices({2}, {1, 0}), w.t().contiguous().t()).to_vector<double>() == V{3, 4, 1, 2});
  REQUIRE(embedding(indices({2}, {1, 0}), w.narrow(1, 1, 1)).to_vector<double>() == V{4, 2});
  REQUIRE(embedding(indices({0}, {}), w).shape() == Shape{0, 2});
  REQUIRE(embedding(indices({2, 3}, {0, 1, 2, 2, 1, 0}).t(), w.narrow(1, 0, 1)).to_vector<double>() ==
          V{1, 5, 3, 3, 5, 1});
}

TEST_CASE("the gradient of embedding is the sum over the places that read a row", "[embedding]") {
  const testing::In in{GENERATE(f64, f32)};
  Tensor w = in.values({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  w.set_requires_grad();
  const Tensor idx = indices({5}, {2, 0, 2, 2, 3});
  const Tensor g = in.values({5, 2}, {1, 10, 2, 20, 3, 30, 4, 40, 5, 50});
  embedding(idx, w).backward(g);
  REQUIRE(w.grad().to_vector<double>() == V{2, 20, 0, 0, 8, 80, 5, 50});
  embedding(idx, w).backward(g);  // the second pass adds into the gradient that is there
  REQUIRE(w.grad().to_vector<double>() == V{4, 40, 0, 0, 16, 160, 10, 100});
  REQUIRE(embedding(idx, w).grad_fn_name() == "embedding");

  Tensor padded = w.detach().clone();
  padded.set_requires_grad();
  const Tensor y = embedding(idx, padded, -2);  // row 2
  REQUIRE(y.to_vector<double>() == V{5, 6, 1, 2, 5, 6, 5, 6, 7, 8});
  y.backward(g);
  REQUIRE(padded.grad().to_vector<double>() == V{2, 20, 0, 0, 0, 0, 5, 50});
}

TEST_CASE("a table that is read twice, or also used otherwise, collects one gradient", "[embedding]") {
  Tensor w = counting({9, 5}, 11);
  w.set_requires_grad();
  const Tensor idx = indices({4}, {1, 8, 1, 3});
  const Tensor a = embedding(idx, w).sum(), b = w.sum();
  a.backward();
  b.backward();
  const V got = w.grad().to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t row = i / 5;
    REQUIRE(got[i] == (row == 1 ? 3 : row == 8 || row == 3 ? 2 : 1));
  }
}

TEST_CASE("embedding sums 16-bit gradients in f32", "[embedding]") {
  for (const DType dtype : {f16, bf16}) {
    Tensor w = zeros({2, 3}, {.dtype = dtype});
    w.set_requires_grad();
    // Added one by one in 16 bits, the sum would stop growing at 2048 (f16) or 256 (bf16).
    embedding(zeros({5000}, {.dtype = i64}), w).backward(ones({5000, 3}, {.dtype = dtype}));
    const double want = values({1}, {5000}, dtype).to_vector<double>()[0];
    REQUIRE(w.grad().to_vector<double>() == V{want, want, want, 0, 0, 0});
  }
}

TEST_CASE("the gradient of embedding has the same bits for any number of threads", "[embedding]") {
  const Tensor idx = counting({3000}, 97).add_(Scalar(48)).to(i64);
  Tensor g = Tensor::allocate({3000, 300}, f32, cpu);
  for (std::int64_t i = 0; i < g.numel(); ++i) g.data<float>()[i] = std::sin(static_cast<float>(i));
  const auto run = [&] {
    Tensor w = zeros({97, 300});
    w.set_requires_grad();
    embedding(idx, w).backward(g);
    return w.grad().to_vector<float>();
  };
  const int threads = num_threads();
  const std::vector<float> first = run();
  set_num_threads(threads == 1 ? 3 : 1);
  REQUIRE(run() == first);
  set_num_threads(threads);
}

TEST_CASE("embedding refuses bad indices and shapes", "[embedding]") {
  const Tensor w = values({3, 2}, {1, 2, 3, 4, 5, 6});
  REQUIRE_THROWS_AS(embedding(indices({2}, {0, 3}), w), IndexError);
  REQUIRE_THROWS_WITH(
      embedding(indices({2}, {0, -1}), w),
      "[embedding] token -1 is out of range for a table of 3 rows; tokens must lie in [0, 3)");
  REQUIRE_THROWS_AS(embedding(indices({2}, {0, 1}), w[0]), ShapeError);
  REQUIRE_THROWS_AS(embedding(values({2}, {0, 1}), w), DTypeError);
  REQUIRE_THROWS_AS(embedding(indices({2}, {0, 1}), w, 3), ValueError);
  REQUIRE_THROWS_AS(embedding(indices({2}, {0, 1}), w, -4), ValueError);
}

TEST_CASE("every path of embedding on CUDA: short and long runs, narrow and wide rows", "[embedding][cuda]") {
  struct Case {
    std::int64_t n, rows, columns;
    int spread;  // 1: all indices are equal
  };
  for (const Case& c : {Case{1, 3, 8, 3}, Case{63, 5, 24, 1}, Case{64, 5, 24, 1}, Case{65, 1, 7, 1},
                        Case{1000, 3, 768, 1}, Case{1000, 40, 768, 3}, Case{5000, 5000, 96, 4999},
                        Case{20000, 50304, 64, 30011}, Case{20000, 257, 257, 7}, Case{4099, 31, 4096, 17}}) {
    std::vector<std::int64_t> at;
    Tensor idx = Tensor::allocate({c.n}, i64, cpu);
    for (std::int64_t i = 0; i < c.n; ++i) {
      at.push_back((i * 104729 % c.spread) % c.rows);
      idx.data<std::int64_t>()[i] = at.back();
    }
    const Tensor g = counting({c.n, c.columns}, 9);
    const V want = summed(g.to_vector<double>(), at, c.rows, c.columns);
    const V want_padded = summed(g.to_vector<double>(), at, c.rows, c.columns, at[0]);
    for (const DType dtype : {f32, f64, f16, bf16}) {
      for (const DType index_dtype : {i64, i32}) {
        INFO(c.n << " into " << c.rows << " x " << c.columns << ' ' << dtype << ' ' << index_dtype);
        Tensor w = counting({c.rows, c.columns}, 101).to(cuda(0), dtype);
        w.set_requires_grad();
        const Tensor i = idx.to(index_dtype).to(cuda(0)), gradient = g.to(cuda(0), dtype);
        const Tensor y = embedding(i, w);
        REQUIRE(y.to_vector<float>() == embedding(idx, w.detach().to(cpu)).to_vector<float>());
        y.backward(gradient);
        const Tensor rounded = values({c.rows, c.columns}, want, dtype);
        REQUIRE(w.grad().to_vector<double>() == rounded.to_vector<double>());
        embedding(i, w).backward(gradient);
        if (dtype == f64) {
          const V twice = w.grad().to_vector<double>();
          for (std::size_t k = 0; k < twice.size(); ++k)
            if (twice[k] != 2 * want[k]) FAIL("element " << k << ": " << twice[k] << " after two passes");
        }
        w.set_grad({});
        embedding(i, w, at[0]).backward(gradient);
        REQUIRE(w.grad().to_vector<double>() ==
                values({c.rows, c.columns}, want_padded, dtype).to_vector<double>());
      }
    }
  }
}

TEST_CASE("embedding on CUDA reports a bad index when the host waits", "[embedding][cuda]") {
  const Tensor w = values({3, 2}, {1, 2, 3, 4, 5, 6}).to(cuda(0));
  const Tensor y = embedding(indices({3}, {0, 7, 2}).to(cuda(0)), w);
  REQUIRE_THROWS_WITH(synchronize(cuda(0)),
                      "[embedding] token 7 is out of range for a table of 3 rows; tokens must lie in [0, 3)");
  REQUIRE(y.to_vector<double>() == V{1, 2, 0, 0, 5, 6});
}
