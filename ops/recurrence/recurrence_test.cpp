#include <cotangent/cotangent.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "tests/catch.h"
#include "tests/nn_testing.h"
#include "tests/op_testing.h"

using namespace ct;
using ct::testing::values;
using ct::testing::worst;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

RecurrentWeights random_weights(std::int64_t gates, std::int64_t inputs, std::int64_t hidden) {
  const TensorOptions o{.dtype = f64};
  return {randn({gates * hidden, inputs}, o), randn({gates * hidden, hidden}, o), randn({gates * hidden}, o),
          randn({gates * hidden}, o)};
}
double at(const Tensor& t, std::int64_t i) { return t.to_vector<double>()[static_cast<std::size_t>(i)]; }

}  // namespace

TEST_CASE("rnn by hand", "[recurrence]") {
  // h1 = tanh(0.5 * 1 + 2 * 0.25 + 0.1 - 0.1), h2 = tanh(0.5 * -3 + 2 h1)
  RecurrentWeights w{values({1, 1}, {0.5}), values({1, 1}, {2}), values({1}, {0.1}), values({1}, {-0.1})};
  const Tensor x = values({2, 1, 1}, {1, -3}), h0 = values({1, 1}, {0.25});
  w.w_hh.set_requires_grad();
  const auto [y, h, c] = rnn(x, h0, w);
  const double h1 = std::tanh(1.0), h2 = std::tanh(2 * h1 - 1.5);
  CHECK(at(y, 0) == Approx(h1));
  CHECK(at(y, 1) == Approx(h2));
  CHECK(at(h, 0) == Approx(h2));
  CHECK_FALSE(c.defined());
  h.sum().backward();  // dh2/dw = (1 - h2^2) (h1 + w (1 - h1^2) h0)
  CHECK(w.w_hh.grad().item() == Approx((1 - h2 * h2) * (h1 + 2 * (1 - h1 * h1) * 0.25)));

  const auto clipped = rnn(x, h0, w, {}, true);  // 1, then 2 - 1.5
  CHECK(clipped.output.to_vector<double>() == std::vector<double>{1, 0.5});
  const auto backwards = rnn(x, h0, w, {.reverse = true}, true);  // max(-1.5 + 0.5, 0), then 0.5
  CHECK(backwards.output.to_vector<double>() == std::vector<double>{0.5, 0});
  CHECK(backwards.h.item() == 0.5);
}

TEST_CASE("gru by hand", "[recurrence]") {
  // r = s(0), z = s(ln 3) = 3/4, u_n = 4 * 0.5 + 1 = 3, n = tanh(0.5 + 3/2), h = n / 4 + 3/8
  const RecurrentWeights w{values({3, 1}, {0, 0, 0.25}), values({3, 1}, {0, 0, 4}),
                           values({3}, {0, std::log(3), 0}), values({3}, {0, 0, 1})};
  const auto made = gru(values({1, 1, 1}, {2}), values({1, 1}, {0.5}), w);
  CHECK(made.h.item() == Approx(std::tanh(2.0) / 4 + 0.375));
}

TEST_CASE("lstm by hand", "[recurrence]") {
  // i = s(0), f = s(ln 3) = 3/4, g = tanh(1), o = s(-ln 3) = 1/4; c = 3/4 * 2 + tanh(1) / 2
  const RecurrentWeights w{values({4, 1}, {0, 0, 1, 0}), values({4, 1}, {0, 0, 0, 0}),
                           values({4}, {0, std::log(3), 0, 0}), values({4}, {0, 0, 0, -std::log(3)})};
  const auto [y, h, c] = lstm(values({1, 1, 1}, {1}), {}, values({1, 1}, {2}), w);
  const double want = 1.5 + std::tanh(1.0) / 2;
  CHECK(c.item() == Approx(want));
  CHECK(h.item() == Approx(std::tanh(want) / 4));
  CHECK(y.item() == h.item());
}

