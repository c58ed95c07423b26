#include <cotangent/cotangent.h>
#include <cotangent/ops/loss/classes/class_loss_internal.h>

#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;
using ct::testing::largest_difference;

namespace {

using V = std::vector<double>;
using testing::values;
void check_near(const Tensor& t, const V& want, double margin = 1e-6) {
  const V got = values(t);
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(margin));
}
Tensor labels(std::initializer_list<std::int64_t> list) { return tensor(list); }

// For logits 1, 2, 3: logsumexp is 3.4076060, the losses of the three labels and their probabilities are
constexpr double kLoss[3] = {2.4076060, 1.4076060, 0.4076060};
constexpr double kP[3] = {0.0900306, 0.2447285, 0.6652410};
Tensor two_rows() { return tensor({{1.f, 2.f, 3.f}, {1.f, 2.f, 3.f}}); }

// The gradient of logits x + shift is that of x.
void check_moved_logits(Device device, const Shape& shape, double margin) {
  Shape rows = shape;
  rows.erase(1);
  // Integers, so that moving them far from 0 rounds nothing.
  const Tensor x = (randn(shape) * 2.0).to(i64).to(f32).to(device);
  const Tensor t = randint(0, shape[1], rows, {.dtype = i64}).to(device);
  const Tensor p = softmax(randn(shape), 1).to(device);
  struct Gradients {
    Tensor logits, target;
  };
  const auto run = [&](const Tensor& logits, double smoothing, bool soft) -> Gradients {
    const Tensor leaf = logits.clone().set_requires_grad(), q = p.clone().set_requires_grad();
    cross_entropy(leaf, soft ? q : t, {.reduction = Reduction::sum, .label_smoothing = smoothing}).backward();
    return {leaf.grad(), soft ? q.grad() : Tensor{}};
  };
  for (const double smoothing : {0.0, 0.1})
    for (const double shift : {1e3, 1e5, 1e6})
      for (const bool soft : {false, true}) {
        const Gradients want = run(x, smoothing, soft), got = run(x + shift, smoothing, soft);
        INFO(shape << ", shift " << shift << ", smoothing " << smoothing << ", soft " << soft);
        CHECK(largest_difference(got.logits, want.logits) < margin);
        if (soft) CHECK(largest_difference(got.target, want.target) < 10 * margin);
      }
  // Four equal logits, nearly as large as they can be.
  const Tensor even = full({1, 4}, 3e38f, {.device = device}).set_requires_grad();
  cross_entropy(even, zeros({1}, {.dtype = i64, .device = device})).backward();
  check_near(even.grad(), {-0.75, 0.25, 0.25, 0.25});
}

// A mean over rows that weigh nothing is NaN, also where smoothing gives them a loss.
void check_weightless_rows(Device device) {
  const Tensor w = tensor({0.f, 2.f, 3.f}).to(device), t = labels({0, 0}).to(device);
  for (const double smoothing : {0.0, 0.3, 1.0}) {
    const Tensor x = ct::testing::leaf(two_rows().to(device));
    const Tensor loss = cross_entropy(x, t, {.weight = w, .label_smoothing = smoothing});
    CHECK(std::isnan(loss.item()));
    loss.backward();
    for (const double d : values(x.grad())) CHECK(std::isnan(d));
    const Tensor sum = cross_entropy(
        two_rows().to(device), t, {.weight = w, .reduction = Reduction::sum, .label_smoothing = smoothing});
    // Twice s / 3 (2 L[1] + 3 L[2]).
    CHECK(sum.item() == Approx(2 * smoothing / 3 * (2 * kLoss[1] + 3 * kLoss[2])).margin(1e-6));
  }
}

}  // namespace

TEST_CASE("the mean of rows without weight is NaN", "[cross_entropy]") { check_weightless_rows(cpu); }
TEST_CASE("the mean of rows without weight is NaN, on CUDA", "[cross_entropy][cuda]") {
  check_weightless_rows(cuda(0));
}

