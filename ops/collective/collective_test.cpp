#include <cotangent/ops/collective/collective.h>

#include <functional>
#include <memory>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/rng.h>
#include <cotangent/nn/capture/capture.h>
#include <cotangent/ops.h>
#include <cotangent/ops/collective/group_internal.h>

#include "tests/catch.h"
#include "tests/dist_testing.h"

using namespace ct;
using namespace ct::testing;
using dist::Group;
using dist::ReduceOp;

namespace {

constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min, ReduceOp::prod};

// Small whole numbers with a sign, of which sums and products are exact in every dtype.
std::vector<Tensor> inputs(int ranks, const Shape& shape, DType dtype) {
  manual_seed(5);
  std::vector<Tensor> list;
  for (int r = 0; r < ranks; ++r) list.push_back(randint(dtype == u8 ? 0 : -2, 3, shape).to(dtype));
  return list;
}

Tensor expected(const std::vector<Tensor>& x, ReduceOp op) {
  Tensor y = x[0].to(f64);
  for (std::size_t r = 1; r < x.size(); ++r) {
    const Tensor b = x[r].to(f64);
    y = op == ReduceOp::max    ? maximum(y, b)
        : op == ReduceOp::min  ? minimum(y, b)
        : op == ReduceOp::prod ? y * b
                               : y + b;
  }
  if (op == ReduceOp::mean) y = y / static_cast<double>(x.size());
  return y.to(x[0].dtype());
}

// All of a dtype by one group: to make one takes NCCL half a second.
void check_values(const Ranks& ranks, std::initializer_list<DType> dtypes) {
  const int n = ranks.count;
  const Shape shapes[] = {Shape{}, Shape{1}, Shape{7}, Shape{0, 3}, Shape{5, 3}, Shape{2, 3, 701}};
  for (const DType dtype : dtypes) {
    std::vector<std::vector<Tensor>> xs, wholes;
    for (Shape shape : shapes) {
      xs.push_back(inputs(n, shape, dtype));
      if (shape.size() > 0) shape[0] *= n;
      wholes.push_back(inputs(n, shape, dtype));
    }
    const auto has = [&](ReduceOp op) { return op != ReduceOp::mean || is_floating(dtype); };
    const auto y = ranks.run([&](const Group& g) {
      std::vector<Tensor> all;
      for (std::size_t k = 0; k < xs.size(); ++k) {
        const Tensor mine = xs[k][g.rank()].to(g.device());
        for (const ReduceOp op : kOps) {
          if (!has(op)) continue;
          Tensor place = mine.clone();
          dist::all_reduce_(place, g, op);
          all.insert(all.end(), {dist::all_reduce(mine, g, op), place});
        }
        all.insert(all.end(), {dist::broadcast(mine, g, g.size() - 1), dist::all_gather(mine, g)});
        if (mine.dim() > 0) all.push_back(dist::reduce_scatter(wholes[k][g.rank()].to(g.device()), g));
      }
      return all;
    });
    for (int r = 0; r < n; ++r) {
      auto got = y[r].begin();
      for (std::size_t k = 0; k < xs.size(); ++k) {
        const std::vector<Tensor>& x = xs[k];
        CAPTURE(n, r, name(dtype), describe(x[0]));
        for (const ReduceOp op : kOps) {
          if (!has(op)) continue;
          CAPTURE(static_cast<int>(op));
          CHECK(equal(*got++, expected(x, op)));
          CHECK(equal(*got++, expected(x, op)));
        }
        CHECK(equal(*got++, x.back()));
        std::vector<Tensor> parts = x;
        for (Tensor& t : parts)
          if (t.dim() == 0) t = t.reshape({1});
        CHECK(equal(*got++, concat(parts, 0)));
        if (x[0].dim() == 0) continue;
        const std::int64_t rows = x[0].size(0);
        CHECK(equal(*got++, expected(wholes[k], ReduceOp::sum).narrow(0, r * rows, rows)));
      }
      CHECK(got == y[r].end());
    }
  }
}

double inner(const Tensor& a, const Tensor& b) { return sum(a * b).item(); }

