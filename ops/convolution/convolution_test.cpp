#include <algorithm>
#include <cmath>

#include <cotangent/cotangent.h>
#include <cotangent/ops/convolution/convolution_plain.h>
#include <cotangent/ops/convolution/flat_internal.h>
#include <cotangent/ops/convolution/patches_internal.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {

using V = std::vector<double>;
using testing::values;
// 1, 2, 3, ... in this shape.
Tensor count(const Shape& shape) { return arange(1, numel(shape) + 1).to(f32).reshape(shape); }

}  // namespace

TEST_CASE("conv2d slides the kernel over the image", "[convolution]") {
  const Tensor x = count({1, 1, 3, 4}), w = tensor({1.f, 2.f, 3.f, 4.f}).reshape({1, 1, 2, 2});
  // 1 * 1 + 2 * 2 + 5 * 3 + 6 * 4
  CHECK(values(conv2d(x, w)) == V{44, 54, 64, 84, 94, 104});
  CHECK(conv2d(x, w).shape() == Shape{1, 1, 2, 3});
  CHECK(values(conv2d(x, w, tensor({100.f}))) == V{144, 154, 164, 184, 194, 204});
  CHECK(values(conv2d(x, w, {}, {.stride = {1, 2}})) == V{44, 64, 84, 104});
  CHECK(values(conv2d(x, w, {}, {.dilation = {1, 3}})) == V{1 + 8 + 15 + 32, 5 + 16 + 27 + 48});
  CHECK(values(conv2d(x, w, {}, {.stride = {4, 5}, .padding = 1})) == V{4});
  CHECK(values(conv2d(x, w, {}, {.padding = {0, 1}})) ==
        V{2 + 20, 44, 54, 64, 4 + 24, 10 + 36, 84, 94, 104, 8 + 36});
  // One image, without a batch.
  CHECK(conv2d(x[0], w).shape() == Shape{1, 2, 3});
  CHECK(values(conv2d(x[0], w)) == values(conv2d(x, w)));
}

TEST_CASE("conv2d sums over the channels of a group", "[convolution]") {
  const Tensor x = count({1, 4, 1, 2});  // channels (1, 2) (3, 4) (5, 6) (7, 8)
  const Tensor w = tensor({1.f, 10.f, 1.f, -1.f}).reshape({2, 2, 1, 1});
  CHECK(values(conv2d(x, w, {}, {.groups = 2})) == V{31, 42, -2, -2});
  const Tensor each = tensor({1.f, 2.f, 3.f, 4.f}).reshape({4, 1, 1, 1});
  CHECK(values(conv2d(x, each, {}, {.groups = 4})) == V{1, 2, 6, 8, 15, 18, 28, 32});
}

TEST_CASE("padding \"same\" keeps the size, the odd zero comes last", "[convolution]") {
  const Tensor x = count({1, 1, 1, 4}), w = ones({1, 1, 1, 4});
  CHECK(values(conv2d(x, w, {}, {.padding = "same"})) == V{6, 10, 9, 7});
  CHECK(values(conv2d(x, w, {}, {.padding = "valid"})) == V{10});
  CHECK(conv2d(randn({1, 2, 9, 7}), randn({3, 2, 3, 2}), {}, {.padding = "same", .dilation = 3}).shape() ==
        Shape{1, 3, 9, 7});
  CHECK_THROWS_AS(conv2d(x, w, {}, {.stride = 2, .padding = "same"}), ValueError);
  CHECK_THROWS_AS(conv2d(x, w, {}, {.padding = "full"}), ValueError);
}

TEST_CASE("conv1d is conv2d of one row", "[convolution]") {
  const Tensor x = count({1, 1, 5}), w = tensor({1.f, 2.f}).reshape({1, 1, 2});
  CHECK(values(conv1d(x, w)) == V{5, 8, 11, 14});
  CHECK(conv1d(x, w).shape() == Shape{1, 1, 4});
  CHECK(conv1d(x[0], w).shape() == Shape{1, 4});
  CHECK(values(conv1d(x, w, tensor({1.f}), {.stride = 2, .padding = 1})) == V{3, 9, 15});
  CHECK(values(conv1d(x, w, {}, {.dilation = 2})) == V{7, 10, 13});
  CHECK(conv1d(x, ones({1, 1, 4}), {}, {.padding = "same"}).shape() == Shape{1, 1, 5});
  CHECK_THROWS_AS(conv1d(count({5}), w), ShapeError);
  CHECK_THROWS_AS(conv1d(count({1, 1, 1, 5}), w), ShapeError);
  CHECK_THROWS_AS(conv1d(x, count({1, 2})), ShapeError);
  CHECK_THROWS_AS(conv1d(x, w, {}, {.padding = {0, 1}}), ValueError);
  CHECK_THROWS_AS(conv1d(x, w, {}, {.stride = -1}), ValueError);
  CHECK_THROWS_AS(conv1d(Tensor{}, w), Error);
}

