#include <cotangent/cotangent.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {

using testing::values;
using V = std::vector<double>;

}  // namespace

TEST_CASE("linear multiplies by the transposed weight and adds the bias", "[linear]") {
  const Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}});
  const Tensor w = tensor({{1.f, 0.f}, {0.f, 1.f}, {1.f, -1.f}}), b = tensor({10.f, 20.f, 30.f});
  CHECK(linear(x, w, b).shape() == Shape{2, 3});
  CHECK(values(linear(x, w, b)) == V{11, 22, 29, 13, 24, 29});
  CHECK(values(linear(x, w)) == V{1, 2, -1, 3, 4, -1});
  CHECK(linear(x[0], w, b).shape() == Shape{3});
  CHECK(values(linear(x[0], w, b)) == V{11, 22, 29});
  CHECK(linear(x.unsqueeze(1), w, b).shape() == Shape{2, 1, 3});
  CHECK(values(linear(x.unsqueeze(1), w, b)) == values(linear(x, w, b)));
}

TEST_CASE("linear reads views where they are", "[linear]") {
  const Tensor x = randn({4, 3, 5}), w = randn({6, 5}), b = randn({6});
  const V want = values(linear(x, w, b));
  const auto near = [&](const Tensor& y) {
    const V got = values(y);
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(1e-5));
  };
  near(linear(x.permute({1, 0, 2}).contiguous().permute({1, 0, 2}), w, b));
  near(linear(x.permute({2, 1, 0}).contiguous().permute({2, 1, 0}), w, b));
  near(linear(x, w.t().contiguous().t(), b));
  Tensor wide = zeros({12});
  wide.slice(0, 0, 12, 2).copy_(b);
  near(linear(x, w, wide.slice(0, 0, 12, 2)));
}

TEST_CASE("gradients of linear", "[linear]") {
  Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}}).set_requires_grad();
  Tensor w = tensor({{1.f, 0.f}, {0.f, 1.f}, {1.f, -1.f}}).set_requires_grad();
  Tensor b = tensor({10.f, 20.f, 30.f}).set_requires_grad();
  const Tensor g = tensor({{1.f, 2.f, 3.f}, {-1.f, 0.f, 1.f}});
  const V dx{4, -1, 0, -1}, dw{-2, -2, 2, 4, 6, 10}, db{0, 2, 4};
  linear(x, w, b).backward(g);
  CHECK(values(x.grad()) == dx);
  CHECK(values(w.grad()) == dw);
  CHECK(values(b.grad()) == db);
  // A second pass adds to what is there.
  linear(x, w, b).backward(g);
  for (std::size_t i = 0; i < dx.size(); ++i) CHECK(values(x.grad())[i] == 2 * dx[i]);
  for (std::size_t i = 0; i < dw.size(); ++i) CHECK(values(w.grad())[i] == 2 * dw[i]);
  for (std::size_t i = 0; i < db.size(); ++i) CHECK(values(b.grad())[i] == 2 * db[i]);
  // Leading axes are rows, and the cotangent may be broadcast.
  x.set_grad({}), w.set_grad({}), b.set_grad({});
  linear(x.unsqueeze(1), w, b).backward(ones({}).expand({2, 1, 3}));
  CHECK(values(x.grad()) == V{2, 0, 2, 0});
  CHECK(values(w.grad()) == V{4, 6, 4, 6, 4, 6});
  CHECK(values(b.grad()) == V{2, 2, 2});
}

TEST_CASE("linear of no elements", "[linear]") {
  Tensor w = ones({2, 3}).set_requires_grad(), b = tensor({1.f, 2.f}).set_requires_grad();
  CHECK(linear(zeros({0, 3}), w, b).shape() == Shape{0, 2});
  linear(zeros({0, 3}), w, b).backward(zeros({0, 2}));
  CHECK(values(w.grad()) == V(6, 0));
  CHECK(values(b.grad()) == V{0, 0});
  CHECK(values(linear(zeros({2, 0}), zeros({2, 0}), tensor({1.f, 2.f}))) == V{1, 2, 1, 2});
}

TEST_CASE("linear refuses what does not fit", "[linear]") {
  CHECK_THROWS_WITH(
      linear(zeros({64, 784}), zeros({10, 783})),
      "[linear] x is f32[64, 784], weight is f32[10, 783]; x.size(-1) must equal weight.size(1)");
  CHECK_THROWS_AS(linear(zeros({}), zeros({10, 1})), ShapeError);
  CHECK_THROWS_AS(linear(zeros({3}), zeros({3})), ShapeError);
  CHECK_THROWS_AS(linear(zeros({2, 3}), zeros({4, 3}), zeros({3})), ShapeError);
  CHECK_THROWS_AS(linear(zeros({2, 3}), zeros({4, 3}), zeros({4}, {.dtype = f64})), DTypeError);
}