// Collectives are linear: the gradient is the adjoint, sum_r <c_r, f(x)_r> = sum_r <g_r, x_r>. So is the gradient's.
void check_gradient(int n, const std::function<Tensor(const Tensor&, const Group&)>& f) {
  const Ranks ranks{n};
  manual_seed(9);
  std::vector<Tensor> x, c;
  for (int r = 0; r < n; ++r) {
    x.push_back(randn({2 * n, 3}, {.dtype = f64}).set_requires_grad());
    c.push_back(randn({2 * n * n, 3}, {.dtype = f64}).set_requires_grad());
  }
  const auto y = ranks.run([&](const Group& g) {
    const int r = g.rank();
    const Tensor value = f(x[r], g);
    const Tensor cotangent = c[r].narrow(0, 0, value.size(0));
    const Tensor plain = grad({value}, {x[r]}, {cotangent.detach()}, {.retain_graph = true})[0];
    const Tensor taped = grad({value}, {x[r]}, {cotangent}, {.create_graph = true})[0];
    const Tensor second = grad({taped}, {c[r]}, {x[r].detach()})[0].narrow(0, 0, value.size(0));
    return std::vector{value.detach(), cotangent.detach(), plain, taped.detach(), second};
  });
  double left = 0, right = 0;
  for (int r = 0; r < n; ++r) {
    left += inner(y[r][0], y[r][1]);
    right += inner(y[r][2], x[r].detach());
    CHECK(allclose(y[r][2], y[r][3], 1e-14, 1e-14));
    CHECK(allclose(y[r][4], y[r][0], 1e-14, 1e-14));  // of <grad, x> by c: f(x)
  }
  CHECK(left == Approx(right).epsilon(1e-13));
}

}  // namespace

TEST_CASE("collectives: values", "[dist]") {
  for (const int n : {1, 2, 3, 4}) check_values({n}, {f32, f64, f16, bf16, i64, i32, u8});
}

TEST_CASE("collectives: bool, and tensors with gaps", "[dist]") {
  const Ranks ranks{2};
  const auto y = ranks.run([](const Group& g) {
    const Tensor mask = g.rank() == 0 ? ones({3}, {.dtype = boolean}) : zeros({3}, {.dtype = boolean});
    Tensor whole = zeros({4, 3});
    Tensor columns = whole.narrow(1, 1, 2);
    columns.copy_(full({4, 2}, g.rank() + 1));
    dist::all_reduce_(columns, g);
    return std::vector{dist::broadcast(mask, g), dist::all_gather(mask, g),
                       dist::all_reduce(whole.transpose(0, 1), g), whole};
  });
  for (const auto& rank : y) {
    CHECK(all(rank[0]).item<bool>());
    CHECK(sum(rank[1].to(i64)).item<std::int64_t>() == 3);
    CHECK(equal(rank[2], 2 * rank[3].transpose(0, 1)));
    CHECK(sum(rank[3]).item() == 24);
    CHECK(sum(rank[3].narrow(1, 0, 1)).item() == 0);
  }
}

TEST_CASE("all_reduce: the order of the ranks decides the bits, 16 bits are rounded once", "[dist]") {
  for (const int n : {2, 3, 4})
    for (const std::int64_t count : {5, 5000}) {
      manual_seed(2);
      std::vector<Tensor> x;
      for (int r = 0; r < n; ++r) x.push_back(randn({count}));
      Tensor sum = x[0];
      for (int r = 1; r < n; ++r) sum = sum + x[r];
      Tensor low = x[0].to(bf16).to(f32);
      for (int r = 1; r < n; ++r) low = low + x[r].to(bf16).to(f32);
      const auto y = Ranks{n}.run([&](const Group& g) {
        return std::vector{dist::all_reduce(x[g.rank()], g), dist::all_reduce(x[g.rank()].to(bf16), g)};
      });
      for (const auto& rank : y) {
        CHECK(equal(rank[0], sum));
        CHECK(equal(rank[1], low.to(bf16)));
      }
    }
}

TEST_CASE("all_reduce: NaN is the largest and the smallest", "[dist]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto y = Ranks{3}.run([&](const Group& g) {
    const Tensor x = tensor({g.rank() == 0 ? nan : 1.0, g.rank() == 2 ? nan : 1.0, 1.0});
    return std::vector{dist::all_reduce(x, g, ReduceOp::max), dist::all_reduce(x, g, ReduceOp::min)};
  });
  for (const auto& rank : y)
    for (const Tensor& t : rank) CHECK(t.isnan().to_vector<bool>() == std::vector<bool>{true, true, false});
}

