#include <cotangent/core/op/registry.h>
#include <cotangent/cotangent.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/loss/head/linear_cross_entropy_internal.h>

#include <cmath>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;
using ct::testing::largest_difference;

namespace {

using V = std::vector<double>;
using testing::values;

struct Result {
  Tensor loss, dx, dw;
};

// Fused or as two ops; the loss is weighted by 0.5.
Result run(const Tensor& x, const Tensor& w, const Tensor& t, bool fused,
           const LinearCrossEntropyOptions& options) {
  const Tensor a = x.detach().clone().set_requires_grad(), b = w.detach().clone().set_requires_grad();
  const Tensor loss = fused ? linear_cross_entropy(a, b, t, options)
                            : cross_entropy(linear(a, b), t,
                                            {.ignore_index = options.ignore_index,
                                             .reduction = options.reduction,
                                             .label_smoothing = options.label_smoothing});
  (loss * 0.5).sum().backward();
  return {loss, a.grad(), b.grad()};
}

// The last feature moves all logits far from 0.
void check_moved_logits(Device device, std::int64_t classes, double margin) {
  // Integers, so that nothing is rounded.
  const auto integers = [&](const Shape& shape) { return (randn(shape) * 1.5).to(i64).to(f32).to(device); };
  const Tensor x = concat({integers({6, 8}), ones({6, 1}, {.device = device})}, 1);
  const Tensor w = integers({classes, 8}), t = randint(0, classes, {6}, {.dtype = i64}).to(device);
  for (const double smoothing : {0.0, 0.1})
    for (const bool recompute : {false, true}) {
      const LinearCrossEntropyOptions options{.label_smoothing = smoothing, .recompute = recompute};
      const auto gradient = [&](float shift) {
        const Tensor moved = concat({w, full({classes, 1}, shift, {.device = device})}, 1);
        return run(x, moved, t, true, options).dw.narrow(1, 0, 8);
      };
      INFO(classes << " classes, smoothing " << smoothing << ", recompute " << recompute);
      CHECK(largest_difference(gradient(1e6f), gradient(0)) < margin);
    }
}

}  // namespace

TEST_CASE("linear_cross_entropy of a row worked out by hand", "[linear_cross_entropy]") {
  // Logits 1, 2, 3: the probabilities are 0.0900306, 0.2447285, 0.6652410, the loss of the last 0.4076060.
  const Tensor x = tensor({{1.f, 1.f}}).set_requires_grad();
  const Tensor w = tensor({{1.f, 0.f}, {1.f, 1.f}, {1.f, 2.f}}).set_requires_grad();
  const Tensor loss = linear_cross_entropy(x, w, tensor({std::int64_t{2}}));
  CHECK(loss.shape() == Shape{});
  CHECK(loss.item() == Approx(0.4076060));
  loss.backward();
  const V dx = values(x.grad()), dw = values(w.grad());
  CHECK(dx[0] == Approx(0).margin(1e-6));  // p1 + p2 + p3 - 1
  CHECK(dx[1] == Approx(0.2447285 + 2 * (0.6652410 - 1)));
  const double p[3] = {0.0900306, 0.2447285, 0.6652410 - 1};
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(dw[2 * c] == Approx(p[c]));
    CHECK(dw[2 * c + 1] == Approx(p[c]));
  }
}

TEST_CASE("linear_cross_entropy equals linear and cross_entropy", "[linear_cross_entropy]") {
  const Tensor x = randn({23, 11}), w = randn({67, 11}), t = randint(0, 67, {23}, {.dtype = i64});
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    for (const std::int64_t chunk : {0, 1, 5, 23, 100})
      for (const bool recompute : {false, true}) {
        const LinearCrossEntropyOptions options{.ignore_index = t.to_vector<std::int64_t>()[3],
                                                .reduction = reduction,
                                                .label_smoothing = chunk == 5 ? 0.1 : 0,
                                                .chunk_rows = chunk,
                                                .recompute = recompute};
        const Result got = run(x, w, t, true, options), want = run(x, w, t, false, options);
        CHECK(largest_difference(got.loss, want.loss) < 2e-5);
        CHECK(largest_difference(got.dx, want.dx) < 1e-5);
        CHECK(largest_difference(got.dw, want.dw) < 1e-5);
      }
  // Leading axes are rows.
  const Tensor cube = x.narrow(0, 0, 20).reshape({4, 5, 11}), labels = t.narrow(0, 0, 20).reshape({4, 5});
  CHECK(linear_cross_entropy(cube, w, labels, {.reduction = Reduction::none}).shape() == Shape{4, 5});
  CHECK(linear_cross_entropy(cube, w, labels).item() ==
        Approx(cross_entropy(linear(x.narrow(0, 0, 20), w), t.narrow(0, 0, 20)).item()));
}

