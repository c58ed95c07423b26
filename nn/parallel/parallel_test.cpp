#include <cotangent/cotangent.h>
#include <cotangent/nn/parallel/data_parallel.h>
#include <cotangent/nn/parallel/zero1.h>

#include "tests/catch.h"
#include "tests/dist_testing.h"
#include "tests/nn_testing.h"

using namespace ct;
using namespace ct::testing;
using dist::Group;

namespace {

struct Mlp : nn::Module {
  nn::Linear in = add("in", nn::Linear(6, 40));
  nn::Linear mid = add("mid", nn::Linear(40, 33, {.bias = false}));
  nn::Linear out = add("out", nn::Linear(33, 4));
  Tensor forward(const Tensor& x) const { return out(relu(mid(tanh(in(x))))); }
};

struct How {
  DType dtype = f64;
  std::optional<DType> wire = {};
  std::int64_t bucket_bytes = 3000;  // several buckets
  bool captured = false, zero1 = false, scaled = false;
  int micro = 1;
  Device device = cpu;
};

constexpr std::int64_t kBatch = 12;

// Losses and parameters after some steps of a rank with its share of each batch; `draw` seeds what ranks have in common.
std::vector<Tensor> train(const Group& g, const How& how, const Tensor& data, const Tensor& targets,
                          Mlp model, int steps = 6) {
  model.to(g.device(), how.dtype);
  nn::DataParallel parallel(model, g, {.bucket_bytes = how.bucket_bytes, .wire = how.wire});
  const auto groups = optim::decay_groups(model, optim::AdamWOptions{.lr = 0.02, .weight_decay = 0.1});
  std::unique_ptr<nn::Zero1<optim::AdamW>> shared;
  std::unique_ptr<optim::AdamW> own;
  if (how.zero1)
    shared = std::make_unique<nn::Zero1<optim::AdamW>>(parallel, groups);
  else
    own = std::make_unique<optim::AdamW>(groups);
  optim::AdamW& adam = shared ? shared->optimizer() : *own;
  optim::GradScaler scaler({.init_scale = 1024, .growth_interval = 2, .enabled = how.scaled});
  const std::int64_t share = kBatch / g.size() / how.micro;
  auto step = capture(
      [&](const Tensor& x, const Tensor& y) {
        parallel.zero_grad();
        Tensor total = zeros({}, {.dtype = how.dtype, .device = g.device()});
        for (int m = 0; m < how.micro; ++m) {
          std::optional<nn::DataParallel::NoSync> alone;
          if (m + 1 < how.micro) alone.emplace(parallel.buckets());
          const Tensor loss =
              mse_loss(model.forward(x.narrow(0, m * share, share)), y.narrow(0, m * share, share)) /
              how.micro;
          scaler.scale(loss).backward();
          total = total + loss.detach();
        }
        scaler.unscale_(adam);
        optim::clip_grad_norm_(model.parameters(), 0.5);
        scaler.step(adam);
        scaler.update();
        if (shared) shared->gather();
        return dist::all_reduce(total, g, dist::ReduceOp::mean);
      },
      {.enabled = how.captured});
  std::vector<Tensor> out;
  for (int i = 0; i < steps; ++i) {
    // Micro-steps of a rank are its part of each piece of the batch.
    std::vector<Tensor> x, y;
    for (int m = 0; m < how.micro; ++m) {
      const std::int64_t at = i * kBatch + m * (kBatch / how.micro) + g.rank() * share;
      x.push_back(data.narrow(0, at, share)), y.push_back(targets.narrow(0, at, share));
    }
    out.push_back(
        step(concat(x, 0).to(g.device(), how.dtype), concat(y, 0).to(g.device(), how.dtype)).clone());
  }
  if (how.captured && step.replays() == 0) throw Error("nothing was replayed");
  for (const Tensor& p : model.parameters()) out.push_back(p.detach().clone());
  if (shared) {
    std::int64_t bytes = 0;
    for (const auto& [name, t] : adam.state_dict()) bytes += t.nbytes();
    const StateDict all = shared->state_dict();
    shared->load_state_dict(all);
    for (const auto& [name, t] : adam.state_dict()) bytes -= t.nbytes();  // the same again
    if (bytes != 0) throw Error("a part of the state has another size than before");
  }
  return out;
}

struct Data {
  Tensor x, y;
  Mlp model;
};
const Data& data() {
  static const Data& d = *new Data([] {
    manual_seed(4);
    Data made;
    made.x = randn({kBatch * 8, 6}), made.y = randn({kBatch * 8, 4});
    return made;
  }());
  return d;
}

std::vector<std::vector<Tensor>> run(int ranks, const How& how, std::vector<Device> devices = {}) {
  const Data& d = data();
  std::vector<Mlp> models;
  for (int r = 0; r < ranks; ++r) {
    models.push_back(nn::clone(d.model));
    if (r > 0)  // rank 0's values count
      for (const Tensor& p : models.back().parameters()) {
        const NoGrad off;
        Tensor(p).zero_();
      }
  }
  return Ranks{ranks, std::move(devices)}.run(
      [&](const Group& g) { return train(g, how, d.x, d.y, models[static_cast<std::size_t>(g.rank())]); });
}

void check_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(equal(a[i], b[i]));
  }
}
void check_close(const std::vector<Tensor>& a, const std::vector<Tensor>& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i, max((a[i] - b[i]).abs()).item());
    CHECK(allclose(a[i], b[i], tolerance, tolerance));
  }
}

}  // namespace