TEST_CASE("cross_entropy of labels", "[cross_entropy]") {
  Tensor x = two_rows().set_requires_grad();
  const Tensor t = labels({2, 0});
  check_near(cross_entropy(x, t, {.reduction = Reduction::none}), {kLoss[2], kLoss[0]});
  CHECK(cross_entropy(x, t, {.reduction = Reduction::sum}).item() == Approx(kLoss[2] + kLoss[0]));
  const Tensor mean = cross_entropy(x, t);
  CHECK(mean.shape() == Shape{});
  CHECK(mean.item() == Approx((kLoss[2] + kLoss[0]) / 2));
  mean.backward();
  check_near(x.grad(), {kP[0] / 2, kP[1] / 2, (kP[2] - 1) / 2, (kP[0] - 1) / 2, kP[1] / 2, kP[2] / 2});
  CHECK(cross_entropy(x, t.to(i32)).item() == mean.item());
  CHECK(cross_entropy(x[0], tensor(std::int64_t{1})).item() == Approx(kLoss[1]));
}

TEST_CASE("cross_entropy with weights, ignored rows and smoothing", "[cross_entropy]") {
  Tensor x = two_rows().set_requires_grad();
  const Tensor t = labels({2, 0}), w = tensor({0.5f, 1.f, 2.f});
  CHECK(cross_entropy(x, t, {.weight = w}).item() == Approx((2 * kLoss[2] + 0.5 * kLoss[0]) / 2.5));
  CHECK(cross_entropy(x, t, {.weight = w, .ignore_index = 0}).item() == Approx(kLoss[2]));
  // 0.9 * 0.407606 + 0.1 * 1.407606
  CHECK(cross_entropy(x[0], tensor(std::int64_t{2}), {.label_smoothing = 0.1}).item() == Approx(0.5076060));
  // Row 0: 0.8 * 2 * 0.407606 + 0.2/3 * (0.5 * 2.407606 + 1.407606 + 2 * 0.407606), row 1 alike; the mean
  // divides by the weights of the labels.
  const CrossEntropyOptions both{.weight = w, .reduction = Reduction::none, .label_smoothing = 0.2};
  check_near(cross_entropy(x, t, both), {0.8806109, 1.1914838});
  const Tensor mean = cross_entropy(x, t, {.weight = w, .label_smoothing = 0.2});
  CHECK(mean.item() == Approx(0.8288379));
  // A row's gradient: A p - 0.2/3 w, less 0.8 w[t] at the label, with A = 0.8 w[t] + 0.2/3 * 3.5; over 2.5.
  mean.backward();
  const double a = 1.6 + 0.7 / 3, b = 0.4 + 0.7 / 3, s = 0.2 / 3;
  check_near(x.grad(), {(a * kP[0] - s * 0.5) / 2.5, (a * kP[1] - s) / 2.5, (a * kP[2] - s * 2 - 1.6) / 2.5,
                        (b * kP[0] - s * 0.5 - 0.4) / 2.5, (b * kP[1] - s) / 2.5, (b * kP[2] - s * 2) / 2.5});
}

TEST_CASE("cross_entropy of distributions", "[cross_entropy]") {
  Tensor x = tensor({{1.f, 2.f, 3.f}}).set_requires_grad(),
         y = tensor({{0.2f, 0.3f, 0.5f}}).set_requires_grad();
  const Tensor loss = cross_entropy(x, y);
  CHECK(loss.item() == Approx(1.1076060));  // 3.407606 - (0.2 + 0.6 + 1.5)
  loss.backward();
  check_near(x.grad(), {kP[0] - 0.2, kP[1] - 0.3, kP[2] - 0.5});
  check_near(y.grad(), {kLoss[0], kLoss[1], kLoss[2]});
  // A label is a distribution, and so is a smoothed one.
  const Tensor hot = tensor({{0.f, 0.f, 1.f}});
  CHECK(cross_entropy(x, hot).item() == Approx(kLoss[2]));
  CHECK(cross_entropy(x, hot, {.label_smoothing = 0.1}).item() == Approx(0.5076060));
}

TEST_CASE("cross_entropy of rows along inner axes", "[cross_entropy]") {
  const Tensor x = randn({2, 5, 3, 7}), t = randint(0, 5, {2, 3, 7}, {.dtype = i64});
  const Tensor flat = x.permute({0, 2, 3, 1}).contiguous().reshape({42, 5});
  for (const double smoothing : {0.0, 0.1}) {
    const CrossEntropyOptions each{.reduction = Reduction::none, .label_smoothing = smoothing};
    const Tensor got = cross_entropy(x, t, each);
    CHECK(got.shape() == Shape{2, 3, 7});
    check_near(got, values(cross_entropy(flat, t.reshape({42}), each)), 1e-5);
  }
}