TEST_CASE("collectives: gradients, and gradients of gradients", "[dist]") {
  for (const int n : {1, 2, 3}) {
    check_gradient(n, [](const Tensor& x, const Group& g) { return dist::all_reduce(x, g); });
    check_gradient(n, [](const Tensor& x, const Group& g) { return dist::all_reduce(x, g, ReduceOp::mean); });
    check_gradient(n, [](const Tensor& x, const Group& g) { return dist::broadcast(x, g, g.size() - 1); });
    check_gradient(n, [](const Tensor& x, const Group& g) { return dist::all_gather(x, g); });
    check_gradient(n, [](const Tensor& x, const Group& g) { return dist::reduce_scatter(x, g); });
    check_gradient(
        n, [](const Tensor& x, const Group& g) { return dist::reduce_scatter(x, g, ReduceOp::mean); });
  }
}

TEST_CASE("collectives: part of a captured step", "[dist][capture]") {
  const auto train = [](bool captured) {
    return Ranks{2}.run([&](const Group& g) {
      Tensor w = full({6}, 0.5, {.dtype = f64}), total = zeros({6}, {.dtype = f64});
      w.set_requires_grad();
      auto step = capture(
          [&](const Tensor& x) {
            w.set_grad({});
            Tensor loss = sum(square(dist::all_reduce(w * x, g, ReduceOp::mean)));
            loss.backward();
            const NoGrad off;
            Tensor gradient = w.grad();
            dist::all_reduce_(gradient, g);
            w.add_(gradient * -0.01);
            dist::all_gather_into(total, w.detach().narrow(0, 3 * g.rank(), 3).contiguous(), g);
            return loss;
          },
          {.enabled = captured});
      std::vector<Tensor> out;
      for (int i = 0; i < 7; ++i)
        out.push_back(step(full({6}, 1 + 0.1 * i + g.rank(), {.dtype = f64})).clone());
      out.push_back(full({}, static_cast<double>(step.replays()), {.dtype = f64}));
      out.push_back(w.detach());
      out.push_back(total);
      return out;
    });
  };
  const auto plain = train(false), replayed = train(true);
  for (std::size_t r = 0; r < 2; ++r) {
    CHECK(replayed[r][7].item() == 4);
    for (std::size_t i = 0; i < plain[r].size(); ++i)
      if (i != 7) CHECK(equal(plain[r][i], replayed[r][i]));
    CHECK(equal(plain[r][9], plain[r][8]));
  }
}

TEST_CASE("collectives: a recording keeps its group", "[dist][capture]") {
  std::uint64_t id = 0;
  {
    std::vector<std::function<void()>> steps(2);
    Ranks{2}.run([&](const Group& g) {
      auto step = capture([&](const Tensor& x) { return dist::all_reduce(x, g); });
      for (int i = 0; i < 5; ++i) step(ones({3}));
      if (g.rank() == 0) id = g.state().id;
      steps[g.rank()] = [kept = std::make_shared<decltype(step)>(std::move(step))] {};
      return std::vector<Tensor>{};
    });
    CHECK_NOTHROW(dist::detail::group_of("all_reduce", id));
  }
  CHECK_THROWS_WITH(dist::detail::group_of("all_reduce", id), Catch::Contains("has ended"));
}

TEST_CASE("collectives: errors", "[dist]") {
  const Group alone;
  const Tensor x = ones({3});
  CHECK_THROWS_WITH(dist::broadcast(x, alone, 1), Catch::Contains("root is 1; it must lie in [0, 1)"));
  CHECK_THROWS_AS(dist::all_reduce(ones({2}, {.dtype = i64}), alone, ReduceOp::mean), DTypeError);
  CHECK_THROWS_AS(dist::all_reduce(ones({2}, {.dtype = boolean}), alone), DTypeError);
  CHECK_THROWS_AS(dist::reduce_scatter(ones({}), alone), ShapeError);
  CHECK_THROWS_AS(dist::all_gather_into(zeros({4}), x, alone), ShapeError);
  CHECK_THROWS_AS(dist::all_gather_into(zeros({3}, {.dtype = f64}), x, alone), DTypeError);
  const Tensor leaf = ones({3}).set_requires_grad();
  CHECK_THROWS_WITH(dist::all_reduce(leaf, alone, ReduceOp::max),
                    Catch::Contains("only sums and means have one"));
  const NoGrad off;
  CHECK(equal(dist::all_reduce(leaf, alone, ReduceOp::max), x));
  CHECK_THROWS_AS(
      Ranks{2}.run([](const Group& g) { return std::vector{dist::reduce_scatter(ones({3}), g)}; }),
      ShapeError);
  CHECK_THROWS_WITH(Ranks{2}.run([](const Group& g) {
    dist::Group kept = g;
    return std::vector{dist::broadcast(ones({3}), kept, 2)};
  }),
                    Catch::Contains("it must lie in [0, 2)"));
}