TEST_CASE("DataParallel: ranks together compute what one does", "[dist][parallel]") {
  for (const bool scaled : {false, true})
    for (const int micro : {1, 2}) {
      const auto one = run(1, {.scaled = scaled, .micro = micro});
      for (const int n : {2, 3}) {
        CAPTURE(n, micro, scaled);
        const auto several = run(n, {.scaled = scaled, .micro = micro});
        for (const auto& rank : several) {
          check_same(rank, several[0]);
          check_close(rank, one[0], 1e-12);
        }
        check_same(run(n, {.scaled = scaled, .micro = micro})[0], several[0]);
        check_same(run(n, {.bucket_bytes = 1 << 20, .scaled = scaled, .micro = micro})[0], several[0]);
      }
    }
}

TEST_CASE("DataParallel: captured steps have the bits of plain ones", "[dist][parallel][capture]") {
  for (const DType dtype : {f64, f32, bf16})
    for (const bool zero1 : {false, true}) {
      CAPTURE(name(dtype), zero1);
      How how{.dtype = dtype, .zero1 = zero1, .micro = 2};
      const auto plain = run(2, how);
      how.captured = true;
      const auto captured = run(2, how);
      for (int r = 0; r < 2; ++r) check_same(captured[r], plain[r]);
    }
}

TEST_CASE("DataParallel: 16 bits on the wire", "[dist][parallel]") {
  const auto full_width = run(2, {.dtype = f32}), low = run(2, {.dtype = f32, .wire = bf16});
  check_close(low[0], full_width[0], 5e-2);  // a step of Adam is 0.02
  CHECK_FALSE(equal(low[0].back(), full_width[0].back()));
  check_same(low[1], low[0]);
}

TEST_CASE("Zero1: a part of the state on each rank, the same bits", "[dist][parallel]") {
  for (const DType dtype : {f64, f32, bf16})
    for (const int n : {1, 2, 3}) {
      CAPTURE(name(dtype), n);
      for (const bool scaled : {false, true}) {
        const auto whole = run(n, {.dtype = dtype, .scaled = scaled});
        const auto shared = run(n, {.dtype = dtype, .zero1 = true, .scaled = scaled});
        for (int r = 0; r < n; ++r) check_same(shared[r], whole[r]);
      }
    }
}