TEST_CASE("conv_transpose2d spreads each element over a kernel", "[convolution]") {
  const Tensor x = tensor({1.f, 2.f, 3.f, 4.f}).reshape({1, 1, 2, 2}),
               w = tensor({1.f, 10.f}).reshape({1, 1, 1, 2});
  CHECK(values(conv_transpose2d(x, w)) == V{1, 12, 20, 3, 34, 40});
  CHECK(values(conv_transpose2d(x, w, {}, {.stride = {1, 2}})) == V{1, 10, 2, 20, 3, 30, 4, 40});
  CHECK(values(conv_transpose2d(x, w, tensor({0.5f}), {.padding = {0, 1}})) == V{12.5, 34.5});
  const Tensor more = conv_transpose2d(x, w, {}, {.stride = {2, 2}, .output_padding = 1});
  CHECK(more.shape() == Shape{1, 1, 4, 5});
  CHECK(values(more) == V{1, 10, 2, 20, 0, 0, 0, 0, 0, 0, 3, 30, 4, 40, 0, 0, 0, 0, 0, 0});
  CHECK(values(conv_transpose1d(x[0][0], ones({2, 1, 2}))) == V{4, 10, 6});
  CHECK_THROWS_AS(conv_transpose2d(x, w, {}, {.output_padding = 1}), ValueError);
  CHECK_THROWS_AS(conv_transpose2d(x, w, {}, {.output_padding = -1}), ValueError);
  CHECK_THROWS_AS(conv_transpose1d(x[0][0], ones({1, 1, 2})), ShapeError);
}

TEST_CASE("gradients of conv2d", "[convolution]") {
  Tensor x = count({1, 1, 2, 3}).set_requires_grad(), b = tensor({7.f}).set_requires_grad();
  Tensor w = tensor({1.f, 2.f, 3.f, 4.f}).reshape({1, 1, 2, 2}).detach().set_requires_grad();
  conv2d(x, w, b).backward(tensor({1.f, 10.f}).reshape({1, 1, 1, 2}));
  CHECK(values(x.grad()) == V{1, 12, 20, 3, 34, 40});
  CHECK(values(w.grad()) == V{21, 32, 54, 65});
  CHECK(values(b.grad()) == V{11});
  conv2d(x, w, b).backward(tensor({1.f, 10.f}).reshape({1, 1, 1, 2}));
  CHECK(values(w.grad()) == V{42, 64, 108, 130});
}

TEST_CASE("a gradient through output_padding beyond the stride", "[convolution]") {
  // With dilation the output may be longer by more than a stride: the gradient must not grow with it.
  Tensor x = randn({1, 2, 4, 4}, {.dtype = f64}).set_requires_grad(), w = randn({2, 3, 2, 2}, {.dtype = f64});
  const Tensor y = conv_transpose2d(x, w, {}, {.output_padding = 2, .dilation = 3});
  CHECK(y.shape() == Shape{1, 3, 9, 9});
  const Tensor first = grad({y.sum()}, {x}, {}, {.create_graph = true})[0];
  CHECK(first.shape() == x.shape());
  y.sum().backward();
  CHECK(values(first) == values(x.grad()));
}