TEST_CASE("a padded sequence is as long as its length", "[recurrence]") {
  manual_seed(1);
  const RecurrentWeights w = random_weights(4, 3, 4);
  const Tensor x = randn({6, 2, 3}, {.dtype = f64}).set_requires_grad();
  const Tensor lengths = tensor({2, 6}, {.dtype = i64});
  for (const bool reverse : {false, true}) {
    const auto padded = lstm(x, {}, {}, w, {lengths, reverse});
    const auto alone = lstm(x.narrow(1, 0, 1).narrow(0, 0, 2), {}, {}, w, {{}, reverse});
    CHECK(worst(padded.output.narrow(1, 0, 1).narrow(0, 0, 2), alone.output) < 1e-15);
    CHECK(worst(padded.h.narrow(0, 0, 1), alone.h) < 1e-15);
    CHECK(worst(padded.c.narrow(0, 0, 1), alone.c) < 1e-15);
    const auto behind = padded.output.narrow(1, 0, 1).narrow(0, 2, 4).to_vector<double>();
    CHECK(behind == std::vector<double>(16, 0.0));
    const Tensor dx = grad({padded.output.sum() + padded.c.sum()}, {x})[0].narrow(1, 0, 1);
    CHECK(dx.narrow(0, 2, 4).to_vector<double>() == std::vector<double>(12, 0.0));
    CHECK(max(abs(dx.narrow(0, 0, 2))).item() > 0);
  }
}

TEST_CASE("a layout, a state left out and an output not used change nothing", "[recurrence]") {
  manual_seed(2);
  RecurrentWeights w = random_weights(3, 3, 4);
  const Tensor x = randn({2, 5, 3}, {.dtype = f64}), time_first = x.transpose(0, 1);
  const auto a = gru(time_first, {}, w), b = gru(time_first.contiguous(), zeros({2, 4}, {.dtype = f64}), w);
  CHECK(worst(a.output, b.output) == 0);
  // The last output is the state: the same gradient by either way.
  w.w_ih.set_requires_grad();
  const auto made = gru(time_first, {}, w);
  const Tensor by_state = grad({made.h.sum()}, {w.w_ih}, {}, {.retain_graph = true})[0];
  const Tensor by_output = grad({made.output[4].sum()}, {w.w_ih})[0];
  CHECK(worst(by_state, by_output) < 1e-14);
}

TEST_CASE("NaN stays NaN from its step on", "[recurrence]") {
  RecurrentWeights w{values({1, 1}, {1}), values({1, 1}, {1})};
  const Tensor x = values({3, 1, 1}, {1, kNaN, 1});
  for (const DType dtype : {f64, f32})
    for (const bool relu : {false, true}) {
      const RecurrentWeights as{w.w_ih.to(dtype), w.w_hh.to(dtype)};
      const auto y = rnn(x.to(dtype), {}, as, {}, relu).output.to_vector<double>();
      CHECK_FALSE(std::isnan(y[0]));
      CHECK(std::isnan(y[1]));
      CHECK(std::isnan(y[2]));
    }
}

TEST_CASE("the memory of an lstm in 16 bits is added up in f32", "[recurrence]") {
  // All gates open: each step adds 1/128, which would be lost beside 4 if c were rounded to bf16.
  constexpr std::int64_t kSteps = 1024;
  const Tensor none = zeros({4, 1}, {.dtype = bf16});
  const Tensor open = values({4}, {30, 30, std::atanh(1.0 / 128), 30}).to(bf16);
  const auto made = lstm(zeros({kSteps, 1, 1}, {.dtype = bf16}), {}, {}, {none, none, open});
  CHECK(made.c.item() == Approx(8).epsilon(0.01));
}

TEST_CASE("recurrence under Autocast is computed in 16 bits and trains f32 weights", "[recurrence]") {
  manual_seed(3);
  RecurrentWeights w{randn({12, 3}), randn({12, 4}), randn({12}), randn({12})};
  for (Tensor* t : {&w.w_ih, &w.w_hh, &w.b_ih, &w.b_hh}) t->set_requires_grad();
  const Tensor x = randn({5, 2, 3});
  const auto gradient = [&](bool low) {
    std::optional<Autocast> guard;
    if (low) guard.emplace(bf16);
    const Tensor y = gru(x, {}, w).output;
    CHECK(y.dtype() == (low ? bf16 : f32));
    return grad({y.sum()}, {w.w_hh})[0];
  };
  const Tensor low = gradient(true), full = gradient(false);
  CHECK(low.dtype() == f32);
  CHECK(worst(low, full) < 0.05);
}