TEST_CASE("Zero1: memory of a rank", "[dist][parallel]") {
  const auto bytes = Ranks{2}.run([](const Group& g) {
    nn::Sequential model(nn::Linear(256, 512, {.dtype = bf16}), nn::Linear(512, 256, {.dtype = bf16}));
    nn::DataParallel parallel(model, g);
    nn::Zero1<optim::AdamW> adam(parallel, model.parameters(), optim::AdamWOptions{});
    sum(model(ones({2, 256}, {.dtype = bf16}))).backward();
    adam.step();
    std::int64_t bytes = 0;
    for (const auto& [name, t] : adam.optimizer().state_dict()) bytes += t.nbytes();
    return std::vector{full({}, static_cast<double>(bytes))};
  });
  const double whole = 12.0 * (256 * 512 * 2 + 512 + 256);
  for (const auto& rank : bytes) CHECK(rank[0].item() <= 0.505 * whole);
  CHECK(bytes[0][0].item() + bytes[1][0].item() == whole);
}

TEST_CASE("DataParallel: parameters without a part in the loss", "[dist][parallel]") {
  const auto go = [](bool synchronizes) {
    return Ranks{2}.run([&](const Group& g) {
      Mlp model;
      nn::Linear other = nn::Linear(3, 3);
      const nn::ModuleList<nn::Linear> both({model.out, other});
      nn::DataParallel parallel(both, g);
      for (int i = 0; i < 2; ++i) {
        sum(model.forward(full({2, 6}, g.rank() + 1.0))).backward();
        if (synchronizes) parallel.synchronize();
      }
      return std::vector{model.out.bias().grad(), other.bias().grad()};
    });
  };
  CHECK_THROWS_WITH(
      go(false),
      Catch::Contains("in the backward() before '1.bias', '1.weight' had none; call synchronize()"));
  for (const auto& rank : go(true)) {
    CHECK(equal(rank[0], full({4}, 4)));
    CHECK(equal(rank[1], zeros({3})));
  }
}

TEST_CASE("DataParallel: no_sync sends nothing", "[dist][parallel]") {
  const auto counts = Ranks{2}.run([](const Group& g) {
    Mlp model;
    nn::DataParallel parallel(model, g, {.bucket_bytes = 3000});
    const std::size_t before = g.log().size();
    const auto go = [&] { sum(model.forward(ones({2, 6}))).backward(); };
    {
      const auto off = parallel.no_sync();
      go();
    }
    const std::size_t alone = g.log().size() - before;
    go();
    return std::vector{
        full({}, static_cast<double>(alone)),
        full({}, static_cast<double>(g.log().size() - before - parallel.bucket_bytes().size()))};
  });
  for (const auto& rank : counts)
    for (const Tensor& count : rank) CHECK(count.item() == 0);
}

TEST_CASE("DataParallel: errors", "[dist][parallel]") {
  const Group alone;
  Mlp model;
  CHECK_THROWS_WITH(nn::DataParallel(model, alone, {.bucket_bytes = 0}),
                    Catch::Contains("bucket_bytes is 0"));
  CHECK_THROWS_WITH(nn::DataParallel(model, alone, {.wire = f64}), Catch::Contains("it must be bf16 or f16"));
  model.requires_grad_(false);
  CHECK_THROWS_WITH(nn::DataParallel(model, alone), Catch::Contains("no parameters that require a gradient"));
  CHECK_THROWS_WITH(
      Ranks{2}.run([](const Group& g) {
        nn::Linear layer(3, g.rank() + 2);
        nn::DataParallel parallel(layer, g);
        return std::vector<Tensor>{};
      }),
      Catch::Contains(
          "rank 1 makes broadcast f32[3, 3] from rank 0 where rank 0 makes broadcast f32[2, 3] from rank 0"));
  Mlp trained;
  nn::DataParallel parallel(trained, alone, {.bucket_bytes = 3000});
  CHECK(parallel.bucket_bytes().size() == 3);
  nn::ParameterShards shards(parallel);
  CHECK_THROWS_WITH(nn::ParameterShards(parallel), Catch::Contains("has shards already"));
  CHECK_THROWS_WITH(shards.parts(model.parameters()), Catch::Contains("is none of the model's"));
  shards.parts(trained.parameters());
  CHECK_THROWS_WITH(shards.parts(trained.parameters()), Catch::Contains("was asked for before"));
}

