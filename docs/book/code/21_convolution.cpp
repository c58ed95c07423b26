#include <cotangent/cotangent.h>
#include <cotangent/nn/profile/profile.h>

#include <book.h>
#include <examples/common/svg.h>

#include <cmath>
#include <string>
#include <vector>

// Chapter 21: a convolution, as loops, as a product with a matrix that nobody stores, with fewer multiplications; and its gradients.

namespace {

using ct::Tensor;
using Numbers = std::vector<double>;

// --- loops ---

struct Sizes {
  int N, C, H, W, O, k, stride, pad;
  int out_h() const { return (H + 2 * pad - k) / stride + 1; }
  int out_w() const { return (W + 2 * pad - k) / stride + 1; }
  int x() const { return N * C * H * W; }
  int w() const { return O * C * k * k; }
  int y() const { return N * O * out_h() * out_w(); }
};

/// Calls f(a, b, c) for every product x_a w_b that y_c is a sum of.
template <class F>
void each_product(const Sizes& s, F&& f) {
  for (int n = 0; n < s.N; ++n)
    for (int o = 0; o < s.O; ++o)
      for (int p = 0; p < s.out_h(); ++p)
        for (int q = 0; q < s.out_w(); ++q)
          for (int c = 0; c < s.C; ++c)
            for (int i = 0; i < s.k; ++i)
              for (int j = 0; j < s.k; ++j) {
                const int row = p * s.stride + i - s.pad, column = q * s.stride + j - s.pad;
                if (row < 0 || row >= s.H || column < 0 || column >= s.W) continue;
                f(((n * s.C + c) * s.H + row) * s.W + column, ((o * s.C + c) * s.k + i) * s.k + j,
                  ((n * s.O + o) * s.out_h() + p) * s.out_w() + q);
              }
}

Numbers convolve(const Sizes& s, const Numbers& x, const Numbers& w) {
  Numbers y(static_cast<std::size_t>(s.y()));
  each_product(s, [&](int a, int b, int c) { y.data()[c] += x.data()[a] * w.data()[b]; });
  return y;
}
Numbers input_gradient(const Sizes& s, const Numbers& g, const Numbers& w) {
  Numbers dx(static_cast<std::size_t>(s.x()));
  each_product(s, [&](int a, int b, int c) { dx.data()[a] += g.data()[c] * w.data()[b]; });
  return dx;
}
Numbers weight_gradient(const Sizes& s, const Numbers& g, const Numbers& x) {
  Numbers dw(static_cast<std::size_t>(s.w()));
  each_product(s, [&](int a, int b, int c) { dw.data()[b] += g.data()[c] * x.data()[a]; });
  return dw;
}

void one_axis() {
  book::section("one axis");
  const Numbers x{1, 2, 4, 8, 16}, w{1, 0, -1}, g{1, 10, 100};
  std::printf("x        1   2   4   8  16\n");
  Numbers y(3), dx(5), dw(3);
  for (std::size_t p = 0; p < 3; ++p) {
    std::printf("filter ");
    for (std::size_t a = 0; a < 5; ++a)
      if (a >= p && a < p + 3)
        std::printf("%4.0f", w[a - p]);
      else
        std::printf("   .");
    for (std::size_t i = 0; i < 3; ++i)
      y[p] += x[p + i] * w[i], dx[p + i] += g[p] * w[i], dw[i] += g[p] * x[p + i];
    std::printf("     y = %4.0f     g = %4.0f\n", y[p], g[p]);
  }
  std::printf("dx     %4.0f%4.0f%4.0f%4.0f%5.0f     the columns, by g\n", dx[0], dx[1], dx[2], dx[3], dx[4]);
  std::printf("dw     %4.0f%5.0f%6.0f      g . x, from its places 0, 1 and 2 on\n", dw[0], dw[1], dw[2]);
}

// --- the gradients as convolutions ---

/// dx of a convolution with stride 1: one of g, with the filters turned round and the axes of channels and filters exchanged.
Tensor input_gradient(const Tensor& g, const Tensor& w, std::int64_t pad) {
  return ct::conv2d(g, ct::flip(w, {2, 3}).transpose(0, 1).contiguous(), {},
                    {.padding = w.size(2) - 1 - pad});
}
/// dw: one of x with g as its filters, where images are channels and channels images; a stride spreads g.
Tensor weight_gradient(const Tensor& g, const Tensor& x, std::int64_t k, std::int64_t stride,
                       std::int64_t pad) {
  const Tensor dw = ct::conv2d(x.transpose(0, 1).contiguous(), g.transpose(0, 1).contiguous(), {},
                               {.padding = pad, .dilation = stride});
  return dw.transpose(0, 1).narrow(2, 0, k).narrow(3, 0, k);
}

Tensor tensor_of(const Numbers& values, const ct::Shape& shape) {
  return ct::from_vector(values).reshape(shape);
}

void three_from_two() {
  book::section("three from two");
  std::printf("  N  C  H  W   O  k  stride  pad  loops   dx is\n");
  for (const Sizes& s : {Sizes{2, 3, 7, 6, 4, 3, 1, 1}, Sizes{1, 2, 8, 9, 3, 3, 2, 1},
                         Sizes{3, 1, 6, 6, 2, 5, 1, 0}, Sizes{2, 4, 5, 5, 4, 1, 1, 0}}) {
    const Tensor x = ct::randn({s.N, s.C, s.H, s.W}, {.dtype = ct::f64}).set_requires_grad();
    const Tensor w = ct::randn({s.O, s.C, s.k, s.k}, {.dtype = ct::f64}).set_requires_grad();
    const Tensor y = ct::conv2d(x, w, {}, {.stride = s.stride, .padding = s.pad});
    const Tensor g = ct::randn(y.shape(), {.dtype = ct::f64});
    const std::vector<Tensor> d = ct::grad({y}, {x, w}, {g});
    const Numbers xs = x.detach().to_vector<double>(), ws = w.detach().to_vector<double>(),
                  gs = g.to_vector<double>();
    const auto agrees = [](const Tensor& a, const Tensor& b) {
      return ct::amax(ct::abs(a - b)).item() < 1e-10;
    };
    const bool plain = agrees(y, tensor_of(convolve(s, xs, ws), y.shape())) &&
                       agrees(d[0], tensor_of(input_gradient(s, gs, ws), x.shape())) &&
                       agrees(d[1], tensor_of(weight_gradient(s, gs, xs), w.shape()));
    const std::int64_t unseen = (s.W + 2 * s.pad - s.k) % s.stride;  // columns of x that no filter reaches
    const Tensor dx = s.stride == 1 ? input_gradient(g, w, s.pad)
                                    : ct::conv_transpose2d(
                                          g, w, {},
                                          {.stride = s.stride,
                                           .padding = s.pad,
                                           .output_padding = {(s.H + 2 * s.pad - s.k) % s.stride, unseen}});
    const bool by_ops = agrees(d[0], dx) && agrees(d[1], weight_gradient(g, x, s.k, s.stride, s.pad));
    std::printf("%3d %2d %2d %2d %3d %2d %7d %4d %6s   %s\n", s.N, s.C, s.H, s.W, s.O, s.k, s.stride, s.pad,
                plain ? "agree" : "no",
                s.stride == 1 ? "conv2d(g, w turned round)" : "conv_transpose2d(g, w)");
    book::claim(plain && by_ops, "all ways give the same");
  }
}

// --- a product with a matrix that nobody stores ---

/// Element (r, m) of the unfolded image: row r is a channel and a place in the filter, column m a pixel of y. Stored nowhere.
double unfolded(const Sizes& s, const Numbers& x, int n, int r, int m) {
  const int c = r / (s.k * s.k), i = r / s.k % s.k, j = r % s.k;
  const int row = m / s.out_w() * s.stride + i - s.pad, column = m % s.out_w() * s.stride + j - s.pad;
  const bool inside = row >= 0 && row < s.H && column >= 0 && column < s.W;
  return inside ? x[static_cast<std::size_t>(((n * s.C + c) * s.H + row) * s.W + column)] : 0;
}

/// y[n] [O, H' W'] = w [O, C k k] times the unfolded image.
Numbers by_product(const Sizes& s, const Numbers& x, const Numbers& w) {
  Numbers y;
  const int inner = s.C * s.k * s.k;
  for (int n = 0; n < s.N; ++n)
    for (int o = 0; o < s.O; ++o)
      for (int m = 0; m < s.out_h() * s.out_w(); ++m) {
        double sum = 0;
        for (int r = 0; r < inner; ++r)
          sum += w[static_cast<std::size_t>(o * inner + r)] * unfolded(s, x, n, r, m);
        y.push_back(sum);
      }
  return y;
}

void products() {
  book::section("products");
  const Sizes small{1, 2, 6, 6, 3, 3, 1, 1};
  const Numbers x = ct::randn({1, 2, 6, 6}, {.dtype = ct::f64}).to_vector<double>();
  const Numbers w = ct::randn({3, 2, 3, 3}, {.dtype = ct::f64}).to_vector<double>();
  const Numbers a = convolve(small, x, w), b = by_product(small, x, w);
  double off = 0;
  for (std::size_t i = 0; i < a.size(); ++i) off = std::max(off, std::abs(a[i] - b[i]));
  book::claim(off < 1e-12, "a product with the unfolded image is the convolution");
  std::printf(
      "64 images in bf16            MB: x   x unfolded   w, y   operations a byte: unfolded   never "
      "stored\n");
  struct Layer {
    const char* name;
    Sizes s;
  };
  for (const Layer& layer : {Layer{"3 x 3, 64 to 64, 56 x 56", {64, 64, 56, 56, 64, 3, 1, 1}},
                             Layer{"3 x 3, 512 to 512, 7 x 7", {64, 512, 7, 7, 512, 3, 1, 1}},
                             Layer{"1 x 1, 256 to 64, 56 x 56", {64, 256, 56, 56, 64, 1, 1, 0}},
                             Layer{"7 x 7, 3 to 64, 224, stride 2", {64, 3, 224, 224, 64, 7, 2, 3}}}) {
    const Sizes& s = layer.s;
    const double image = 2.0 * s.x(), pixels = static_cast<double>(s.N) * s.out_h() * s.out_w(),
                 inner = s.C * s.k * s.k;
    const double stored = 2 * inner * pixels, rest = 2.0 * (s.w() + s.y()),
                 operations = 2 * inner * pixels * s.O;
    std::printf("%-29s %6.1f %12.1f %6.1f %28.0f %14.0f\n", layer.name, image / 1e6, stored / 1e6, rest / 1e6,
                operations / (image + 2 * stored + rest), operations / (image + rest));
  }
}

// --- four multiplications less ---

struct Two {
  double y0, y1;
};
/// Two neighbours of y from four of x, by six multiplications, and by four (of w what is in brackets is made once).
Two by_six(const double* x, const double* w) {
  return {x[0] * w[0] + x[1] * w[1] + x[2] * w[2], x[1] * w[0] + x[2] * w[1] + x[3] * w[2]};
}
Two by_four(const double* x, const double* w) {
  const double a = (x[0] - x[2]) * w[0];
  const double b = (x[1] + x[2]) * ((w[0] + w[1] + w[2]) / 2);
  const double c = (x[2] - x[1]) * ((w[0] - w[1] + w[2]) / 2);
  const double d = (x[1] - x[3]) * w[2];
  return {a + b + c, b - c - d};
}

void winograd() {
  book::section("winograd");
  const Numbers x = ct::randn({4000}, {.dtype = ct::f64}).to_vector<double>(), w{0.3, -1.2, 0.7};
  double off = 0;
  for (std::size_t i = 0; i < 3996; ++i) {
    const Two six = by_six(&x[i], w.data()), four = by_four(&x[i], w.data());
    off = std::max({off, std::abs(six.y0 - four.y0), std::abs(six.y1 - four.y1)});
  }
  book::claim(off < 1e-14, "four multiplications give the same two numbers");
  std::printf("                          pixels of y   of x   multiplications   a pixel\n");
  std::printf("along a line, plain                 2      4                 6      3.00\n");
  std::printf("along a line, Winograd              2      4                 4      2.00\n");
  std::printf("3 x 3, plain                   2 x 2  4 x 4                36      9.00\n");
  std::printf("3 x 3, Winograd                2 x 2  4 x 4                16      4.00\n");
}

// --- filters, seen and found ---

void filters() {
  const std::int64_t side = 28;
  std::vector<float> ring;
  for (std::int64_t i = 0; i < side * side; ++i) {
    const double r = std::hypot(static_cast<double>(i / side) - 13.5, static_cast<double>(i % side) - 13.5);
    ring.push_back(r > 6 && r < 10 ? 1.0f : 0.0f);
  }
  const Tensor image = ct::from_vector(ring).reshape({1, 1, side, side});
  const Tensor upright =
      ct::tensor({-1.0, 0.0, 1.0, -2.0, 0.0, 2.0, -1.0, 0.0, 1.0}, {.dtype = ct::f32}).reshape({1, 1, 3, 3});
  const Tensor blur = ct::full({1, 1, 5, 5}, 1.0 / 25);
  const auto picture = [&](const Tensor& t, const char* caption) {
    const Tensor low = ct::amin(t), high = ct::amax(t);
    return svg::Picture{((t - low) / (high - low)).flatten().to_vector<float>(), caption};
  };
  const ct::Conv2dOptions same{.padding = "same"};
  book::figure(
      "21-filters",
      svg::sheet("An image, and what filters make of it",
                 {picture(image, "x"), picture(ct::conv2d(image, upright, {}, same), "upright edges"),
                  picture(ct::conv2d(image, upright.transpose(2, 3).contiguous(), {}, same), "level edges"),
                  picture(ct::conv2d(image, blur, {}, same), "a mean of 5 x 5")},
                 static_cast<int>(side), 4));

  book::section("found");
  ct::manual_seed(3);
  const Tensor x = ct::randn({8, 1, 12, 12}), y = ct::conv2d(x, upright);
  Tensor w = ct::zeros({1, 1, 3, 3});
  w.set_requires_grad();
  ct::optim::SGD sgd({w}, {.lr = 0.2});
  for (int i = 0; i < 100; ++i) {
    sgd.zero_grad();
    ct::mse_loss(ct::conv2d(x, w), y).backward();
    sgd.step();
  }
  const std::vector<float> found = w.detach().to_vector<float>();
  for (std::size_t i = 0; i < 3; ++i)
    std::printf("%6.2f %6.2f %6.2f\n", found[3 * i] + 0.0,
                std::abs(found[3 * i + 1]) < 1e-3 ? 0.0 : found[3 * i + 1], found[3 * i + 2] + 0.0);
  book::claim(ct::amax(ct::abs(w.detach() - upright)).item() < 1e-3, "the filter is found from what it did");
}

void measured() {
  book::section("measured");
  const Sizes s{1, 64, 28, 28, 64, 3, 1, 1};
  const Tensor x = ct::randn({s.N, s.C, s.H, s.W}), w = ct::randn({s.O, s.C, s.k, s.k});
  const Numbers xs = x.to(ct::f64).to_vector<double>(), ws = w.to(ct::f64).to_vector<double>();
  const double operations = 2.0 * s.y() * s.C * 9;
  const ct::TimeOptions few{.warmup = 1, .runs = 3, .flush = false, .device = ct::cpu},
      many{.warmup = 3, .runs = 15, .flush = false, .device = ct::cpu};
  const auto row = [&](const char* name, double seconds) {
    std::printf("%-30s %8.2f ms %7.1f GFLOP/s\n", name, 1e3 * seconds, operations / seconds / 1e9);
  };
  row("loops, f64", ct::time_of([&] { convolve(s, xs, ws); }, few));
  row("ct::conv2d", ct::time_of([&] { ct::conv2d(x, w, {}, {.padding = 1}); }, many));
  row("the same product, ct::matmul",
      ct::time_of([a = w.reshape({64, 576}), b = ct::randn({576, 28 * 28})] { ct::matmul(a, b); }, many));
}

void chapter() {
  ct::manual_seed(1);
  one_axis();
  three_from_two();
  products();
  winograd();
  filters();
  measured();
}

}  // namespace

int main() { return book::run(chapter); }
