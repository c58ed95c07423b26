#include <cotangent/ops/norm/rms_norm.h>

#include <cmath>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/core/parallel.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using namespace ct;
using testing::check;
using testing::leaf;
using testing::values;
using testing::waves;
using V = std::vector<double>;

// With eps = 1/3 the row (-1, 0, 1) has scale 1 and is its own normalized form.
const double kEps = 1.0 / 3;

}  // namespace

TEST_CASE("rms_norm of known rows", "[rms_norm]") {
  const testing::In in{GENERATE(f64, f32)};
  const Tensor w = in.values({3}, {2, 3, 4});
  in.check(rms_norm(in.values({2, 3}, {-1, 0, 1, 1, -1, 0}), w, kEps), {-2, 0, 4, 2, -3, 0});
  in.check(rms_norm(in.values({3}, {-1, 0, 1}), {}, kEps), {-1, 0, 1});
  in.check(rms_norm(in.values({2, 2}, {0, 0, 5, 5}), {}, 0.0).narrow(0, 1, 1), {1, 1});
  in.check(rms_norm(in.values({2}, {0, 0})), {0, 0});
  // Two axes: mean square 5, scale 1/sqrt(5 + 4) = 1/3.
  in.check(rms_norm(in.values({1, 2, 2}, {-3, -1, 1, 3}), in.values({2, 2}, {3, 3, 3, 6}), 4),
           {-3, -1, 1, 6});
}

TEST_CASE("the gradients of rms_norm", "[rms_norm]") {
  const testing::In in{GENERATE(f64, f32)};
  Tensor x = in.values({2, 3}, {-1, 0, 1, -1, 0, 1}), w = in.values({3}, {2, 3, 4});
  for (Tensor* t : {&x, &w}) t->set_requires_grad();
  const Tensor g = in.values({2, 3}, {1, 1, 1, 3, 3, 3});
  // g w = (2, 3, 4), and its mean product with (-1, 0, 1) is 2/3.
  const V dx{2 + 2 / 3.0, 3, 4 - 2 / 3.0, 8, 9, 10};
  rms_norm(x, w, kEps).backward(g);
  in.check(x.grad(), dx);
  in.check(w.grad(), {-4, 0, 4});
  rms_norm(x, w, kEps).backward(g);
  in.check(x.grad(), {2 * dx[0], 6, 2 * dx[2], 16, 18, 20});
  in.check(w.grad(), {-8, 0, 8});
  REQUIRE(rms_norm(x, w).grad_fn_name() == "rms_norm");
}

TEST_CASE("add_rms_norm is the sum, then rms_norm", "[rms_norm]") {
  const testing::In in{GENERATE(f64, f32)};
  const Tensor x = in.waves({5, 37}, 0), r = in.waves({5, 37}, 2), w = in.waves({37}, 1, 0.3, 1);
  const Tensor gy = in.waves({5, 37}, 3), gs = in.waves({5, 37}, 5);
  // Which results are used, and so have a gradient: both, y alone, the sum alone.
  for (const int used : {3, 1, 2}) {
    Tensor a[3] = {leaf(x), leaf(r), leaf(w)}, c[3] = {leaf(x), leaf(r), leaf(w)};
    const auto [y, s] = add_rms_norm(a[0], a[1], a[2]);
    const Tensor sum = c[0] + c[1], want = rms_norm(sum, c[2]);
    in.check(y, want.to_vector<double>());
    in.check(s, sum.to_vector<double>());
    const auto loss = [&](const Tensor& p, const Tensor& q) {
      return used == 3 ? (p * gy).sum() + (q * gs).sum() : used == 1 ? (p * gy).sum() : (q * gs).sum();
    };
    loss(y, s).backward();
    loss(want, sum).backward();
    for (int i = 0; i < 3; ++i) {
      INFO("used " << used << ", gradient " << i);
      if (c[i].grad().defined())
        in.check(a[i].grad(), c[i].grad().to_vector<double>());
      else
        in.check(a[i].grad(), V(static_cast<std::size_t>(a[i].numel()), 0.0));
    }
  }
}

TEST_CASE("all rows have a share in the gradients of rms_norm's parameters", "[rms_norm]") {
  const testing::In in{GENERATE(f64, f32)};
  // More rows than one chunk of the CPU's has.
  const Tensor x = in.waves({700, 130}, 0), g = in.waves({700, 130}, 3);
  const Tensor w = leaf(in.waves({130}, 1));
  const Tensor dw = sum(g * rms_norm(x), {0});
  rms_norm(x, w).backward(g);
  in.check(w.grad(), dw.to_vector<double>(), 100);
}