TEST_CASE("SyncBatchNorm: statistics of all ranks", "[dist][parallel]") {
  manual_seed(6);
  const Tensor x = randn({7, 3, 5}, {.dtype = f64}), c = randn({7, 3, 5}, {.dtype = f64});
  const auto go = [&](const Group& g, auto& norm, std::int64_t begin, std::int64_t count) {
    const Tensor mine = x.narrow(0, begin, count).clone().set_requires_grad();
    const Tensor y = norm(mine);
    sum(y * c.narrow(0, begin, count)).backward();
    Tensor weight = norm.weight().grad(), bias = norm.bias().grad();
    for (Tensor* t : {&weight, &bias}) *t = dist::all_reduce(*t, g);
    norm.eval();
    return std::vector{y.detach(),
                       mine.grad(),
                       weight,
                       bias,
                       Tensor(norm.running_mean()),
                       Tensor(norm.running_var()),
                       norm(mine).detach()};
  };
  for (const std::optional<double> momentum : {std::optional(0.3), std::optional<double>()}) {
    nn::BatchNorm1d plain(3, {.momentum = momentum, .dtype = f64});
    const auto whole = go(Group(), plain, 0, 7);
    for (const int n : {1, 2, 3}) {
      const auto ranks = Ranks{n}.run([&](const Group& g) {
        nn::SyncBatchNorm norm(3, g, {.momentum = momentum, .dtype = f64});
        const std::int64_t begin = 7 * g.rank() / g.size(), end = 7 * (g.rank() + 1) / g.size();
        return go(g, norm, begin, end - begin);
      });
      for (const std::size_t i : {0, 1, 6}) {
        std::vector<Tensor> parts;
        for (const auto& rank : ranks) parts.push_back(rank[i]);
        CHECK(allclose(concat(parts, 0), whole[i], 1e-12, 1e-12));
      }
      for (const std::size_t i : {2, 3, 4, 5})
        for (const auto& rank : ranks) CHECK(allclose(rank[i], whole[i], 1e-12, 1e-12));
    }
  }
}

TEST_CASE("DistributedSampler: another number of ranks sees the same global batches", "[dist][parallel]") {
  const auto batches = [](std::int64_t n, std::int64_t epoch) {
    std::vector<std::vector<std::int64_t>> list(10);
    for (std::int64_t r = 0; r < n; ++r) {
      const auto order =
          data::DistributedSampler(120, {.num_replicas = n, .rank = r, .seed = 3}).order(epoch);
      for (std::size_t i = 0; i < order.size(); ++i)
        list[i / static_cast<std::size_t>(12 / n)].push_back(order[i]);
    }
    for (auto& batch : list) std::ranges::sort(batch);
    return list;
  };
  for (const std::int64_t n : {2, 3, 4}) CHECK(batches(n, 5) == batches(1, 5));
  CHECK(batches(1, 5) != batches(1, 6));
}

TEST_CASE("DataParallel on GPUs", "[dist][parallel][cuda]") {
  const int gpus = cuda_device_count();
  if (gpus < 2) SUCCEED("two GPUs are wanted");
  for (int n = 2; n <= gpus && n <= 4; n += 2) {
    std::vector<Device> devices;
    for (int r = 0; r < n; ++r) devices.push_back(cuda(r));
    for (const bool zero1 : {false, true}) {
      CAPTURE(n, zero1);
      const auto one = run(1, {.zero1 = zero1, .device = cuda(0)}, {cuda(0)});
      const auto several = run(n, {.zero1 = zero1}, devices);
      for (const auto& rank : several) {
        check_same(rank, several[0]);
        check_close(rank, one[0], 1e-11);
      }
      check_same(run(n, {.zero1 = zero1}, devices)[0], several[0]);
      check_same(run(n, {.captured = true, .zero1 = zero1}, devices)[0], several[0]);
      const auto low = run(n, {.dtype = f32, .wire = bf16, .zero1 = zero1, .micro = 2}, devices);
      How captured{.dtype = f32, .wire = bf16, .captured = true, .zero1 = zero1, .micro = 2};
      check_same(run(n, captured, devices)[0], low[0]);
    }
  }
}
