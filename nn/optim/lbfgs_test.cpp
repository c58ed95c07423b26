#include <cmath>
#include <limits>
#include <stdexcept>

#include <cotangent/nn/optim/optim.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/catch.h"
#include "tests/optim_testing.h"

using namespace ct;
using namespace ct::optim;
using namespace ct::testing;

namespace {

using Loss = std::function<Tensor(const Tensor& x)>;

// The two functions of tests/golden/make_optim.py.
Tensor valley(const Tensor& x, double steep) {
  const std::int64_t n = x.size(0);
  const Tensor low = x.narrow(0, 0, n - 1), high = x.narrow(0, 1, n - 1);
  return (steep * square(high - square(low)) + square(1 - low)).sum();
}
Tensor rosenbrock(const Tensor& x) { return valley(x, 100); }
Tensor wide_valley(const Tensor& x) { return valley(x, 10); }
Tensor bowl(const Tensor& x) {
  const Tensor i = arange(1, x.size(0) + 1, 1, {.dtype = x.dtype(), .device = x.device()});
  return (i * square(x - 1) + square(square(x - 1))).sum() / 2 + square(x.sum()) / 4;
}

struct Problem {
  Loss loss_of;
  std::vector<Tensor> params;
  LBFGS lbfgs;

  Problem(Loss loss, const LBFGSOptions& options, DType dtype = f64, Device device = cpu)
      : loss_of(std::move(loss)),
        params{optim_initial({6}, 0, dtype, device), optim_initial({2, 2}, 1, dtype, device)},
        lbfgs(params, options) {}

  Tensor evaluate() {
    lbfgs.zero_grad();
    const Tensor loss = loss_of(concat({params[0], params[1].flatten()}));
    loss.backward();
    return loss;
  }
  double step() {
    return lbfgs.step([this] { return evaluate(); }).item();
  }
};

const LBFGSOptions wolfe{.line_search = LineSearch::strong_wolfe};

}  // namespace

TEST_CASE("LBFGS finds the minimum of a quadratic function", "[optim]") {
  // x A x / 2 - b x with A = M M^T + 1: the minimum solves A x = b.
  const Tensor m = optim_gradient({10, 10}, 3, 1, f64);
  const Tensor a = matmul(m, m.transpose(0, 1)) + eye(10, {.dtype = f64}),
               b = optim_gradient({10}, 1, 2, f64);
  const auto quadratic = [&](const Tensor& x) { return dot(x, matmul(a, x)) / 2 - dot(b, x); };
  for (const LineSearch search : {LineSearch::strong_wolfe, LineSearch::none}) {
    Problem problem(quadratic,
                    {.max_iter = 100, .tolerance_grad = 1e-12, .tolerance_change = 0, .line_search = search});
    problem.step();
    const Tensor x = concat({problem.params[0], problem.params[1].flatten()}).detach();
    // A line search ends where no parameter moves by more than 1e-9, which A makes larger.
    CHECK(allclose(matmul(a, x), b, 0, search == LineSearch::strong_wolfe ? 1e-6 : 1e-10));
  }
}

TEST_CASE("LBFGS walks through Rosenbrock's valley", "[optim]") {
  for (const DType dtype : {f64, f32}) {
    // The classical start, and its minimum.
    Tensor x = parameter({-1.2, 1}, dtype);
    LBFGS two({x}, {.max_iter = 100, .line_search = LineSearch::strong_wolfe});
    const Tensor begin = two.step([&] {
      two.zero_grad();
      const Tensor loss = rosenbrock(x);
      loss.backward();
      return loss;
    });
    CHECK(begin.item() == Approx(24.2));
    CHECK(worst_each(x.to_vector<double>(), {1, 1}, 1) < (dtype == f64 ? 1e-4 : 1e-2));
    CHECK(two.iterations() < 50);
    CHECK(two.evaluations() < 2 * two.iterations());

    // Ten numbers have a second minimum, of 3.98657911 (Shang and Qiu, 2006, for other lengths), which this start leads to.
    LBFGSOptions options = wolfe;
    options.max_iter = 200;
    Problem problem(rosenbrock, options, dtype);
    CHECK(problem.step() > 1000);
    CHECK(problem.evaluate().item() == Approx(3.98657911).epsilon(1e-6));
    for (const Tensor& p : problem.params) CHECK(norm(p.grad(), 2).item() < (dtype == f64 ? 1e-3 : 1e-1));
    CHECK(problem.lbfgs.iterations() < 150);
    // Nothing is left to do.
    const auto evaluations = problem.lbfgs.evaluations();
    problem.step();
    CHECK(problem.lbfgs.evaluations() <= evaluations + 30);
  }
}