TEST_CASE("cross_entropy of extreme logits", "[cross_entropy]") {
  const Tensor t = labels({2});
  for (const double offset : {1e4, -1e4}) {  // 1e4 + {1, 2, 3} is exact in f32
    const Tensor x = tensor({{1.f, 2.f, 3.f}}) + offset;
    CHECK(cross_entropy(x, t).item() == Approx(kLoss[2]).margin(2e-3));
    CHECK(cross_entropy(x, t, {.label_smoothing = 0.1}).item() == Approx(0.5076060).margin(2e-3));
  }
  const float inf = std::numeric_limits<float>::infinity();
  // A masked class takes no part.
  Tensor masked = tensor({{-inf, 0.f, 0.f}}).set_requires_grad();
  const Tensor loss = cross_entropy(masked, t);
  CHECK(loss.item() == Approx(std::log(2.0)));
  loss.backward();
  check_near(masked.grad(), {0, 0.5, -0.5});
  CHECK(cross_entropy(masked, labels({0})).item() == inf);
  CHECK(cross_entropy(tensor({{1000.f, 0.f, 0.f}}), t).item() == 1000);
  CHECK(std::isnan(cross_entropy(tensor({{NAN, 0.f, 0.f}}), t).item()));
  CHECK(std::isnan(cross_entropy(tensor({{0.f, 0.f, NAN}}), labels({0})).item()));
}

TEST_CASE("cross_entropy with nothing to count", "[cross_entropy]") {
  Tensor x = two_rows().set_requires_grad();
  for (const double smoothing : {0.0, 0.1}) {
    x.set_grad({});
    const Tensor loss = cross_entropy(x, labels({-100, -100}), {.label_smoothing = smoothing});
    CHECK(std::isnan(loss.item()));
    loss.backward();
    CHECK(values(x.grad()) == V(6, 0));
  }
  CHECK(std::isnan(cross_entropy(zeros({0, 3}), zeros({0}, {.dtype = i64})).item()));
  CHECK(cross_entropy(zeros({0, 3}), zeros({0}, {.dtype = i64}), {.reduction = Reduction::sum}).item() == 0);
}

TEST_CASE("cross_entropy refuses what does not fit", "[cross_entropy]") {
  CHECK_THROWS_WITH(
      cross_entropy(zeros({2, 10}), labels({3, 11})),
      "[cross_entropy] class label 11 is out of range for 10 classes; labels must lie in [0, 10) or "
      "equal ignore_index");
  CHECK_THROWS_AS(cross_entropy(zeros({2, 10}), labels({3, -1})), IndexError);
  CHECK_NOTHROW(cross_entropy(zeros({2, 10}), labels({3, -100})));
  CHECK_THROWS_AS(cross_entropy(zeros({2, 10}), labels({1, 2, 3})), ShapeError);
  CHECK_THROWS_AS(cross_entropy(zeros({2, 10}), zeros({2})), ShapeError);
  CHECK_THROWS_AS(cross_entropy(zeros({2, 10}), labels({1, 2}), {.label_smoothing = -0.1}), ValueError);
  CHECK_THROWS_AS(cross_entropy(zeros({2, 10}, {.dtype = i64}), labels({1, 2})), DTypeError);
}

// The tests below look at where the gradient is written: over the logits, when no other tensor shares them.

TEST_CASE("cross_entropy never makes a second copy of the logits", "[cross_entropy]") {
  Tensor x = randn({256, 4}).set_requires_grad(), w = randn({8192, 4}).set_requires_grad();
  const Tensor t = randint(0, 8192, {256}, {.dtype = i64});
  const std::size_t logits = 256 * 8192 * sizeof(float);
  const auto peak = [&](bool hold) {
    x.set_grad({}), w.set_grad({});
    const std::size_t before = memory_stats(cpu).in_use;
    reset_peak_stats(cpu);
    Tensor held = linear(x, w);
    const Tensor loss = cross_entropy(held, t);
    if (!hold) held = {};
    loss.backward();
    return memory_stats(cpu).peak_in_use - before;
  };
  CHECK(peak(false) > logits * 3 / 4);  // stats are exact to 64 KiB per thread
  CHECK(peak(false) < logits * 5 / 4);
  const V dx = values(x.grad()), dw = values(w.grad());
  CHECK(peak(true) > logits * 7 / 4);
  CHECK(values(x.grad()) == dx);
  CHECK(values(w.grad()) == dw);
}