TEST_CASE("linear_cross_entropy in 16 bits adds the weight's gradient up in f32", "[linear_cross_entropy]") {
  for (const DType dtype : {bf16, f16}) {
    const Tensor x = randn({96, 8}, {.dtype = dtype}), w = randn({40, 8}, {.dtype = dtype});
    const Tensor t = randint(0, 40, {96}, {.dtype = i64});
    const LinearCrossEntropyOptions options{.reduction = Reduction::sum, .chunk_rows = 4};
    const Result got = run(x, w, t, true, options), want = run(x.to(f64), w.to(f64), t, false, options);
    CHECK(got.dw.dtype() == dtype);
    // 24 chunks, each rounded to 8 bits: added up in bf16 the error would be some 0.1.
    CHECK(largest_difference(got.dw, want.dw) < (dtype == bf16 ? 0.04 : 0.005));
    CHECK(largest_difference(got.dx, want.dx) < (dtype == bf16 ? 0.04 : 0.005));
  }
}

TEST_CASE("linear_cross_entropy never holds all logits", "[linear_cross_entropy]") {
  Tensor x = randn({512, 4}).set_requires_grad(), w = randn({8192, 4}).set_requires_grad();
  const Tensor t = randint(0, 8192, {512}, {.dtype = i64});
  const std::size_t row = 8192 * sizeof(float);
  const auto peak = [&](bool recompute) {
    x.set_grad({}), w.set_grad({});
    const std::size_t before = memory_stats(cpu).in_use;
    reset_peak_stats(cpu);
    linear_cross_entropy(x, w, t, {.chunk_rows = 16, .recompute = recompute}).backward();
    return memory_stats(cpu).peak_in_use - before;
  };
  // All of them would be 512 rows, a chunk has 16; each thread's share of the peak is exact to two rows only.
  CHECK(peak(false) >= 8 * row);
  CHECK(peak(false) < 40 * row);
  CHECK(peak(true) < 40 * row);
}

TEST_CASE("linear_cross_entropy computes in forward what backward will need", "[linear_cross_entropy]") {
  const Tensor x = randn({6, 4}), t = randint(0, 5, {6}, {.dtype = i64});
  Tensor w = randn({5, 4}).set_requires_grad();
  CHECK(linear_cross_entropy(x, w, t).grad_fn_name() == "linear_cross_entropy");
  CHECK(linear_cross_entropy(x, w, t, {.recompute = true}).grad_fn_name() ==
        "linear_cross_entropy_recompute");
  CHECK(linear_cross_entropy(x, w, t, {.reduction = Reduction::none}).grad_fn_name() ==
        "linear_cross_entropy_recompute");
  CHECK(linear_cross_entropy(x.to(f16), w.to(f16), t).grad_fn_name() == "linear_cross_entropy_recompute");
  // A tape that is kept, and a gradient that is there already.
  const Tensor loss = linear_cross_entropy(x, w, t);
  loss.backward({}, true);
  const V once = values(w.grad());
  loss.backward(full({}, 2.0));
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(values(w.grad())[i] == Approx(3 * once[i]));
}

TEST_CASE("linear_cross_entropy with nothing to count", "[linear_cross_entropy]") {
  Tensor x = randn({2, 3}).set_requires_grad(), w = randn({4, 3}).set_requires_grad();
  const Tensor ignored = full({2}, -100, {.dtype = i64});
  for (const bool recompute : {false, true}) {
    x.set_grad({}), w.set_grad({});
    const Tensor loss = linear_cross_entropy(x, w, ignored, {.recompute = recompute});
    CHECK(std::isnan(loss.item()));
    loss.backward();
    CHECK(values(x.grad()) == V(6, 0));
    CHECK(values(w.grad()) == V(12, 0));
  }
}

TEST_CASE("linear_cross_entropy refuses what does not fit", "[linear_cross_entropy]") {
  const Tensor x = zeros({4, 3}), w = zeros({5, 3});
  CHECK_THROWS_AS(linear_cross_entropy(x, zeros({5, 2}), zeros({4}, {.dtype = i64})), ShapeError);
  CHECK_THROWS_AS(linear_cross_entropy(x, w, zeros({4})), DTypeError);
  CHECK_THROWS_AS(linear_cross_entropy(x, w, zeros({3}, {.dtype = i64})), ShapeError);
  CHECK_THROWS_AS(linear_cross_entropy(x, w, full({4}, 5, {.dtype = i64})), IndexError);
  CHECK_THROWS_AS(linear_cross_entropy(x, w, zeros({4}, {.dtype = i64}), {.chunk_rows = -1}), ValueError);
}