TEST_CASE("LBFGS: every step of a line search falls enough and flattens the slope", "[optim]") {
  LBFGSOptions options = wolfe;
  options.max_iter = 1;
  Problem problem(rosenbrock, options);
  for (int t = 0; t < 40; ++t) {
    const std::vector<double> before = flat_values(problem.params);
    const double loss = problem.evaluate().item();
    const Tensor gradient = concat({problem.params[0].grad(), problem.params[1].grad().flatten()});
    problem.step();
    const Tensor moved = from_vector(flat_values(problem.params), {10}) - from_vector(before, {10});
    const double slope = dot(gradient, moved).item(), now = problem.evaluate().item();
    if (std::abs(slope) < 1e-9) break;  // at the minimum
    const Tensor there = concat({problem.params[0].grad(), problem.params[1].grad().flatten()});
    INFO("step " << t);
    CHECK(now <= loss + 1e-4 * slope);
    CHECK(std::abs(dot(there, moved).item()) <= -0.9 * slope * (1 + 1e-9));
  }
}

TEST_CASE("LBFGS equals PyTorch's", "[optim]") {
  struct Run {
    const char* name;
    Loss loss;
    LBFGSOptions options;
    double tolerance;
  };
  const Run runs[] = {
      {"lbfgs_wolfe", wide_valley, {.max_iter = 1, .line_search = LineSearch::strong_wolfe}, 1e-6},
      {"lbfgs_short",
       rosenbrock,
       {.lr = 0.5,
        .max_iter = 2,
        .max_eval = 100,
        .history_size = 3,
        .line_search = LineSearch::strong_wolfe},
       1e-6},
      {"lbfgs_plain",
       bowl,
       {.lr = 0.25, .max_iter = 2, .max_eval = 100, .tolerance_grad = 0, .tolerance_change = 0},
       1e-10}};
  for (const Run& run : runs) {
    const std::string name = run.name;
    Problem problem(run.loss, run.options);
    std::int64_t row = 0;
    for (std::int64_t t = 1; t <= 100; ++t) {
      const double loss = problem.step();
      INFO(name << ", step " << t);
      const auto at = static_cast<std::size_t>(t - 1);
      CHECK(loss ==
            Approx(optim_golden().at(name + ".trace").to_vector<double>()[at]).epsilon(1e-6).margin(1e-9));
      if (t <= 30)  // at the minimum the last digits decide
        CHECK(static_cast<double>(problem.lbfgs.evaluations()) ==
              optim_golden().at(name + ".evals").to_vector<double>()[at]);
      for (const std::int64_t kept : {1, 2, 3, 8, 32, 100})
        if (kept == t)
          CHECK(worst_each(flat_values(problem.params),
                           optim_golden().at(name + ".steps").select(0, row++).to_vector<double>(),
                           1) <= run.tolerance);
    }
    problem.evaluate();
    for (const Tensor& p : problem.params) CHECK(norm(p.grad(), 2).item() < 1e-3);
  }
}

TEST_CASE("LBFGS goes on where it stopped", "[optim]") {
  LBFGSOptions options = wolfe;
  options.max_iter = 3;
  options.max_eval = 100;
  options.history_size = 4;
  Problem whole(rosenbrock, options), first(rosenbrock, options), second(rosenbrock, options);
  for (int t = 0; t < 4; ++t) whole.step(), first.step();
  const StateDict state = first.lbfgs.state_dict().deep_copy();
  for (std::size_t i = 0; i < 2; ++i) second.params[i].detach().copy_(first.params[i].detach());
  second.lbfgs.load_state_dict(state);
  for (int t = 0; t < 4; ++t) whole.step(), second.step();
  CHECK(all_bytes(whole.params) == all_bytes(second.params));
  CHECK(whole.lbfgs.iterations() == second.lbfgs.iterations());
  CHECK(whole.lbfgs.evaluations() == second.lbfgs.evaluations());

  StateDict wrong = state;
  wrong.set_value("history", std::int64_t{1} << 60);
  CHECK_THROWS_AS(second.lbfgs.load_state_dict(wrong), ValueError);
  wrong = state;
  wrong.set("0.y", zeros({3}));
  CHECK_THROWS_AS(second.lbfgs.load_state_dict(wrong), ValueError);
  CHECK_THROWS_AS(second.lbfgs.load_state_dict(SGD({zeros({1}, {.requires_grad = true})}).state_dict()),
                  ValueError);
  LBFGS other({zeros({3}, {.requires_grad = true})});
  CHECK_THROWS_AS(other.load_state_dict(state), ValueError);
}