TEST_CASE("the place of its gradient does not change what cross_entropy computes", "[cross_entropy]") {
  for (const DType dtype : {f64, f32, f16, bf16}) {
    for (const Shape& shape : {Shape{9, 37}, Shape{2, 5, 19}}) {
      Tensor x = randn(shape, {.dtype = dtype}).set_requires_grad();
      Shape rows = shape;
      rows.erase(1);
      const Tensor t = randint(0, shape[1], rows, {.dtype = i64});
      const Tensor soft = rand(shape, {.dtype = dtype}).set_requires_grad();
      for (int variant = 0; variant < 4; ++variant) {
        const CrossEntropyOptions options{
            .weight = variant & 1 ? rand({shape[1]}, {.dtype = dtype}) : Tensor{},
            .ignore_index = 1,
            .label_smoothing = variant & 1 ? 0.1 : 0};
        const auto gradient = [&](bool hold) {
          x.set_grad({});
          Tensor logits = x * 1.0;
          const Tensor kept = logits.clone();
          const Tensor loss = cross_entropy(logits, variant & 2 ? soft : t, options);
          if (!hold) logits = {};
          loss.backward();
          if (hold) CHECK(values(logits) == values(kept));
          return values(x.grad());
        };
        CHECK(gradient(false) == gradient(true));
      }
    }
  }
}

TEST_CASE("cross_entropy leaves logits alone that somebody else can see", "[cross_entropy]") {
  Tensor x = randn({6, 10}).set_requires_grad();
  const Tensor t = labels({1, 2, 3, 4, 5, 6}), other = labels({0, 0, 1, 1, 2, 2});
  const auto gradient = [&](const auto& loss_of) {
    x.set_grad({});
    loss_of(x * 1.0).backward();
    return values(x.grad());
  };
  const V one = gradient([&](const Tensor&l) { return cross_entropy(l, t); }),
          two = gradient([&](const Tensor&l) { return cross_entropy(l, other); });
  V sum = one;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += two[i];

  SECTION("a second consumer") {
    x.set_grad({});
    Tensor logits = x * 1.0;
    const Tensor both = cross_entropy(logits, t) + cross_entropy(logits, other);
    logits = {};
    both.backward();
    check_near(x.grad(), sum, 1e-6);
  }
  SECTION("an op before it that needs its own result") {
    x.set_grad({});
    Tensor logits = exp(x);
    const V e = values(logits);
    const Tensor loss = cross_entropy(logits, t);
    logits = {};
    loss.backward();
    Tensor plain = from_vector(e, {6, 10}).set_requires_grad();
    cross_entropy(plain, t).backward();
    V want = values(plain.grad());
    for (std::size_t i = 0; i < want.size(); ++i) want[i] *= e[i];
    check_near(x.grad(), want, 1e-6);
  }
  SECTION("a view") {
    x.set_grad({});
    Tensor logits = x * 1.0;
    const Tensor view = logits.detach()[2], loss = cross_entropy(logits, t);
    logits = {};
    loss.backward();
    CHECK(values(view) == values(x[2]));
    CHECK(values(x.grad()) == one);
  }
  SECTION("a tape that is kept") {
    x.set_grad({});
    const Tensor loss = cross_entropy(x * 1.0, t);
    loss.backward({}, true);
    CHECK(values(x.grad()) == one);
    loss.backward();
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(values(x.grad())[i] == Approx(2 * one[i]));
  }
  SECTION("memory of somebody else") {
    x.set_grad({});
    std::vector<float> mine(60);
    Tensor logits = Tensor::from_storage(Storage::wrap(mine.data(), 240, cpu, {}), {6, 10},
                                         contiguous_strides(Shape{6, 10}), 0, f32);
    logits.copy_(x);
    const std::vector<float> before = mine;
    const Tensor loss = cross_entropy(logits, t);
    logits = {};
    loss.backward();
    CHECK(mine == before);
    CHECK(values(x.grad()) == one);
  }
  SECTION("a view of what is gone is nobody's") {
    const V transposed = gradient([&](const Tensor& l) {
      return cross_entropy(l.t().contiguous().t(), t);  // not contiguous
    });
    CHECK(transposed == one);
    const V part = gradient([&](const Tensor& l) {
      return cross_entropy(l.narrow(0, 2, 3), labels({3, 4, 5}));
    });
    for (std::size_t i = 0; i < one.size(); ++i)
      CHECK(part[i] == Approx(i >= 20 && i < 50 ? 2 * one[i] : 0).margin(1e-9));
  }
}