// Products of the GPU's kernels, element by element, on the host.
TEST_CASE("a part of a convolution is the product that a GPU computes", "[convolution]") {
  using namespace ct::convolution;
  struct Small {
    Shape x, w;
    Attrs attrs;
  };
  const Small cases[] = {
      {{2, 4, 5, 6}, {6, 2, 2, 3}, {.stride = {2, 1}, .padding = {1, 2}, .padding_end = {1, 2}, .groups = 2}},
      {{2, 3, 7, 8},
       {3, 1, 3, 2},
       {.stride = {1, 3}, .padding = 1, .padding_end = 1, .dilation = {2, 1}, .groups = 3}},
      {{1, 2, 4, 9}, {5, 2, 1, 3}, {.padding = {0, 4}, .padding_end = {0, 4}, .dilation = {1, 3}}}};
  for (const Small& c : cases) {
    const Tensor x = randn(c.x, {.dtype = f64}), w = randn(c.w, {.dtype = f64});
    const Tensor y = conv2d(x, w, {},
                            {.stride = c.attrs.stride,
                             .padding = c.attrs.padding,
                             .dilation = c.attrs.dilation,
                             .groups = c.attrs.groups});
    const Tensor g = randn(y.shape(), {.dtype = f64});
    Tensor x1 = x.clone().set_requires_grad(), w1 = w.clone().set_requires_grad();
    conv2d(x1, w1, {},
           {.stride = c.attrs.stride,
            .padding = c.attrs.padding,
            .dilation = c.attrs.dilation,
            .groups = c.attrs.groups})
        .backward(g);
    for (const Part part : {Part::x, Part::weight, Part::y}) {
      const Tensor& want = part == Part::x ? x1.grad() : part == Part::weight ? w1.grad() : y;
      Tensor got = zeros(want.shape(), {.dtype = f64});
      std::array<const Tensor*, 3> parts{&x, &w, part == Part::y ? &y : &g};
      parts[static_cast<std::size_t>(part)] = &got;
      Product p = product_of({"conv2d", Geometry(c.attrs, c.x, c.w, y.shape()), part, parts});
      if (part == Part::weight) {
        p.split(3, 4);
        CHECK(p.splits == 3);
      }
      std::uint32_t terms = 0;
      for (std::uint32_t group = 0; group < p.groups; ++group)
        for (std::uint32_t split = 0; split < p.splits; ++split)
          for (std::uint32_t m = 0; m < p.m; ++m)
            for (std::uint32_t n = 0; n < p.n; ++n) {
              double sum = 0;
              for (std::uint32_t k = split * p.k_split; k < std::min(p.k, (split + 1) * p.k_split);
                   ++k, ++terms) {
                const Place pixel = p.patches.pixel(part == Part::weight ? k : n),
                            tap = p.patches.tap(part == Part::weight ? n : k);
                CHECK(p.patches.at(kNowhere, tap) == -1);
                CHECK(p.patches.at(pixel, kNowhere) == -1);
                if (const long long at = p.patches.at(pixel, tap); at >= 0)
                  sum += static_cast<const double*>(p.a)[group * p.a_group + m * p.a_row + p.a_at(k)] *
                         static_cast<const double*>(p.b)[group * p.b_group + at];
              }
              got.data<double>()[group * p.c_group + m * p.c_row + p.c_at(n)] += sum;
            }
      CHECK(terms == p.groups * p.m * p.n * p.k);
      const V a = values(got), b = values(want);
      REQUIRE(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).margin(1e-12));
    }
  }
}

// The fast kernels' layout, gone through on the host: no tap looks at an edge.
TEST_CASE("a convolution of images that lie flat is a sum of shifted images", "[convolution]") {
  using namespace ct::convolution;
  struct Small {
    Shape x;
    Size2d kernel;
    Attrs attrs;
  };
  const Small cases[] = {{{3, 1, 5, 6}, 3, {.padding = 1, .padding_end = 1}},
                         {{2, 1, 4, 7}, {2, 3}, {.padding = {0, 3}, .padding_end = {1, -1}}},
                         {{2, 1, 9, 8}, 3, {.padding = {3, 1}, .padding_end = {3, 1}, .dilation = {2, 3}}},
                         {{2, 1, 3, 4}, 1, {.padding = 2, .padding_end = 2}},
                         {{1, 1, 6, 5}, {1, 4}, {}}};
  for (const Small& c : cases)
    for (const bool back : {false, true}) {
      const auto size = [](std::int64_t n, std::int64_t k, std::int64_t d, std::int64_t padded) {
        return n + padded - d * (k - 1);
      };
      const Attrs& a = c.attrs;
      const Shape small{
          c.x[0], 1,
          size(c.x[2], c.kernel.height, a.dilation.height, a.padding.height + a.padding_end.height),
          size(c.x[3], c.kernel.width, a.dilation.width, a.padding.width + a.padding_end.width)};
      const Geometry g(a, c.x, {1, 1, c.kernel.height, c.kernel.width}, small);
      Flat f;
      REQUIRE(lay_out(g, back, f));
      const Tensor in = randn(back ? small : c.x, {.dtype = f64});
      const Tensor w = randn({1, 1, c.kernel.height, c.kernel.width}, {.dtype = f64});
      Tensor want = zeros(back ? c.x : small, {.dtype = f64});
      back ? plain::input_gradient(g, want.data<double>(), w.data<double>(), in.data<double>())
           : plain::convolve(g, in.data<double>(), w.data<double>(), want.data<double>());
      V flat(static_cast<std::size_t>(f.positions));
      for (int m = 0; m < f.positions; ++m) {
        std::uint32_t n = 0;
        const int pixel = f.pixel(static_cast<std::uint32_t>(m), f.in_height, f.in_width, n);
        if (pixel >= 0)
          flat[static_cast<std::size_t>(m)] =
              in.data<double>()[static_cast<int>(n) * f.in_height * f.in_width + pixel];
      }
      std::uint32_t u = 0;
      for (int m = 0; m < f.positions; ++m) {
        CHECK(f.pixels_before(static_cast<std::uint32_t>(m)) == u);
        if (u == want.numel() || f.position(u) != m) continue;
        double sum = 0;
        for (int tap = 0; tap < f.taps; ++tap) {
          const int at =
              m + f.first + tap / f.kernel_width * f.step_row + tap % f.kernel_width * f.step_column;
          CHECK(at - m - f.first < f.seen(1));
          if (at >= 0 && at < f.positions)
            sum += flat[static_cast<std::size_t>(at)] * w.data<double>()[back ? f.taps - 1 - tap : tap];
        }
        CHECK(sum == Approx(want.data<double>()[u]).margin(1e-12));
        ++u;
      }
      CHECK(u == want.numel());
      CHECK(f.pixels_before(static_cast<std::uint32_t>(f.positions)) == u);
    }
}