TEST_CASE("collectives: a captured step of a group that has failed throws, and does not replay",
          "[dist][capture]") {
  const auto seen = Ranks{2}.run([&](const Group& g) {
    auto step = capture([&](const Tensor& x) { return dist::all_reduce(x, g); });
    for (int i = 0; i < 5; ++i) step(ones({3}));
    dist::barrier(g);
    const std::int64_t before = step.replays();
    g.abort("a program's own reason");
    bool threw = false;
    try {
      step(ones({3}));
    } catch (const PeerError&) { threw = true; }
    return std::vector{full({}, threw), full({}, before > 0), full({}, !step.captured())};
  });
  for (const auto& rank : seen)
    for (const Tensor& t : rank) CHECK(t.item() == 1);
}

TEST_CASE("a GPU that is not the current one: forward and backward", "[dist][cuda]") {
  if (cuda_device_count() < 2) {
    SUCCEED("two GPUs are wanted");
    return;
  }
  manual_seed(3);
  const Tensor x = randn({5, 7}), w = randn({7, 3});
  std::vector<Tensor> gradients;
  for (const Device device : {cpu, cuda(1)}) {
    const Tensor a = x.to(device).detach().set_requires_grad(), b = w.to(device).detach().set_requires_grad();
    sum(softmax(matmul(a, b), -1) * matmul(a, b) + sum(a)).backward();
    for (const Tensor& t : {a, b}) gradients.push_back(t.grad().to(cpu));
  }
  CHECK(allclose(gradients[2], gradients[0], 1e-4, 1e-4));
  CHECK(allclose(gradients[3], gradients[1], 1e-4, 1e-4));
}

TEST_CASE("collectives: a rank captures while another waits for its GPU", "[dist][cuda]") {
  if (cuda_device_count() < 2) {
    SUCCEED("two GPUs are wanted");
    return;
  }
  using namespace std::chrono_literals;
  const auto sums = Ranks{2, {cuda(0), cuda(1)}, 20s}.run([&](const Group& g) {
    auto step = capture([&](const Tensor& x) { return dist::all_reduce(x, g); });
    const Tensor x = full({64}, g.rank() + 1, {.device = g.device()});
    for (int i = 0; i < 3; ++i) step(x);
    if (g.rank() == 1) std::this_thread::sleep_for(500ms);
    const Tensor y = step(x);  // the graph is made here
    synchronize(g.device());
    return std::vector{y};
  });
  for (const auto& rank : sums) CHECK(equal(rank[0], full({64}, 3)));
}

TEST_CASE("collectives: a rank that is late to a captured step on GPUs", "[dist][cuda]") {
  if (cuda_device_count() < 2) {
    SUCCEED("two GPUs are wanted");
    return;
  }
  using namespace std::chrono_literals;
  const auto seen = Ranks{2, {cuda(0), cuda(1)}, 1000ms}.run([&](const Group& g) {
    auto step = capture([&](const Tensor& x) { return dist::all_reduce(x, g); });
    const Tensor x = ones({1 << 20}, {.device = g.device()});
    for (int i = 0; i < 4; ++i) step(x);
    if (g.rank() == 1) std::this_thread::sleep_for(4s);
    std::string why;
    try {
      step(x);
      synchronize(g.device());
      g.check();
      step(x);
    } catch (const PeerError& e) { why = e.what(); }
    return std::vector{full({}, why.find("the collectives of a captured step of rank 0") != why.npos)};
  });
  for (const auto& rank : seen) CHECK(rank[0].item() == 1);
}

TEST_CASE("collectives on GPUs", "[dist][cuda]") {
  const int gpus = cuda_device_count();
  if (gpus < 2) SUCCEED("two GPUs are wanted");
  for (int n = 2; n <= gpus && n <= 4; n += 2) {
    Ranks ranks{n};
    for (int r = 0; r < n; ++r) ranks.devices.push_back(cuda(r));
    check_values(ranks, {f32, f64, f16, bf16, i64, i32, u8});
  }
}