TEST_CASE("linear_cross_entropy on the GPU equals the CPU's", "[linear_cross_entropy][cuda]") {
  for (const DType dtype : {f32, bf16, f16})
    for (const std::int64_t classes : {7, 65, 1000, 50257}) {
      const Tensor x = randn({300, 64}, {.dtype = dtype}) * 0.3,
                   w = randn({classes, 64}, {.dtype = dtype}) * 0.3;
      const Tensor t = randint(0, classes, {300}, {.dtype = i64});
      for (const bool recompute : {false, true}) {
        const LinearCrossEntropyOptions options{.ignore_index = 3,
                                                .reduction = Reduction::sum,
                                                .label_smoothing = classes == 65 ? 0.1 : 0,
                                                .chunk_rows = 128,
                                                .recompute = recompute};
        const Result want = run(x.to(f64), w.to(f64), t, false, options);
        const Result got = run(x.to(cuda(0)), w.to(cuda(0)), t.to(cuda(0)), true, options);
        const double tolerance = dtype == f32 ? 1e-4 : dtype == f16 ? 5e-3 : 4e-2;
        CHECK(got.loss.item() == Approx(want.loss.item()).epsilon(tolerance));
        CHECK(largest_difference(got.dx, want.dx) < tolerance);
        CHECK(largest_difference(got.dw, want.dw) < tolerance);
      }
    }
}

TEST_CASE("linear_cross_entropy on the GPU reports labels out of range", "[linear_cross_entropy][cuda]") {
  const Tensor x = zeros({2, 4}, {.device = cuda(0)}).set_requires_grad(),
               w = zeros({10, 4}, {.device = cuda(0)});
  const Tensor loss = linear_cross_entropy(x, w, tensor({std::int64_t{3}, std::int64_t{11}}).to(cuda(0)));
  CHECK_THROWS_WITH(
      loss.item(),
      "[linear_cross_entropy] class label 11 is out of range for 10 classes; labels must lie in "
      "[0, 10) or equal ignore_index");
}

TEST_CASE("linear_cross_entropy's gradient does not depend on where the logits lie",
          "[linear_cross_entropy]") {
  check_moved_logits(cpu, 50, 1e-6);
}

TEST_CASE("linear_cross_entropy on the GPU: the gradient does not depend on where the logits lie",
          "[linear_cross_entropy][cuda]") {
  for (const std::int64_t classes : {50, 3001, 70000}) check_moved_logits(cuda(0), classes, 3e-6);
}

TEST_CASE("linear_cross_entropy refuses a gradient that its attributes have left out",
          "[linear_cross_entropy]") {
  using namespace loss::head;
  const Tensor t = tensor({std::int64_t{1}, std::int64_t{0}, std::int64_t{2}});
  for (const DType dtype : {f64, f32, bf16})
    for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum})
      for (const Eager eager : {kNone, kX, kWeight, kBoth})
        for (const int wanted : {1, 2, 3}) {
          INFO(dtype << ", reduction " << name(reduction) << ", eager " << int{eager} << ", wanted "
                     << wanted);
          const Attrs attrs{reduction, eager, -100, 0, 0};
          const auto leaf = [&](const Shape& shape, bool wants) {
            return testing::waves(shape, 1).to(dtype).set_requires_grad(wants);
          };
          const Tensor x = leaf({3, 4}, wanted & 1), w = leaf({5, 4}, wanted & 2);
          const Tensor loss = dispatch(*find_op("linear_cross_entropy"), {x, w, t}, attrs);
          if (reduction != Reduction::none && (wanted & ~eager) == 0) {
            loss.backward();
            const Result right = run(x, w, t, false, {.reduction = reduction});
            const double tolerance = dtype == bf16 ? 2e-2 : 1e-5;
            if (wanted & 1) CHECK(largest_difference(x.grad() * 0.5, right.dx) < tolerance);
            if (wanted & 2) CHECK(largest_difference(w.grad() * 0.5, right.dw) < tolerance);
          } else {
            CHECK_THROWS_AS(loss.backward(ones_like(loss.detach())), AutogradError);
          }
          if (eager != kNone)
            CHECK_THROWS_AS(dispatch(*find_op("linear_cross_entropy_recompute"), {x, w, t}, attrs),
                            ValueError);
        }
}