namespace {

struct Large {
  Shape x, w;
  Conv2dOptions options;
};
using Results = std::array<V, 3>;  // y, dx, dw
// Results of conv2d on a device, in `type`, for x, w and the cotangent rounded to `dtype`.
Results run(const Large& c, const std::array<Tensor, 3>& in, DType dtype, DType type, Device device) {
  const auto there = [&](const Tensor& t) { return t.to(dtype).to(device, type).detach(); };
  Tensor x = there(in[0]).set_requires_grad(), w = there(in[1]).set_requires_grad();
  const Tensor y = conv2d(x, w, {}, c.options);
  y.backward(there(in[2]));
  return {values(y), values(x.grad()), values(w.grad())};
}
std::array<Tensor, 3> inputs_of(const Large& c) {
  const Tensor x = randn(c.x, {.dtype = f64}), w = randn(c.w, {.dtype = f64});
  return {x, w, randn(conv2d(x, w, {}, c.options).shape(), {.dtype = f64})};
}
// By the largest element, for sums of hundreds of products.
void check(const Results& got, const Results& want, double tolerance) {
  for (std::size_t part = 0; part < 3; ++part) {
    REQUIRE(got[part].size() == want[part].size());
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < want[part].size(); ++i) {
      largest = std::max(largest, std::abs(want[part][i]));
      worst = std::max(worst, std::abs(want[part][i] - got[part][i]));
    }
    INFO("part " << part);
    CHECK(worst <= tolerance * largest);
  }
}
double tolerance(DType t) { return t == f64 ? 1e-12 : t == f32 ? 2e-6 : t == f16 ? 1e-3 : 8e-3; }

}  // namespace

TEST_CASE("convolutions of several tiles and blocks of channels", "[convolution]") {
  const Large cases[] = {{{2, 120, 9, 10}, {7, 120, 3, 3}, {.padding = 1}},
                         {{1, 130, 12, 9}, {6, 130, 3, 3}, {.stride = {1, 2}, .padding = 2}},
                         {{1, 2, 1, 2500}, {2, 2, 1, 3}, {}},
                         {{81, 9, 6, 7}, {8, 9, 3, 3}, {.padding = {0, 1}}},
                         {{1, 32, 21, 80}, {40, 16, 3, 3}, {.padding = {1, 2}, .groups = 2}}};
  for (const Large& c : cases) {
    const auto in = inputs_of(c);
    const convolution::Geometry g(
        {.stride = c.options.stride, .padding = c.options.padding.size, .groups = c.options.groups}, c.x, c.w,
        in[2].shape());
    Results want{V(static_cast<std::size_t>(in[2].numel())), V(static_cast<std::size_t>(in[0].numel())),
                 V(static_cast<std::size_t>(in[1].numel()))};
    const double *x = in[0].data<double>(), *w = in[1].data<double>(), *dy = in[2].data<double>();
    plain::convolve(g, x, w, want[0].data());
    plain::input_gradient(g, want[1].data(), w, dy);
    plain::weight_gradient(g, x, want[2].data(), dy);
    check(run(c, in, f64, f64, cpu), want, tolerance(f64));
    for (const DType dtype : {f32, f16, bf16}) {
      INFO(dtype);
      check(run(c, in, dtype, dtype, cpu), run(c, in, dtype, f64, cpu), tolerance(dtype));
    }
  }
}