TEST_CASE("linear on the GPU equals linear on the CPU", "[linear][cuda]") {
  for (const DType t : {f32, f64, f16, bf16}) {
    const double tolerance = t == f64 ? 1e-11 : t == f32 ? 1e-4 : t == f16 ? 2e-2 : 1.6e-1;
    for (const auto& [rows, ins, outs] : {std::array{64, 784, 128}, {64, 128, 10}, {1, 3, 5}, {33, 17, 19}}) {
      const TensorOptions options{.dtype = t};
      const Tensor x = randn({rows, ins}, options), w = randn({outs, ins}, options),
                   b = randn({outs}, options);
      const Tensor g = randn({rows, outs}, options);
      const auto run = [&](Device device) {
        std::vector<V> all;
        const auto leaf = [&](const Tensor& t2) { return t2.clone().to(device).set_requires_grad(); };
        const Tensor xd = leaf(x), wd = leaf(w), bd = leaf(b);
        for (int pass = 0; pass < 2; ++pass) {  // the second pass adds
          const Tensor y = linear(xd, wd, bd);
          y.backward(g.to(device));
          all.push_back(values(y));
        }
        for (const Tensor& p : {xd, wd, bd}) all.push_back(values(p.grad()));
        return all;
      };
      const auto want = run(cpu), got = run(cuda(0));
      for (std::size_t j = 0; j < want.size(); ++j) {
        double worst = 0;
        for (std::size_t i = 0; i < want[j].size(); ++i)
          worst = std::max(worst, std::abs(got[j][i] - want[j][i]) / (10 + std::abs(want[j][i])));
        CHECK(worst <= tolerance);
      }
    }
  }
}

// Small layers in f32 are products of their own (gemm_layer): tiles of both sizes, gates, sums of rows, and what is too large.
TEST_CASE("linear and linear_relu of small layers on the GPU, in any layout", "[linear][cuda]") {
  const auto run = [](bool gated, Device device, const Tensor& x, const Tensor& w, const Tensor& b,
                      const Tensor& g, int layout) {
    // Laid out with axes exchanged, or at odd distances.
    const auto put = [&](const Tensor& v, int bit) {
      Tensor on = v.to(device);
      if (!(layout >> bit & 1) || v.dim() < 2) return on;
      if (bit % 2 == 0) return on.t().contiguous().t();
      Tensor wide = zeros({v.size(0), v.size(1) + 3}, {.device = device});
      wide.narrow(1, 1, v.size(1)).copy_(on);
      return wide.narrow(1, 1, v.size(1));
    };
    const Tensor xd = put(x, 0).detach().set_requires_grad(), wd = put(w, 1).detach().set_requires_grad(),
                 bd = b.to(device).detach().set_requires_grad();
    std::vector<V> all;
    for (int pass = 0; pass < 2; ++pass) {
      const Tensor y = gated ? linear_impl::linear_relu(xd, wd, bd) : linear(xd, wd, bd);
      y.backward(layout == 5 ? g.to(device).narrow(0, 0, 1).expand(g.shape()) : put(g, 2));
      all.push_back(values(y));
    }
    for (const Tensor& p : {xd, wd, bd}) all.push_back(values(p.grad()));
    return all;
  };
  for (const auto& [rows, ins, outs] : {std::array{64, 784, 128},
                                        {64, 128, 10},
                                        {128, 512, 10},
                                        {200, 130, 260},
                                        {1, 784, 10},
                                        {20, 1501, 30},
                                        {5, 1, 1},
                                        {31, 33, 65},
                                        {300, 9, 400},
                                        {1024, 1024, 10},
                                        {520, 820, 203},
                                        {512, 512, 512}}) {
    const Tensor x = randn({rows, ins}), w = randn({outs, ins}) / std::sqrt(ins), b = randn({outs}),
                 g = randn({rows, outs});
    for (const bool gated : {false, true})
      for (const int layout : {0, 1, 2, 4, 5}) {
        const auto want = run(gated, cpu, x, w, b, g, layout), got = run(gated, cuda(0), x, w, b, g, layout);
        CHECK((run(gated, cuda(0), x, w, b, g, layout) == got));
        double worst = 0;
        for (std::size_t j = 0; j < want.size(); ++j)
          for (std::size_t i = 0; i < want[j].size(); ++i)
            worst = std::max(worst, std::abs(got[j][i] - want[j][i]) / (10 + std::abs(want[j][i])));
        INFO(rows << " x " << ins << " -> " << outs << ", layout " << layout << (gated ? ", relu" : ""));
        CHECK(worst <= 2e-5);
      }
  }
}

TEST_CASE("linear on the GPU takes a bias, and rows, at any address", "[linear][cuda]") {
  for (const DType t : {f32, f16, bf16}) {
    const double tolerance = t == f32 ? 1e-5 : t == f16 ? 4e-3 : 3e-2;
    const TensorOptions options{.dtype = t};
    const Tensor x = randn({64, 33}, options).narrow(1, 1, 32), w = randn({17, 33}, options).narrow(1, 1, 32);
    const Tensor b = randn({18}, options).narrow(0, 1, 17);
    const auto on_gpu = [](const Tensor& v, std::int64_t axis) {  // keeps the layout
      Shape whole = v.shape();
      whole[static_cast<int>(axis)] += 1;
      Tensor base = zeros(whole, {.dtype = v.dtype(), .device = cuda(0)});
      Tensor part = base.narrow(axis, 1, whole[static_cast<int>(axis)] - 1);
      part.copy_(v);
      return part;
    };
    const V want = values(linear(x, w, b)), got = values(linear(on_gpu(x, 1), on_gpu(w, 1), on_gpu(b, 0)));
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(tolerance * 20));
  }
}