TEST_CASE("cross_entropy on the GPU equals cross_entropy on the CPU", "[cross_entropy][cuda]") {
  for (const Shape& shape : {Shape{64, 10}, Shape{5000, 10}, Shape{33, 257}, Shape{900, 128}, Shape{7, 4099},
                             Shape{40, 4096}, Shape{3, 50304}, Shape{2, 5, 33, 41}, Shape{4, 21, 200, 100}}) {
    const Tensor x = randn(shape);
    Shape rows = shape;
    rows.erase(1);
    Tensor t = randint(0, shape[1], rows, {.dtype = i64});
    const Tensor w = rand({shape[1]});
    for (const double smoothing : {0.0, 0.1}) {
      const auto run = [&](Device d) {
        Tensor xd = x.to(d).clone().detach().set_requires_grad();
        const Tensor loss =
            cross_entropy(xd, t.to(d), {.weight = w.to(d), .ignore_index = 1, .label_smoothing = smoothing});
        loss.backward();
        return std::pair{loss.item(), xd.grad()};
      };
      const auto [loss, grad] = run(cuda(0));
      const auto [want_loss, want_grad] = run(cpu);
      CHECK(loss == Approx(want_loss).epsilon(1e-5));
      CHECK(largest_difference(grad, want_grad) * static_cast<double>(numel(rows)) < 1e-4);
    }
  }
}

TEST_CASE("cross_entropy on the GPU: logits in f64 below all that f32 holds", "[cross_entropy][cuda]") {
  const Tensor x = full({2, 10}, -1e300, {.dtype = f64, .device = cuda(0)});
  CHECK(cross_entropy(x, labels({3, 1}).to(cuda(0))).item() == Approx(std::log(10.0)));
}

TEST_CASE("cross_entropy on the GPU reports labels out of range and goes on", "[cross_entropy][cuda]") {
  Tensor x = zeros({2, 10}, {.device = cuda(0)}).set_requires_grad();
  const Tensor loss = cross_entropy(x, labels({3, 11}).to(cuda(0)));
  CHECK_THROWS_WITH(
      loss.item(),
      "[cross_entropy] class label 11 is out of range for 10 classes; labels must lie in [0, 10) or "
      "equal ignore_index");
  loss.backward();
  CHECK(values(x.grad())[3] == Approx(-0.9));
  CHECK(values(x.grad())[10] == 0);  // the bad row counts as ignored
  CHECK(cross_entropy(x, labels({3, 1}).to(cuda(0))).item() == Approx(std::log(10.0)));
}

TEST_CASE("a sum of two numbers and what rounding it loses are exact", "[cross_entropy]") {
  for (const auto& [a, b] :
       {std::pair{1e6f, 0.1f}, {0.1f, 1e6f}, {-4.3f, 10.825f}, {1e8f, 1.386f}, {3.f, 0.f}}) {
    float sum = 0, rest = 0;
    loss::exact_sum(a, b, sum, rest);
    CHECK(sum == a + b);
    CHECK(static_cast<double>(sum) + rest == static_cast<double>(a) + b);
  }
}

TEST_CASE("cross_entropy's gradient does not depend on where the logits lie", "[cross_entropy]") {
  for (const Shape& shape : {Shape{4, 50}, Shape{2, 50, 5}}) check_moved_logits(cpu, shape, 4e-7);
}

TEST_CASE("cross_entropy on the GPU: the gradient does not depend on where the logits lie",
          "[cross_entropy][cuda]") {
  // A thread, a warp and a block for a row; rows along an inner axis; rows of whole vectors.
  for (const Shape& shape : {Shape{4, 20}, Shape{4, 50}, Shape{4, 2049}, Shape{2, 50, 5}, Shape{4, 2048}})
    check_moved_logits(cuda(0), shape, 4e-6);
}