TEST_CASE("large convolutions on CUDA agree with the CPU", "[convolution][cuda]") {
  const Large cases[] = {{{3, 70, 23, 19}, {130, 70, 3, 3}, {.padding = 1}},
                         {{3, 70, 23, 19}, {130, 70, 3, 3}, {.stride = 2, .padding = {2, 1}}},
                         {{3, 40, 15, 18}, {48, 40, 1, 1}, {.stride = 2}},
                         {{2, 24, 26, 21}, {32, 24, 5, 4}, {.stride = {3, 2}, .dilation = {1, 2}}},
                         {{2, 96, 17, 16}, {160, 48, 1, 1}, {.groups = 2}},
                         {{2, 40, 31, 30}, {80, 1, 5, 3}, {.stride = {1, 2}, .padding = 2, .groups = 40}},
                         {{2, 3, 64, 64}, {64, 3, 7, 7}, {.stride = 2, .padding = 3}},
                         {{2, 3, 65, 65}, {48, 3, 7, 7}, {.stride = 2, .padding = 3}},
                         {{9, 40, 7, 7}, {24, 40, 3, 3}, {.padding = 1}},
                         {{3, 136, 12, 10}, {66, 136, 3, 3}, {.padding = {2, 0}, .dilation = {1, 2}}},
                         {{2, 17, 20, 18}, {16, 17, 2, 5}, {.padding = {0, 3}}},
                         {{2, 64, 5, 6}, {200, 64, 1, 1}, {}},
                         {{2, 50, 14, 14}, {70, 50, 5, 5}, {.padding = 2}},
                         {{5, 1, 28, 28}, {32, 1, 3, 3}, {}},
                         {{2, 36, 17, 15}, {40, 18, 3, 3}, {.stride = 2, .padding = 1, .groups = 2}},
                         {{2, 40, 9, 11}, {70, 20, 3, 3}, {.padding = 1, .groups = 2}},
                         // kernels as wide as fit into a mask, and wider
                         {{1, 18, 20, 17}, {17, 18, 15, 15}, {.padding = 7}},
                         {{2, 20, 12, 30}, {18, 20, 3, 17}, {.padding = {1, 8}}},
                         // so many filters that a block has several tiles of pixels
                         {{6, 24, 20, 20}, {1040, 24, 3, 3}, {.padding = 1}}};
  for (const Large& c : cases) {
    const auto in = inputs_of(c);
    for (const DType dtype : {f32, f64, f16, bf16}) {
      INFO(dtype << ' ' << c.x << ' ' << c.w);
      const Results got = run(c, in, dtype, dtype, cuda(0));
      // The rounding of a long sum in f32 grows with the root of its length; 16 bits are rounded but once.
      const auto terms = static_cast<double>(std::max(c.w[0], c.w[1]) * c.w[2] * c.w[3]);
      const double longer = dtype == f32 ? std::max(1.0, std::sqrt(terms / 1024)) : 1;
      check(got, run(c, in, dtype, f64, cpu), longer * tolerance(dtype));
      CHECK((got == run(c, in, dtype, dtype, cuda(0))));  // the same bits again
    }
  }
}

TEST_CASE("under Autocast the gradients of f32 weights are not rounded to 16 bits", "[convolution]") {
  for (const bool depthwise : {false, true}) {
    const std::int64_t groups = depthwise ? 4 : 1;
    const Tensor x = randn({3, 4, 6, 5});
    Tensor w = randn({4, 4 / groups, 3, 3}).set_requires_grad(), b = randn({4}).set_requires_grad();
    const Tensor g = randn({3, 4, 4, 3}).to(bf16);
    {
      const Autocast guard(bf16);
      const Tensor y = conv2d(x, w, b, {.groups = groups});
      CHECK(y.dtype() == bf16);
      y.backward(g);
    }
    Tensor w64 = w.detach().to(bf16).to(f64).set_requires_grad();
    conv2d(x.to(bf16).to(f64), w64, {}, {.groups = groups}).backward(g.to(f64));
    CHECK(w.grad().dtype() == f32);
    const V got = values(w.grad()), want = values(w64.grad());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(2e-5));
    CHECK(b.grad().dtype() == f32);
  }
}