TEST_CASE("LBFGS calls its closure no more often than max_eval", "[optim]") {
  for (const std::int64_t most : {1, 2, 3, 4, 7}) {
    LBFGSOptions options = wolfe;
    options.max_iter = 100;
    options.max_eval = most;
    options.lr = 1e-3;  // a line search of many trials
    Problem problem(rosenbrock, options);
    double loss = problem.step();
    CHECK(problem.lbfgs.evaluations() <=
          std::max<std::int64_t>(most, 2));  // one for the loss, one for the step
    for (int i = 0; i < 3; ++i) {
      const double next = problem.step();
      CHECK(next <= loss);
      loss = next;
    }
  }
}

TEST_CASE("LBFGS: what its closure does wrong", "[optim]") {
  Problem problem(bowl, wolfe);
  CHECK_THROWS_AS(problem.lbfgs.step(LBFGS::Closure{}), ValueError);
  CHECK_THROWS_AS(problem.lbfgs.step([] { return Tensor(); }), ValueError);
  CHECK_THROWS_AS(problem.lbfgs.step([] { return zeros({2}); }), ValueError);
  // A closure that throws in the middle of a line search leaves the parameters where they were.
  const auto before = all_bytes(problem.params);
  int calls = 0;
  CHECK_THROWS_AS(problem.lbfgs.step([&] {
    if (++calls == 2) throw std::runtime_error("no more");
    return problem.evaluate();
  }),
                  std::runtime_error);
  CHECK(all_bytes(problem.params) == before);
  // The base class has no closure.
  problem.evaluate();
  Optimizer& base = problem.lbfgs;
  CHECK_THROWS_AS(base.step(), ValueError);
  CHECK(all_bytes(problem.params) == before);

  // A loss that is no number ends the search.
  Problem nan([](const Tensor& x) { return (x * std::numeric_limits<double>::quiet_NaN()).sum(); }, wolfe);
  CHECK(std::isnan(nan.step()));
  CHECK(nan.lbfgs.evaluations() < 600);
  // Parameters without a gradient stay.
  const Tensor still = ones({2}, {.requires_grad = true});
  Tensor moves = ones({2}, {.requires_grad = true});
  LBFGS some({still, moves});
  some.step([&] {
    some.zero_grad();
    const Tensor loss = square(moves).sum();
    loss.backward();
    return loss;
  });
  CHECK(still.to_vector<float>() == std::vector<float>{1, 1});
  CHECK(std::abs(moves.to_vector<float>()[0]) < 1e-3f);
}

TEST_CASE("LBFGS refuses options out of range", "[optim]") {
  const Tensor p = zeros({2}, {.requires_grad = true});
  CHECK_THROWS_AS(LBFGS({}), ValueError);
  CHECK_THROWS_AS(LBFGS({p}, {.lr = -1}), ValueError);
  CHECK_THROWS_AS(LBFGS({p}, {.max_iter = 0}), ValueError);
  CHECK_THROWS_AS(LBFGS({p}, {.max_eval = 0}), ValueError);
  CHECK_THROWS_AS(LBFGS({p}, {.tolerance_grad = -1}), ValueError);
  CHECK_THROWS_AS(LBFGS({p}, {.tolerance_change = std::nan("")}), ValueError);
  CHECK_THROWS_AS(LBFGS({p}, {.history_size = 0}), ValueError);
}

TEST_CASE("LBFGS on a GPU", "[optim][cuda]") {
  LBFGSOptions options = wolfe;
  options.max_iter = 200;
  Problem problem(rosenbrock, options, f64, cuda(0));
  problem.step();
  CHECK(problem.evaluate().item() == Approx(3.98657911).epsilon(1e-6));
}