TEST_CASE("rms_norm has the same bits for any number of threads", "[rms_norm]") {
  const Tensor x = waves({700, 130}, 0).to(f32), w = waves({130}, 1).to(f32);
  const auto run = [&] {
    Tensor in[2] = {leaf(x), leaf(w)};
    const Tensor y = rms_norm(in[0], in[1]);
    y.backward(waves({700, 130}, 3).to(f32));
    std::vector<float> all = y.to_vector<float>();
    for (const Tensor& t : in)
      for (const float v : t.grad().to_vector<float>()) all.push_back(v);
    return all;
  };
  const int threads = num_threads();
  const std::vector<float> first = run();
  set_num_threads(threads == 1 ? 3 : 1);
  REQUIRE(run() == first);
  set_num_threads(threads);
}

TEST_CASE("rms_norm refuses what does not fit", "[rms_norm]") {
  const Tensor x = values({2, 3}, {1, 2, 3, 4, 5, 6});
  REQUIRE_THROWS_AS(rms_norm(x, values({2}, {1, 1})), ShapeError);
  REQUIRE_THROWS_AS(rms_norm(values({}, {1})), ShapeError);
  REQUIRE_THROWS_AS(rms_norm(x, {}, -1e-5), ValueError);
  REQUIRE_THROWS_AS(rms_norm(x, values({3}, {1, 1, 1}, f32)), DTypeError);
  REQUIRE_THROWS_AS(add_rms_norm(x, x[0]), ShapeError);
}

TEST_CASE("every path of rms_norm on CUDA agrees with the CPU", "[rms_norm][cuda]") {
  for (const DType dtype : {f32, f64, f16, bf16}) {
    const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 4e-6 : dtype == f16 ? 4e-3 : 3e-2;
    // One to three vectors per lane, one to 32 warps, odd rows of each kind, and rows read from memory again.
    for (const std::int64_t n : {1,    7,    32,   64,   100,  129,   384,   768,   1000,  1024,  1025, 1600,
                                 2047, 2050, 4096, 5120, 8192, 10000, 16384, 20000, 32768, 40001, 70000}) {
      for (const std::int64_t rows : {std::int64_t{3}, n > 4096 ? std::int64_t{37} : std::int64_t{2500}}) {
        if (rows > 3 && n != 64 && n != 129 && n != 768 && n != 4096 && n != 20000) continue;
        INFO(dtype << " rows " << rows << " n " << n);
        const Tensor in[4] = {waves({rows, n}, 0, 2, 1), waves({rows, n}, 2), waves({n}, 1, 0.3, 1),
                              waves({n}, 4)};
        const Tensor gy = waves({rows, n}, 3).to(dtype), gs = waves({rows, n}, 5).to(dtype);
        for (const bool add : {false, true}) {
          Tensor a[3], b[3];
          for (int i = 0; i < 3; ++i) {
            a[i] = leaf(in[i].to(dtype).to(f64));
            b[i] = leaf(in[i].to(dtype).to(cuda(0)));
          }
          const auto run = [&](Tensor* t, const Device device, const DType type) {
            const Tensor y_grad = gy.to(type).to(device), s_grad = gs.to(type).to(device);
            if (!add) {
              const Tensor y = rms_norm(t[0], t[2]);
              y.backward(y_grad);
              return y;
            }
            const auto [y, s] = add_rms_norm(t[0], t[1], t[2]);
            backward(std::vector<Tensor>{y, s}, std::vector<Tensor>{y_grad, s_grad});
            return y;
          };
          const Tensor want = run(a, cpu, f64), got = run(b, cuda(0), dtype);
          check(got, want.to_vector<double>(), tolerance);
          for (int i = 0; i < 3; ++i) {
            if (!add && i == 1) continue;
            INFO((add ? "add, " : "") << "gradient " << i);
            // Sums over rows are as exact as the largest of their parts.
            const double scale = i < 2 ? 1 : std::sqrt(static_cast<double>(rows)) * 4;
            check(b[i].grad(), a[i].grad().to_vector<double>(), 4 * tolerance * scale);
          }
        }
      }
    }
  }
}

TEST_CASE("rms_norm on CUDA accumulates, and gives the same bits twice", "[rms_norm][cuda]") {
  const Tensor x = waves({3000, 768}, 0).to(bf16).to(cuda(0)), w = waves({768}, 1).to(bf16).to(cuda(0));
  const Tensor g = waves({3000, 768}, 3).to(bf16).to(cuda(0));
  const auto run = [&](int passes) {
    Tensor in[2] = {leaf(x), leaf(w)};
    for (int i = 0; i < passes; ++i) rms_norm(in[0], in[1]).backward(g);
    std::vector<float> all;
    for (const Tensor& t : in)
      for (const float v : t.grad().to_vector<float>()) all.push_back(v);
    return all;
  };
  const std::vector<float> once = run(1), twice = run(2);
  REQUIRE(run(1) == once);
  for (std::size_t i = 0; i < once.size(); ++i)
    if (!(std::abs(twice[i] - 2 * once[i]) <= 0.02f * (1 + std::abs(once[i]))))
      FAIL("element " << i << ": " << twice[i] << " after two passes, " << once[i] << " after one");
}
